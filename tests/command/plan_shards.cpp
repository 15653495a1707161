// plan_shards.cpp — the merge of a search's shards returns the answers that the shards found.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/command/common/command.h"
#include "sim/command/common/shard.h"
#include "sim/study/sweep/merge.h"

using namespace sim;
using namespace sim::command;
using output::Json;

namespace {

std::string fresh_folder(const std::string& name) {
  const auto folder = std::filesystem::path(REHEARSE_BINARY_DIR) / "plan-shards" / name;
  std::filesystem::remove_all(folder);
  return folder.string();
}

study::Merged shards() {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  const std::string folder = fresh_folder("many");
  Globals quiet;
  quiet.quiet = true;
  for (const char* shard : {"1/2", "2/2"})
    REQUIRE(run_plan({"llama-3.1-8b",
                      "dgx-h100",
                      "--gpus",
                      "8",
                      "--batch",
                      "16",
                      "--sequence",
                      "2048",
                      "tp=8",
                      "cp=1",
                      "schedule=1f1b",
                      "recompute=none",
                      "zero=1",
                      "micro_batch=1,2",
                      "--best",
                      "10",
                      "-o",
                      folder,
                      "--shard",
                      shard},
                     quiet) == exit_yes);
  const Result<study::Merged> merged = study::merge({folder});
  REQUIRE(merged);
  return *merged;
}

// The same shard with every answer changed.
template <typename Change>
study::Merged changed(study::Merged merged, const Change& change) {
  for (std::string& line : merged.lines) {
    Json record = Json::parse(line);
    for (Json& one : record["answers"]) change(one);
    line = record.dump();
  }
  return merged;
}

// The steps of the best plans, in seconds.
std::vector<double> steps_of(const study::Merged& merged, const std::string& name) {
  const std::string folder = fresh_folder(name);
  Globals quiet;
  quiet.quiet = true;
  print_plan(merged, folder, quiet);
  std::ifstream in(folder + "/plan.json");
  std::vector<double> steps;
  const Json document = Json::parse(in);
  for (const Json& plan : document["result"]["plans"])
    steps.push_back(plan.at("step_time_s").get<double>());
  return steps;
}

}  // namespace

TEST_CASE("command: merging shards of plan asks for nothing that they answered") {
  const study::Merged merged = shards();
  const std::vector<double> steps = steps_of(merged, "merged");
  REQUIRE(steps.size() == 4);
  int replays = 0;
  const study::Merged slower = changed(merged, [&](Json& one) {
    Json answer = Json::parse(one[1].get<std::string>());
    if (!answer.is_object() || !answer.contains("fits")) return;
    ++replays;
    answer["step_ps"] = answer["step_ps"].get<std::int64_t>() * 2;
    one[1] = answer.dump();
  });
  CHECK(replays == 4);
  const std::vector<double> twice = steps_of(slower, "slower");
  REQUIRE(twice.size() == steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) CHECK(twice[i] == Approx(2 * steps[i]));
  // An item that is not an answer is evaluated anew.
  const Json item = 4;
  for (const Json& none :
       {Json(), Json(1), Json::array(), Json::array({item}), Json::array({item, "{}", "{}"}),
        Json::array({-4, "{}"}), Json::array({item, 5})}) {
    INFO(none.dump());
    CHECK(steps_of(changed(merged, [&](Json& one) { one = none; }), "anew") == steps);
  }
  // An answer of unknown shape is an error.
  try {
    print_plan(changed(merged, [](Json& one) { one[1] = "{"; }), fresh_folder("wrong"), {});
    FAIL("accepted");
  } catch (const Stop& stop) {
    CHECK(stop.code == exit_data);
    CHECK(stop.message == "the records of these shards are no answers about plans");
  }
}
