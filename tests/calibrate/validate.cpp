#include "sim/calibrate/validate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/output/document.h"
#include "tests/picture.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

Prediction predicted(const std::string& id, double tflops) {
  Prediction p;
  p.row_id = id;
  p.status = "predicted";
  p.tflops_gpu = tflops;
  p.oom = false;
  p.rule_says_oom = false;
  return p;
}

Row row(const std::string& id, const std::string& tflops, const std::string& oom = "0") {
  return {{"row_id", id}, {"tflops_gpu", tflops}, {"oom", oom}, {"source_group", "s"}};
}

}  // namespace

TEST_CASE("calibrate: errors are relative to what was measured") {
  // Predicted 90 against measured 100 is 10 % too little, 220 against 200 is 10 % too much, 150
  // against 100 is 50 % too much.
  const std::vector<Row> rows = {row("a", "100"), row("b", "200"), row("c", "100"), row("d", "")};
  const std::vector<Prediction> said = {predicted("a", 90), predicted("b", 220),
                                        predicted("c", 150), predicted("d", 1)};
  const Errors e = errors(rows, said, quantities()[0]);
  CHECK(e.rows == 3);
  CHECK(e.mean == Approx(70.0 / 3));
  CHECK(e.median == Approx(10));
  CHECK(e.p90 == Approx(50));  // nearest rank: ceil(0.9 x 3) = the third of 10, 10, 50
  CHECK(e.most == Approx(50));
  CHECK(e.worst == "c");
  CHECK(e.bias == Approx(50.0 / 3));
}

TEST_CASE("calibrate: rows that ran out of memory or have no prediction are not compared") {
  const std::vector<Row> rows = {row("a", "100", "1"), row("b", "200")};
  std::vector<Prediction> said = {predicted("a", 90), predicted("b", 220)};
  said[1].status = "unsupported";
  CHECK(errors(rows, said, quantities()[0]).rows == 0);
}

TEST_CASE("calibrate: a row whose number of GPUs is not published is in no error and no residual") {
  const std::vector<Row> rows = {row("a", "100"), row("b", "200")};
  std::vector<Prediction> said = {predicted("a", 90), predicted("b", 100)};
  said[1].assumes_gpus = true;
  CHECK(errors(rows, said, quantities()[0]).worst == "a");
  CHECK(errors(rows, said, quantities()[0]).rows == 1);
  CHECK_FALSE(relative_error(rows[1], said[1], quantities()[0]).has_value());
  REQUIRE(residuals_of(rows, said, "x").groups.size() == 1);
  CHECK(residuals_of(rows, said, "x").groups[0].values.size() == 1);
  CHECK(from_text(to_text(said[1])).assumes_gpus);
  const std::string text = output::text(validation_answer(rows, said));
  CHECK(text.find("1 row is not among them") != std::string::npos);
}

TEST_CASE("calibrate: rows that ran and are said to run out of memory are counted as left out") {
  const std::vector<Row> rows = {row("a", "100", "0"), row("b", "200", "0"), row("c", "", "1")};
  std::vector<Prediction> said = {predicted("a", 90), predicted("b", 100), predicted("c", 1)};
  const std::string none = output::text(validation_answer(rows, said));
  CHECK(none.find("not among them") == std::string::npos);
  said[1].oom = said[2].oom = true;
  const std::string text = output::text(validation_answer(rows, said));
  CHECK(text.find("1 row is not among them: it ran, but the replay") != std::string::npos);
}

TEST_CASE("calibrate: outcomes make a two-by-two table for the replay and for the rule") {
  const std::vector<Row> rows = {row("a", "1", "0"), row("b", "", "1"), row("c", "", "1"),
                                 row("d", "1", "")};
  std::vector<Prediction> said = {predicted("a", 1), predicted("b", 1), predicted("c", 1),
                                  predicted("d", 1)};
  said[1].oom = true;
  said[0].rule_says_oom = true;
  const Outcomes replay = outcomes(rows, said, Judge::replay);
  CHECK(replay.rows() == 3);  // d does not state its outcome
  CHECK(replay.counts[0][0] == 1);
  CHECK(replay.counts[1][1] == 1);
  CHECK(replay.counts[1][0] == 1);
  CHECK(replay.right_pct() == Approx(200.0 / 3));
  CHECK(outcomes(rows, said, Judge::rule).right_pct() == Approx(0));
}

TEST_CASE("calibrate: what programs read has the errors and the outcomes of every judge") {
  const std::vector<Row> rows = {row("a", "100"), row("b", "", "1"), row("c", "200")};
  std::vector<Prediction> said = {predicted("a", 90), predicted("b", 1), predicted("c", 220)};
  said[1].oom = true;
  said[2].rule_says_oom = true;
  output::Json json = output::result(validation_answer(rows, said));
  for (output::Json part : {json["overall"], json["groups"]["s"], json["not_fitted_on"]}) {
    CHECK(part["tflops_gpu"]["rows"] == 2);
    for (const auto& [judge, name] : {std::pair{Judge::replay, "outcome"},
                                      {Judge::decided, "outcome_decided"},
                                      {Judge::likely, "outcome_likely"},
                                      {Judge::rule, "outcome_80_percent_rule"}}) {
      const Outcomes o = outcomes(rows, said, judge);
      INFO(name);
      CHECK(part[name]["rows"] == 3);
      CHECK(part[name]["right_pct"] == o.right_pct());
      CHECK(part[name]["ran_said_oom"] == o.counts[0][1]);
      CHECK(part[name]["oom_said_fits"] == o.counts[1][0]);
    }
  }
}

TEST_CASE("calibrate: tight outcomes are left undecided, or counted on their more likely side") {
  const std::vector<Row> rows = {row("a", "1", "0"), row("b", "", "1"), row("c", "", "1")};
  std::vector<Prediction> said = {predicted("a", 1), predicted("b", 1), predicted("c", 1)};
  said[1].tight = true;
  said[1].fits_probability = 0.4;
  said[2].tight = true;
  said[2].fits_probability = 0.6;
  CHECK(outcomes(rows, said, Judge::replay).right_pct() == Approx(100.0 / 3));
  CHECK(outcomes(rows, said, Judge::decided).rows() == 1);
  CHECK(outcomes(rows, said, Judge::decided).right_pct() == Approx(100));
  CHECK(outcomes(rows, said, Judge::likely).right_pct() == Approx(200.0 / 3));
}

TEST_CASE("calibrate: of the points with a probability as many ran, by tenths") {
  std::vector<Row> rows;
  std::vector<Prediction> said;
  const auto add = [&](double probability, const char* oom) {
    const std::string name(1, static_cast<char>('a' + rows.size()));
    rows.push_back(row(name.c_str(), oom[0] == '0' ? "1" : "", oom));
    said.push_back(predicted(name.c_str(), 1));
    said.back().fits_probability = probability;
  };
  add(0.78, "0");
  add(0.82, "0");
  add(0.81, "1");
  add(0.12, "1");
  add(0.52, "0");
  const std::string text = output::text(validation_answer(rows, said));
  INFO(text);
  CHECK(text.find("probability that it fits  rows    ran") != std::string::npos);
  CHECK(text.find("12 %     1    0 %") != std::string::npos);
  CHECK(text.find("52 %     1  100 %") != std::string::npos);
  CHECK(text.find("80 %     3   67 %") != std::string::npos);
}

TEST_CASE("calibrate: a prediction survives the way from its worker") {
  Prediction p = predicted("T1", 123.5);
  p.reason = "assumed: \"x\", y";
  p.assumptions = {"x", "y"};
  p.reserved_gib = 1.5;
  const Prediction back = from_text(to_text(p));
  CHECK(to_text(back) == to_text(p));
  CHECK(back.tflops_gpu == 123.5);
  CHECK_FALSE(back.iter_time_s.has_value());
}

TEST_CASE("calibrate: the CSV has one line per row with the columns in order") {
  Prediction oom = predicted("T2", 0);
  oom.tflops_gpu.reset();
  oom.oom = true;
  oom.reason = "stage 0, layer 3";
  Prediction fits = predicted("T1", 123.5);
  fits.iter_time_s = 2;
  fits.allocated_gib = 10;
  fits.reserved_gib = 11;
  fits.bubble_pct = 3;
  fits.fitted = true;
  fits.intervals.resize(quantities().size());
  fits.intervals[iteration_time] = answer::Interval{1.5, 2.5};
  Prediction none;
  none.row_id = "T3";
  none.status = "unsupported";
  none.reason = "no profile";
  CHECK(predictions_csv({fits, oom, none}) ==
        "row_id,status,reason,predicted_iter_time_s,predicted_tflops_gpu,"
        "predicted_mem_alloc_peak_gib,predicted_mem_reserved_peak_gib,predicted_oom,"
        "predicted_bubble_pct,predicted_tflops_gpu_lo90,predicted_tflops_gpu_hi90,"
        "predicted_iter_time_s_lo90,predicted_iter_time_s_hi90,"
        "predicted_mem_alloc_peak_gib_lo90,predicted_mem_alloc_peak_gib_hi90,"
        "predicted_mem_reserved_peak_gib_lo90,predicted_mem_reserved_peak_gib_hi90,"
        "predicted_bubble_pct_lo90,predicted_bubble_pct_hi90,fitted,predicted_tight,"
        "predicted_fits_probability\n"
        "T1,predicted,,2.000000,123.5000,10.0000,11.0000,0,3.0000,,,1.500000,2.500000,,,,,,,1,,\n"
        "T2,predicted,\"stage 0, layer 3\",,,,,1,,,,,,,,,,,,0,,\n"
        "T3,unsupported,no profile,,,,,,,,,,,,,,,,,,,\n");
}

TEST_CASE("calibrate: residuals of the rows give intervals that hold nine in ten of them") {
  // The measured rate is 100. The predictions are 100 e^x with x = -0.30, -0.29, ... 0.30. So
  // ln(time measured / time predicted) = ln(rate predicted / rate measured) = x. One source
  // makes no class, so all rows count, the fitted one too. Without a row, the i-th of 60 values
  // stands at i / 61 and the third at 5 %, so 3 rows lie outside on either side.
  std::vector<Row> rows;
  std::vector<Prediction> said;
  for (int i = 0; i < 61; ++i) {
    rows.push_back(row(std::to_string(i), "100"));
    said.push_back(predicted(std::to_string(i), 100 * std::exp(-0.30 + 0.01 * i)));
    said.back().fitted = i == 0;
  }
  const input::RunResiduals residuals = residuals_of(rows, said, "x");
  REQUIRE(residuals.groups.size() == 2);  // of the fitted row, and of the others
  CHECK(residuals.groups[0].values.size() == 60);
  CHECK(residuals.groups[0].values.front() == Approx(-0.29));
  add_intervals(rows, said, residuals);
  const Errors e = errors(rows, said, quantities()[throughput]);
  CHECK(e.with_interval == 61);
  CHECK(e.inside == 61 - 6);
  CHECK(e.with_interval_elsewhere == 0);  // one source: nothing is known without it
  const std::string text = output::text(validation_answer(rows, said));
  CHECK(text.find("fitted on      throughput     1 ") != std::string::npos);
  CHECK(text.find("not fitted on  throughput    60 ") != std::string::npos);
  CHECK(text.find("Profiles were fitted on 1 of these rows.") != std::string::npos);
}

TEST_CASE("calibrate: a row that a profile was fitted on says of memory what any other says") {
  Row both = row("0", "100");
  both["mem_reserved_peak_gib"] = "11";
  Prediction said = predicted("0", 100);
  said.fitted = true;
  said.reserved_gib = 10;
  const input::RunResiduals residuals = residuals_of({both}, {said}, "x");
  REQUIRE(residuals.groups.size() == 2);
  for (const input::ResidualGroup& group : residuals.groups)
    CHECK(group.fitted == (group.quantity == input::ResidualOf::time));
  // The row's own residual is removed, and nothing is left.
  std::vector<Prediction> own = {said};
  add_intervals({both}, own, residuals);
  for (const auto& interval : own[0].intervals) CHECK_FALSE(interval.has_value());
}

TEST_CASE("calibrate: of the ranks of a stage, and of batches, the one with most memory counts") {
  std::vector<Row> rows;
  std::vector<Prediction> said;
  for (int i = 0; i < 12; ++i) {  // two stages of three ranks, with two batches
    rows.push_back(row(std::to_string(i), ""));
    rows.back()["pp_stage"] = std::to_string(i / 3 % 2);
    rows.back()["rank"] = std::to_string(i % 6);
    rows.back()["n_microbatch"] = i < 6 ? "4" : "8";
    rows.back()["mem_reserved_peak_gib"] = std::to_string(20 + (i % 6 == 1) + (i == 11));
    said.push_back(predicted(std::to_string(i), 1));
    said.back().reserved_gib = 20 + i;
  }
  const input::RunResiduals residuals = residuals_of(rows, said, "x");
  REQUIRE(residuals.groups.size() == 1);
  const std::vector<double>& values = residuals.groups[0].values;
  REQUIRE(values.size() == 2);
  CHECK(values[0] == Approx(std::log(21.0 / 31)));
  CHECK(values[1] == Approx(std::log(21.0 / 21)).margin(1e-9));
  // Rows with another micro-batch size are other runs. Rows with a measured time are never merged.
  for (int i = 6; i < 12; ++i) rows[static_cast<std::size_t>(i)]["mbs"] = "2";
  CHECK(residuals_of(rows, said, "x").groups[0].values.size() == 4);
  for (Row& one : rows) one["iter_time_s"] = "5";
  for (Prediction& one : said) one.iter_time_s = 5;
  CHECK(residuals_of(rows, said, "x").groups[0].values.size() == 12);
}

TEST_CASE("calibrate: the interval of a row knows nothing of the row") {
  // Nine residuals -0.04, -0.03, ... 0.04 and one of 0.07. Over all ten the median is 0.005, the
  // median distance 0.025 and the interval reaches 0.005 + 1.8331 x 0.025 / 0.6745 x sqrt(10 / 9) x
  // sqrt(1.1) = 0.080. The nine others give 1.8595 x 0.02 / 0.6745 x sqrt(9 / 8) x sqrt(10 / 9) =
  // 0.062, which does not hold the tenth.
  std::vector<Row> rows;
  std::vector<Prediction> said;
  for (int i = 0; i < 10; ++i) {
    rows.push_back(row(std::to_string(i), "100"));
    said.push_back(predicted(std::to_string(i), 100 * std::exp(i < 9 ? 0.01 * (i - 4) : 0.07)));
  }
  const input::RunResiduals residuals = residuals_of(rows, said, "x");
  add_intervals(rows, said, residuals);
  CHECK(errors(rows, said, quantities()[throughput]).inside == 9);
  CHECK(residuals.groups.front().values.size() == 10);

  // For a row without a residual all residuals count.
  rows = {row("new", "100")};
  said = {predicted("new", 100 * std::exp(0.0699))};
  add_intervals(rows, said, residuals);
  CHECK(errors(rows, said, quantities()[throughput]).inside == 1);
}

TEST_CASE("calibrate: the text begins with the counts and lists what is missing") {
  const std::vector<Row> rows = {row("a", "100"), row("b", "200")};
  std::vector<Prediction> said = {predicted("a", 90), predicted("b", 220)};
  said[1].status = "unsupported";
  said[1].reason = "GPU 'B200' has no profile";
  const std::string text = output::text(validation_answer(rows, said));
  CHECK(text.rfind("2 rows: 1 predicted, 1 unsupported, 0 impossible\n", 0) == 0);
  CHECK(text.find("1  unsupported  GPU 'B200' has no profile\n") != std::string::npos);
  CHECK(text.find("all    throughput     1  10.00") != std::string::npos);
}

TEST_CASE("calibrate: sources of one situation that are off by different amounts are named") {
  // Two sources with medians 0 and 0.2 and a scatter of 0.02 are 20 % apart. Sources in another
  // situation are not compared.
  input::RunResiduals residuals;
  for (const double middle : {0.0, 0.2}) {
    input::ResidualGroup group;
    group.profile = "a100-80";
    group.source = middle == 0 ? "one" : "other";
    for (int i = -2; i <= 2; ++i) group.values.push_back(middle + 0.0126 * i);
    residuals.groups.push_back(group);
  }
  const auto apart = sources_apart(residuals);
  REQUIRE(apart.size() == 1);
  CHECK(apart[0].percent == Approx(20));
  CHECK(apart[0].noise_percent == Approx(2).epsilon(0.01));  // 0.0126 sqrt(10 / 4)
  residuals.groups[1].many_nodes = true;
  CHECK(sources_apart(residuals).empty());
}

TEST_CASE("calibrate: a validation as a document is as it was") {
  std::vector<Row> rows = {row("T1", "400"), row("T2", "200"), row("T3", "300"), row("T4", "")};
  std::vector<Prediction> said = {predicted("T1", 380), predicted("T2", 230), predicted("T3", 300),
                                  predicted("T4", 100)};
  rows[1]["source_group"] = "";
  rows[0]["iter_time_s"] = "2.5";
  said[0].iter_time_s = 2.625;
  rows[3]["bubble_pct"] = "12.5";
  said[3].bubble_pct = 10.0;
  rows[2]["mem_alloc_peak_gib"] = "40";
  said[2].allocated_gib = 41;
  rows[2]["mem_reserved_peak_gib"] = "50";
  said[2].reserved_gib = 49;
  said[0].plan = "tp4 pp2";
  said[0].fitted = true;
  said[0].intervals.resize(quantities().size());
  said[0].intervals[throughput] = answer::Interval{};
  said[0].intervals[throughput]->low = 370;
  said[0].intervals[throughput]->high = 401;
  const output::Document drawn = validation_document("a table", rows, said);
  picture::same("calibrate/pictures/validation.json", output::to_json(drawn).dump(1) + "\n");
  const std::string printed = output::text(validation_answer(rows, said));
  picture::same("calibrate/pictures/validation.txt", printed);
}
