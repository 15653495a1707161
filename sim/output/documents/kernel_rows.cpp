#include "sim/output/documents/kernel_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "sim/engine/rank/queues.h"
#include "sim/output/few_rows.h"

namespace sim::output {

namespace {

using answer::StepOperation;
using program::Op;

constexpr std::size_t most_rows = 25;  // of a stage in text; JSON has all rows

std::string_view kind_name(model::OperationKind kind) {
  using enum model::OperationKind;
  switch (kind) {
    case gemm:
      return "gemm";
    case attention_forward:
    case attention_backward:
      return "attention";
    case norm:
      return "norm";
    case elementwise:
      return "elementwise";
    case softmax:
      return "softmax";
    case copy:
      return "copy";
    case reduction:
      return "reduction";
    case optimizer:
      return "optimizer";
    case embedding:
      return "embedding";
    case host_copy:
    case pageable_copy:
      return "PCIe copy";
    case cpu_update:
      return "CPU update";
  }
  return "";
}

// Operations of one name on one queue in one kind of pass.
struct KernelRow {
  std::string label, kind, pass, queue;
  std::int64_t calls = 0;
  Duration total{};    // with waits for partners
  Duration waiting{};  // for partners
  Duration exposed{};  // while no kernel runs and no other operation ends the wait
  Duration hidden{};   // while a kernel runs
  double flops = 0, bytes = 0;

  double rate(double work) const { return total > waiting ? work / seconds(total - waiting) : 0; }
};

// How much of an operation's time kernels hide.
struct Cover {
  Duration exposed{};  // no kernel runs, and the operation is the one that ends the wait
  Duration hidden{};   // a kernel runs
};

// Returns the operation on the network that ends a wait. No kernel runs until `next`. The operation
// is the last one to end until then; if none ends, it is the one that ends first.
std::size_t ending(const std::set<std::size_t>& messages,
                   const std::vector<StepOperation>& operations, Time next) {
  const auto rank = [&](std::size_t i) {
    const Time end = operations[i].end;
    return end <= next ? std::pair(1, end.ps) : std::pair(0, -end.ps);
  };
  return *std::ranges::max_element(messages, {}, rank);
}

// The cover of each operation, none of kernels. Exposed times add up to the time in which the rank
// does nothing else.
std::vector<Cover> covers(const std::vector<StepOperation>& operations) {
  struct Edge {
    Time at;
    std::size_t operation;
    bool begins;
  };
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const StepOperation& o = operations[i];
    if (o.op == Op::kernel && engine::resource_of(o.queue) != engine::Resource::sms) continue;
    edges.push_back({o.start, i, true});
    edges.push_back({o.end, i, false});
  }
  std::ranges::stable_sort(edges, {}, &Edge::at);
  std::vector<Time> starts;  // of kernels
  for (const Edge& edge : edges)
    if (edge.begins && operations[edge.operation].op == Op::kernel) starts.push_back(edge.at);
  std::vector<Cover> all(operations.size());
  std::set<std::size_t> messages;
  int kernels = 0;
  Time now{};
  for (const Edge& edge : edges) {
    const Duration passed = edge.at - now;
    now = edge.at;
    if (kernels > 0) {
      for (const std::size_t i : messages) all[i].hidden += passed;
    } else if (!messages.empty() && passed.ps > 0) {
      const auto next = std::ranges::lower_bound(starts, now);
      const Time until = next == starts.end() ? edges.back().at : *next;
      all[ending(messages, operations, until)].exposed += passed;
    }
    if (operations[edge.operation].op == Op::kernel)
      kernels += edge.begins ? 1 : -1;
    else if (edge.begins)
      messages.insert(edge.operation);
    else
      messages.erase(edge.operation);
  }
  return all;
}

struct StageTables {
  std::vector<KernelRow> kernels, collectives;
};

void describe(const program::Program& program, const StepOperation& o, KernelRow& row) {
  if (o.op == Op::kernel) {
    const model::Operation& operation = program.operations[o.index];
    row.kind = kind_name(operation.kind);
    row.flops += operation.flops;
    row.bytes += static_cast<double>(operation.bytes.n);
    row.queue = program::name(o.queue);
    return;
  }
  row.queue = mesh::name(engine::communicator_of(o.queue));
  if (o.op == Op::collective) {
    const program::Transfer& transfer = program.transfers[o.index];
    row.kind = collective::name(transfer.kind);
    row.bytes += static_cast<double>(transfer.bytes.n);
    return;
  }
  row.kind = collective::name(collective::Kind::send_receive);
  for (const program::Message& message : program.exchanges[o.index].messages)
    row.bytes += static_cast<double>(message.bytes.n);
}

// The part of an operation's own time in which its ranks arrive (engine/price/price.cpp).
Duration arriving(const program::Program& program, const StepOperation& o, Duration arrival) {
  if (o.op == Op::kernel) return {};
  if (o.op == Op::exchange) return std::min(o.own(), arrival);
  const program::Transfer& transfer = program.transfers[o.index];
  return transfer.followed ? Duration{} : std::min(o.own(), Duration{arrival.ps / transfer.pieces});
}

StageTables tables_of(const program::Program& program, const std::vector<StepOperation>& operations,
                      Duration arrival) {
  const std::vector<Cover> cover = covers(operations);
  std::map<std::tuple<program::Stream, std::string, program::PassKind, Op>, KernelRow> rows;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const StepOperation& o = operations[i];
    KernelRow& row = rows[{o.queue, o.label, o.pass, o.op}];
    row.label = o.label;
    row.pass = program::name(o.pass);
    describe(program, o, row);
    ++row.calls;
    row.total += o.end - o.start;
    row.waiting += o.met - o.start + arriving(program, o, arrival);
    row.exposed += cover[i].exposed;
    row.hidden += cover[i].hidden;
  }
  StageTables tables;
  for (auto& [key, row] : rows) {
    if (row.total.ps == 0) continue;
    (std::get<Op>(key) == Op::kernel ? tables.kernels : tables.collectives)
        .push_back(std::move(row));
  }
  for (std::vector<KernelRow>* table : {&tables.kernels, &tables.collectives})
    std::ranges::stable_sort(*table, std::greater<>(), &KernelRow::total);
  return tables;
}

Column milliseconds_of(const char* key, const char* heading) {
  return {key, heading, "ms", 2, false, "", 1e3};
}

Json known(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

std::vector<Json> kernel_cells(const KernelRow& row, double step) {
  return {row.label,
          row.kind,
          row.pass,
          row.queue,
          row.calls,
          seconds(row.total),
          seconds(row.total) / step,
          seconds(row.total) / static_cast<double>(row.calls),
          known(row.rate(row.flops) * 1e-12),
          row.flops > 0 ? Json(nullptr) : known(row.rate(row.bytes) * 1e-9)};
}

std::vector<Json> collective_cells(const KernelRow& row, double step) {
  return {row.label,
          row.kind,
          row.pass,
          row.queue,
          row.calls,
          static_cast<std::int64_t>(row.bytes),
          seconds(row.total),
          seconds(row.total) / step,
          seconds(row.waiting),
          seconds(row.exposed),
          seconds(row.hidden),
          known(row.rate(row.bytes) * 1e-9)};
}

// A table and what fills its rows.
struct Form {
  const char *name, *title;
  std::vector<Column> columns;
  std::vector<KernelRow> StageTables::*rows;
  std::vector<Json> (*cells)(const KernelRow& row, double step);
};

Form kernels_form() {
  return {"kernels",
          "kernels of the step",
          {{"operation", "operation", "", 0, true},
           {"kind", "kind", "", 0, true},
           {"pass", "pass", "", 0, true},
           {"stream", "", "", 0, true},
           {"calls", "calls", "", 0},
           milliseconds_of("total_s", "total"),
           {"share", "step", "", 1, false, " %", 100},
           {"call_s", "a call", "us", 1, false, "", 1e6},
           {"tflops", "TFLOP/s", "", 0},
           {"gb_s", "GB/s", "", 0}},
          &StageTables::kernels,
          kernel_cells};
}

Form collectives_form() {
  return {"collectives",
          "collectives and messages of the step (total with waiting for ranks that come later; "
          "exposed: no kernel runs, counted for the one that ends the wait)",
          {{"operation", "operation", "", 0, true},
           {"kind", "", "", 0, true},
           {"pass", "pass", "", 0, true},
           {"communicator", "group", "", 0, true},
           {"calls", "calls", "", 0},
           {"bytes", "bytes", "", 2, false, "", 1, Show::bytes},
           milliseconds_of("total_s", "total"),
           {"share", "step", "", 1, false, " %", 100},
           milliseconds_of("waiting_s", "waiting"),
           milliseconds_of("exposed_s", "exposed"),
           milliseconds_of("hidden_s", "hidden"),
           {"gb_s", "GB/s", "", 1}},
          &StageTables::collectives,
          collective_cells};
}

Rows rows_of(const Form& form, const std::vector<KernelRow>& rows, double step) {
  Rows out{form.name, form.title, form.columns, {}, true};
  for (const KernelRow& row : rows) out.cells.push_back(form.cells(row, step));
  return out;
}

std::vector<int> first_classes(const mesh::Mesh& mesh) {
  std::vector<int> classes(static_cast<std::size_t>(mesh.degrees().pp), -1);
  std::vector<int> first(classes.size(), mesh.world());
  for (int c = 0; c < mesh.classes(); ++c) {
    const auto stage = static_cast<std::size_t>(mesh.coordinates(c).stage);
    const int rank = mesh.ranks_of(c).front();
    if (rank >= first[stage]) continue;
    first[stage] = rank;
    classes[stage] = c;
  }
  return classes;
}

}  // namespace

KernelTables::KernelTables(std::shared_ptr<const program::Job> job, Duration arrival)
    : job_(std::move(job)),
      arrival_(arrival),
      classes_(first_classes(job_->mesh)),
      recorder_(classes_) {}

std::vector<Block> KernelTables::blocks(const answer::Answer& answer) const {
  const double step = answer::step_seconds(answer);
  const Form forms[] = {kernels_form(), collectives_form()};
  std::vector<Block> blocks;
  std::vector<Rows> all;
  for (const Form& form : forms) {
    all.push_back(rows_of(form, {}, step));
    for (const char* key : {"rank", "stage"})
      all.back().columns.insert(all.back().columns.begin(), Column{key});
  }
  for (const int rank_class : classes_) {
    const program::Program& program = job_->classes[static_cast<std::size_t>(rank_class)];
    const StageTables tables =
        tables_of(program, recorder_.operations(rank_class, program), arrival_);
    const int rank = job_->mesh.ranks_of(rank_class).front();
    for (std::size_t f = 0; f < all.size(); ++f) {
      Rows rows = rows_of(forms[f], tables.*forms[f].rows, step);
      if (rows.cells.empty()) continue;
      blocks.emplace_back(few_rows(rows, most_rows));
      Rows& few = std::get<Rows>(blocks.back());
      few.title = fmt::format("stage {} (rank {}): {}", program.stage, rank, few.title);
      for (std::vector<Json>& cells : rows.cells) {
        cells.insert(cells.begin(), {program.stage, rank});
        all[f].cells.push_back(std::move(cells));
      }
    }
  }
  for (Rows& rows : all) blocks.emplace_back(std::move(rows));
  return blocks;
}

}  // namespace sim::output
