// measured_table.cpp — tables with columns of their own: every row gives one line, and rows that no
// plan can represent give the reason.
#include "sim/calibrate/tables/measured_table.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/output/document.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

input::Table table(const std::vector<std::string>& columns,
                   const std::vector<std::vector<std::string>>& rows) {
  input::Table out;
  out.columns = columns;
  int line = 2;
  for (const std::vector<std::string>& cells : rows) {
    input::TableRow& row = out.rows.emplace_back();
    row.line = line++;
    for (std::size_t i = 0; i < columns.size(); ++i) row.cells[columns[i]] = cells[i];
  }
  return out;
}

const std::vector<std::string> context_columns = {
    "hardware",  "gqa_group_num",  "bs",          "seqlen",     "head_num",   "head_size",
    "ring_impl", "ulysses_degree", "ring_degree", "qkv_layout", "iters_per_s"};

std::vector<std::string> context_row(const char* ulysses, const char* ring, const char* order) {
  return {"8xA100-SXM4-80GB NVLink, one node",
          "1",
          "2",
          "128K",
          "8",
          "128",
          order,
          ulysses,
          ring,
          "no_packed",
          "20"};
}

std::vector<std::string> with(std::vector<std::string> row, const char* column, const char* text) {
  const auto found = std::ranges::find(context_columns, column);
  row[static_cast<std::size_t>(found - context_columns.begin())] = text;
  return row;
}

const std::vector<std::string> offload_columns = {"host_hint",
                                                  "model",
                                                  "tp",
                                                  "dp",
                                                  "layers",
                                                  "hidden",
                                                  "heads",
                                                  "seq",
                                                  "gbs",
                                                  "mbs",
                                                  "cpu_offload_ratio",
                                                  "subgroup_params",
                                                  "mode",
                                                  "opt_gap_k",
                                                  "iter_ms",
                                                  "fwd_ms",
                                                  "bwd_ms",
                                                  "step_ms",
                                                  "dir"};

std::vector<std::string> offload_row(const char* mode, const char* k) {
  // Layers so wide that kernels, not their launches by the CPU, determine the time.
  return {"ALCF Polaris node", "13B", "1", "4", "40", "5120", "40", "2048", "4", "1", "1",
          "100000000",         mode,  k,   "",  "",   "",     "",   ""};
}

}  // namespace

TEST_CASE("calibrate: a table of its own columns is known by them") {
  CHECK(measured_table(table(context_columns, {})) == &measured_tables()[0]);
  CHECK(measured_table(table(offload_columns, {})) == &measured_tables()[1]);
  CHECK(measured_table(table({"row_id", "gpu", "tp"}, {})) == nullptr);
}

TEST_CASE("calibrate: of attention over ranks nothing is read as what it is not") {
  const std::vector<std::string> usual = context_row("4", "2", "zigzag");
  const auto reason = [](const std::vector<std::string>& row) {
    answer::Sites sites;
    return predict(measured_tables()[0], table(context_columns, {row}), sites).front().reason;
  };
  CHECK(reason(usual).empty());
  CHECK(reason(with(usual, "ring_impl", "foo")) ==
        "ring_impl 'foo' is none of basic, stripe and zigzag");
  for (const char* text : {"128", "128K", "128k", "1M"})
    CHECK(reason(with(usual, "seqlen", text)).empty());
  for (const char* text : {"", "K", "0", "-1", "128KK", "8M", "1e6", "4194305"})
    CHECK(reason(with(usual, "seqlen", text)) == "no shape");
  std::vector<std::string> columns = context_columns, row = usual;
  columns.emplace_back("pass");
  row.emplace_back("fwd+bwd, causal");
  answer::Sites sites;
  CHECK(predict(measured_tables()[0], table(columns, {row}), sites).front().reason ==
        "pass 'fwd+bwd, causal': forward alone is replayed");
}

TEST_CASE("calibrate: attention over ranks is slower along a ring and with tokens in a row") {
  const input::Table rows =
      table(context_columns, {context_row("8", "1", "zigzag"), context_row("1", "8", "zigzag"),
                              context_row("1", "8", "basic")});
  answer::Sites sites;
  const std::vector<RowAnswer> answers = predict(measured_tables()[0], rows, sites);
  for (const RowAnswer& a : answers) REQUIRE(a.reason.empty());
  CHECK(*answers[0].predicted[0] > *answers[1].predicted[0]);
  CHECK(*answers[1].predicted[0] > 1.5 * *answers[2].predicted[0]);
  const std::string csv = to_csv(measured_tables()[0], answers);
  CHECK(csv.starts_with("row,status,reason,predicted_iter_per_s,"));
  CHECK(std::ranges::count(csv, '\n') == 4);
}

TEST_CASE("calibrate: short calls of attention take what the CPU of their machine takes") {
  std::vector<std::string> columns = context_columns;
  columns.emplace_back("host_factor");
  const auto row = [](const char* tokens, const char* layout, const char* factor) {
    std::vector<std::string> cells =
        with(with(context_row("4", "2", "zigzag"), "seqlen", tokens), "qkv_layout", layout);
    cells.emplace_back(factor);
    return cells;
  };
  const input::Table rows =
      table(columns,
            {row("8K", "no_packed", ""), row("8K", "no_packed", "1"), row("8K", "no_packed", "2"),
             row("8K", "qkvpack", "2"), row("128K", "no_packed", "1"), row("128K", "qkvpack", "1"),
             row("8K", "no_packed", "-1"), row("8K", "foo", "1")});
  answer::Sites sites;
  const std::vector<RowAnswer> answers = predict(measured_tables()[0], rows, sites);
  const auto rate = [&](std::size_t i) { return *answers[i].predicted[0]; };
  CHECK(rate(0) == rate(1));
  // The CPU alone sets the rate, and one exchange of packed tensors has fewer launches than three.
  CHECK(rate(2) < 0.7 * rate(1));
  CHECK(rate(3) > 1.2 * rate(2));
  // Long calls hide launches unless the CPU waits for the end of each call.
  CHECK(rate(4) < rate(5));
  CHECK(rate(4) > 0.9 * rate(5));
  CHECK(answers[6].reason == "host_factor '-1' is not a positive number");
  CHECK(answers[7].reason == "qkv_layout 'foo' is neither qkvpack nor no_packed");
}

TEST_CASE("calibrate: rows of attention that cannot be say why") {
  auto heads = context_row("8", "1", "zigzag");
  heads[4] = "12";
  auto missing = context_row("8", "1", "zigzag");
  missing[3] = "";
  auto gpu = context_row("8", "1", "zigzag");
  gpu[0] = "8xMI250X";
  auto many = context_row("4096", "2", "zigzag");
  std::vector<std::vector<std::string>> all = {heads, missing, gpu, many};
  for (const char* tokens : {"0", "-1", "4194305", "4097K", "K"}) {
    all.push_back(context_row("8", "1", "zigzag"));
    all.back()[3] = tokens;
  }
  const input::Table rows = table(context_columns, all);
  answer::Sites sites;
  const std::vector<RowAnswer> answers = predict(measured_tables()[0], rows, sites);
  CHECK(answers[0].impossible);
  CHECK(answers[0].reason.find("12 heads") != std::string::npos);
  CHECK(answers[1].reason == "no shape");
  CHECK(answers[2].reason.find("no profile") != std::string::npos);
  for (std::size_t i = 3; i < answers.size(); ++i) CHECK(answers[i].reason == "no shape");
}

TEST_CASE("calibrate: an optimizer on the CPU is faster flushed beside, and more so interleaved") {
  const input::Table rows =
      table(offload_columns, {offload_row("ZeRO-3 offload baseline (CPU update)", "0"),
                              offload_row("async grad flush only", "0"),
                              offload_row("DeepOptimizerStates (interleaved)", "2"),
                              offload_row("DeepOptimizerStates (interleaved)", "5")});
  answer::Sites sites;
  const std::vector<RowAnswer> a = predict(measured_tables()[1], rows, sites);
  for (const RowAnswer& one : a) REQUIRE(one.reason.empty());
  enum { iteration, forward, backward, step };
  CHECK(*a[1].predicted[backward] < *a[0].predicted[backward]);
  CHECK(*a[1].predicted[step] == Approx(*a[0].predicted[step]).epsilon(1e-4));
  CHECK(*a[2].predicted[step] < *a[3].predicted[step]);
  CHECK(*a[3].predicted[step] < *a[1].predicted[step]);
  for (const RowAnswer& one : a) {
    CHECK(*one.predicted[forward] == *a[0].predicted[forward]);
    CHECK(*one.predicted[iteration] > *one.predicted[forward] + *one.predicted[backward]);
  }
  CHECK(to_csv(measured_tables()[1], a)
            .starts_with("row,status,reason,predicted_iter_ms,predicted_fwd_ms,predicted_bwd_ms,"
                         "predicted_step_ms,"));
}

TEST_CASE("calibrate: rows of an optimizer on the CPU that cannot be say why") {
  auto batch = offload_row("async grad flush only", "0");
  batch[8] = "3";
  auto stride = offload_row("DeepOptimizerStates (interleaved)", "1");
  auto mode = offload_row("something new", "0");
  auto host = offload_row("async grad flush only", "0");
  host[0] = "a laptop";
  auto huge = offload_row("async grad flush only", "0");
  huge[5] = "99999999999999999999";
  const input::Table rows = table(offload_columns, {batch, stride, mode, host, huge});
  answer::Sites sites;
  const std::vector<RowAnswer> a = predict(measured_tables()[1], rows, sites);
  CHECK(a[0].impossible);
  CHECK_FALSE(a[1].impossible);  // no value of the column
  CHECK(a[1].reason.find("2 or more") != std::string::npos);
  CHECK(a[2].reason.find("something new") != std::string::npos);
  CHECK(a[3].reason.find("a laptop") != std::string::npos);
  CHECK(a[4].reason.find("hidden") != std::string::npos);
}

TEST_CASE("calibrate: the fastest stride is told beside how far repeated runs lie apart") {
  std::vector<std::string> columns = offload_columns;
  columns.push_back("n_iter_used");
  std::vector<std::vector<std::string>> rows;
  std::vector<RowAnswer> answers;
  const auto add = [&](const char* dir, const char* k, double measured, double predicted,
                       const char* iterations = "8") {
    std::vector<std::string> row = offload_row("DeepOptimizerStates (interleaved)", k);
    row.back() = dir;
    row.push_back(iterations);
    rows.push_back(row);
    answers.push_back({"", false, "", {predicted, {}, {}, {}}, {measured, {}, {}, {}}});
  };
  add("first", "2", 100, 10);
  add("first", "4", 110, 20);
  add("second", "2", 104, 10);
  add("second", "4", 102, 20);
  add("second", "3", 300, 5, "0");  // broke off
  CHECK(offload_summary(table(columns, rows), answers) ==
        "of 2 runs with several strides the fastest one is right in 1; elsewhere the one that is "
        "said took up to 2.0 % longer\n2 runs that were repeated differ by 4.0 to 7.8 %; of the 1 "
        "whose fastest stride leads by more than the least of these, 1 are right\n");
}

TEST_CASE("calibrate: errors of a measured table stand for all rows and for each group") {
  const MeasuredTable& kind = measured_tables().front();
  const auto answer = [](const char* group, double predicted, double measured) {
    RowAnswer a;
    a.group = group;
    a.predicted = {predicted};
    a.measured = {measured};
    return a;
  };
  RowAnswer none;
  none.reason = "no GPU";
  none.predicted.resize(1);
  none.measured.resize(1);
  const std::vector<RowAnswer> answers = {answer("a", 110, 100), answer("a", 120, 100),
                                          answer("b", 140, 100), none};
  const auto row = context_row("8", "1", "basic");
  const input::Table rows = table(context_columns, {row, row, row, row});
  const std::string text = output::text(document_of(kind, rows, answers));
  INFO(text);
  CHECK(text.find("4 rows, 3 predicted") != std::string::npos);
  // The quantity, its rows and counts, then the mean of their errors: (10 + 20 + 40) / 3, 15 and 40
  // %.
  const auto line = [&](const std::string& name) {
    const std::size_t at = text.find("  " + name + " ");
    return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
  };
  CHECK(line("all").find("23.3") != std::string::npos);
  CHECK(line("a").find("15.0") != std::string::npos);
  CHECK(line("b").find("40.0") != std::string::npos);
  CHECK(text.find("no GPU") != std::string::npos);
  CHECK(output::text(document_of(kind, table(context_columns, {row}), {none}))
            .find("nothing to compare") != std::string::npos);
}
