#include "sim/output/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/answer/run_cost.h"
#include "sim/output/csv.h"
#include "sim/output/document.h"

namespace sim::output {

namespace {

constexpr int digits = 4;

Json blank(const PointName& name) {
  Json json = {{"id", name.id}};
  for (const Column& column : record_columns()) json[column.key] = nullptr;
  json["point"] = name.point;
  json["family"] = name.family;
  if (!name.settings.empty()) json["settings"] = name.settings;
  if (name.counts_all_attention) json["throughput"] = "paper";
  return json;
}

void describe(Json& json, const program::Plan& plan, const std::string& cluster) {
  json["model"] = plan.architecture.name;
  json["cluster"] = cluster;
  json["gpus"] = plan.world();
  json["tp"] = plan.mesh.tp;
  json["cp"] = plan.mesh.cp;
  json["pp"] = plan.mesh.pp;
  json["dp"] = plan.mesh.dp;
  json["virtual_stages"] = plan.pipeline.virtual_stages;
  json["mbs"] = plan.batch.micro_batch;
  json["gbs"] = plan.batch.global_batch;
  json["seq"] = plan.batch.sequence;
  json["schedule"] = plan.pipeline.schedule;
  json["recompute"] = to_json(plan)["recompute"];
}

// Adds the shares of the step in percent, under the names of the columns.
void share(Json& json, const answer::Answer& answer) {
  using engine::Account;
  const std::vector<double> accounts = answer::mean_accounts(answer.run);
  const double step = answer::step_seconds(answer);
  const auto percent = [&](Account account) {
    return rounded(100 * accounts[static_cast<std::size_t>(account)] / step, digits);
  };
  json["compute_pct"] = percent(Account::compute);
  json["exposed_tp_pct"] = percent(Account::tp_exposed);
  json["exposed_cp_pct"] = percent(Account::cp_exposed);
  json["exposed_dp_pct"] = percent(Account::dp_exposed);
  json["optimizer_pct"] = percent(Account::optimizer);
  // The CPU's share includes waiting for data loaders.
  const double cpu = accounts[static_cast<std::size_t>(Account::host)] +
                     accounts[static_cast<std::size_t>(Account::data)];
  json["host_pct"] = rounded(100 * cpu / step, digits);
}

Json event(const engine::OutOfMemory& event) {
  return {{"stage", event.stage},
          {"cp_rank", event.cp_rank},
          {"step", event.place.step},
          {"microbatch", event.place.microbatch},
          {"pass", std::string(program::name(event.place.pass))},
          {"layer", event.place.layer},
          {"tensor", event.place.label},
          {"requested_bytes", event.requested.n},
          {"device_free_bytes", event.device_free.n},
          {"allocated_bytes", event.allocated.n},
          {"reserved_bytes", event.reserved.n},
          {"fragmentation_alone", event.fragmentation_alone}};
}

}  // namespace

std::string throughput_column(const std::vector<Json>& records) {
  const bool paper = std::ranges::all_of(
      records, [](const Json& record) { return record.value("throughput", "") == "paper"; });
  return paper && !records.empty() ? "tflops_gpu_paper" : "tflops_gpu_megatron";
}

const std::vector<Column>& record_columns() {
  constexpr bool words = true;
  static const std::vector<Column> all = {
      {"point", "point", "", 0, words},
      {"outcome", "outcome", "", 0, words},
      {"reason", "reason", "", 0, words},
      {"step_time_s", "step", "s", 3},
      {"tflops_gpu_paper", "TFLOP/s/GPU (paper)", "", 1},
      {"tokens_s_gpu", "tokens/s/GPU", "", 0},
      {"bubble_pct", "bubble", "%", 1},
      {"peak_allocated_gib", "allocated", "GiB", 2},
      {"peak_reserved_gib", "reserved", "GiB", 2},
      {"estimate_gib", "estimate", "GiB", 2},
      {"estimate_says_fits", "estimate says fits", "", 0},
      {"family", "family", "", 0, words},
      {"model", "model", "", 0, words},
      {"cluster", "cluster", "", 0, words},
      {"gpus", "GPUs", "", 0},
      {"tp", "TP", "", 0},
      {"cp", "CP", "", 0},
      {"pp", "PP", "", 0},
      {"dp", "DP", "", 0},
      {"virtual_stages", "virtual stages", "", 0},
      {"mbs", "mbs", "", 0},
      {"gbs", "gbs", "", 0},
      {"seq", "sequence", "", 0},
      {"schedule", "schedule", "", 0, words},
      {"recompute", "recompute", "", 0, words},
      {"capacity_gib", "of", "GiB", 2},
      {"tflops_gpu_megatron", "TFLOP/s/GPU (Megatron-LM)", "", 1},
      {"mfu_megatron_pct", "MFU (Megatron-LM)", "%", 1},
      {"hfu_pct", "HFU", "%", 1},
      {"textbook_bubble_pct", "textbook bubble", "%", 1},
      {"compute_pct", "compute", "%", 1},
      {"exposed_tp_pct", "exposed TP", "%", 1},
      {"exposed_cp_pct", "exposed CP", "%", 1},
      {"exposed_dp_pct", "exposed DP", "%", 1},
      {"optimizer_pct", "optimizer", "%", 1},
      {"host_pct", "host", "%", 1},
      {"tight", "tight", "", 0},
      {"fits_probability", "probability that it fits", "", 2},
  };
  return all;
}

const Column& cost_column() {
  static const Column column = {"cost_per_million_tokens", "cost/Mtoken", "", 3};
  return column;
}

void add_cost(Json& record, double price_per_gpu_hour) {
  const Json& rate = record["tokens_s_gpu"];
  if (price_per_gpu_hour <= 0 || !rate.is_number()) return;
  const answer::CostBasis basis{price_per_gpu_hour};
  record[cost_column().key] =
      rounded(answer::run_cost(basis, rate.get<double>(), 1).per_million_tokens, digits);
}

bool have_cost(const std::vector<Json>& records) {
  return std::ranges::any_of(records,
                             [](const Json& record) { return record.contains(cost_column().key); });
}

std::string record_problem(const Json& value) {
  if (!value.is_object()) return "is no record";
  for (const Column& column : record_columns()) {
    const auto cell = value.find(column.key);
    if (cell == value.end()) return "has no " + column.key;
    const bool right = column.left ? cell->is_string() : cell->is_number();
    if (!right && !cell->is_null())
      return column.key + " is not a " + (column.left ? "text" : "number");
  }
  const Json& outcome = value["outcome"];
  if (outcome == "fits" || outcome == not_asked) {
    for (const char* key :
         {"model", "cluster", "seq", "gpus", "tflops_gpu_paper", "tokens_s_gpu"}) {
      if (value[key].is_null()) return std::string("fits and has no ") + key;
    }
    return "";
  }
  if (outcome == "oom") {
    const auto at = value.find("out_of_memory");
    if (at == value.end() || !at->is_object()) return "ran out of memory and does not say where";
    for (const char* key : {"stage", "step"}) {
      if (!at->contains(key) || !(*at)[key].is_number()) return std::string("has no ") + key;
    }
    if (!at->contains("pass") || !(*at)["pass"].is_string()) return "has no pass";
    const auto alone = at->find("fragmentation_alone");
    if (alone == at->end() || !alone->is_boolean()) return "has no fragmentation_alone";
    return value["pp"].is_number() ? "" : "has no pp";
  }
  if (outcome != "impossible" && outcome != "failed") return "has an outcome that is none";
  return value["reason"].is_string() ? "" : "has no reason";
}

bool was_killed(const Json& record) {
  return record["outcome"] == "failed" &&
         record["reason"].get<std::string>().starts_with(killed_from_outside);
}

Json record(const PointName& name, const answer::Answer& answer) {
  Json json = blank(name);
  describe(json, answer.plan, answer.machine.cluster);
  const engine::RunReport& run = answer.run;
  const bool asked = engine::places_tensors(run.memory);
  json["outcome"] = !asked ? not_asked : run.fits() ? "fits" : "oom";
  json["reason"] = run.fits() ? "" : answer::oom_reason(run);
  if (run.fits()) {
    json["step_time_s"] = rounded(answer::step_seconds(answer), 9);
    json["tflops_gpu_paper"] = rounded(rate(answer, "paper").tflops_gpu, digits);
    json["tflops_gpu_megatron"] = rounded(rate(answer, "megatron").tflops_gpu, digits);
    json["tokens_s_gpu"] = rounded(answer::tokens_per_second_gpu(answer), digits);
    json["mfu_megatron_pct"] = rounded(100 * answer.mfu, digits);
    json["hfu_pct"] = rounded(100 * answer.hfu, digits);
    json["bubble_pct"] = rounded(100 * run.bubble, digits);
    share(json, answer);
  }
  json["textbook_bubble_pct"] = rounded(100 * answer::textbook_bubble(answer.plan), digits);
  json["capacity_gib"] = rounded(gib(answer::fullest(run).capacity), digits);
  if (run.memory != engine::MemoryDetail::none) {
    json["estimate_gib"] = rounded(answer.estimate.gib, digits);
    json["estimate_says_fits"] = answer.estimate.fits ? 1 : 0;
  }
  if (!asked) return json;
  json["peak_allocated_gib"] = rounded(gib(answer::peak_allocated(run)), digits);
  json["peak_reserved_gib"] = rounded(gib(answer::peak_reserved(run)), digits);
  if (run.bounded) {
    const double most = rounded(gib(answer::reserved_most(run)), digits);
    json["reason"] =
        fmt::format("reserved {:.1f}-{:.1f} GiB", gib(answer::peak_reserved(run)), most);
    json["peak_reserved_most_gib"] = most;
  }
  if (!run.fits() && run.ended_early)
    json["reason"] = fmt::format("{}; the replay ended there: it needs {:.1f} GiB or more",
                                 answer::oom_reason(run), gib(answer::peak_allocated(run)));
  json["tight"] = answer.verdict.tight ? 1 : 0;
  json["fits_probability"] = rounded(answer.verdict.fits_probability, digits);
  if (run.fits() && !run.steady) json["steady"] = false;
  if (!run.fits()) json["out_of_memory"] = event(*answer::fullest(run).out_of_memory);
  return json;
}

Json record(const PointName& name, const std::string& outcome, const std::string& reason,
            const program::Plan& plan, const std::string& cluster) {
  Json json = blank(name);
  json["outcome"] = outcome;
  json["reason"] = reason;
  describe(json, plan, cluster);
  return json;
}

std::string csv_header(const std::vector<Column>& columns) {
  std::vector<std::string> names;
  for (const Column& column : columns) names.push_back(column.key);
  return csv_line(names);
}

std::string csv_row(const Json& record, const std::vector<Column>& columns) {
  std::vector<std::string> fields;
  for (const Column& column : columns) {
    const auto value = record.find(column.key);
    if (value == record.end() || value->is_null()) {
      fields.emplace_back();
    } else {
      fields.push_back(value->is_string() ? value->get<std::string>() : line(*value));
    }
  }
  return csv_line(fields);
}

}  // namespace sim::output
