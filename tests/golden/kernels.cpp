// kernels.cpp — `rehearse run --kernels`: the kernels and collectives of a step.
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/golden/program.h"

using golden::run;

TEST_CASE("golden: the kernels of a step add up to the busy time of their stage") {
  const std::string folder = golden::scratch("kernels");
  const std::string command = "./rehearse run llama-2-7b-64 global_batch=64 --kernels ";
  const golden::Finished finished = run(command + "--json", folder);
  REQUIRE(finished.code == 0);
  const nlohmann::json result = nlohmann::json::parse(finished.out).at("result");
  std::map<int, double> busy;
  double last = 1e9;
  int stage = 0;
  for (const auto& row : result.at("kernels")) {
    busy[row["stage"]] += row["total_s"].get<double>();
    if (row["stage"] != stage) last = 1e9;
    stage = row["stage"];
    CHECK(row["total_s"] <= last);
    last = row["total_s"];
    CHECK(row["call_s"].get<double>() * row["calls"].get<double>() == Approx(last));
    if (row["kind"] == "gemm") {
      CHECK(row["tflops"] > 100);
      CHECK(row["tflops"] < 989);
    }
  }
  REQUIRE(busy.size() == 4);
  for (const auto& row : result.at("stage_times"))
    CHECK(busy[row["stage"]] == Approx(row["busy_s"].get<double>()));

  std::map<std::string, double> exposed;
  std::map<int, double> idle;  // of each stage, for what is exposed
  bool hides = false;
  for (const auto& row : result.at("collectives")) {
    const double total = row["total_s"], open = row["exposed_s"], hidden = row["hidden_s"];
    CHECK(open + hidden <= total * (1 + 1e-9));
    idle[row["stage"]] += open;
    CHECK(row["waiting_s"] <= total);
    CHECK(row["bytes"] > 0);
    if (row["stage"] == 0) exposed[row["communicator"]] += open;
    hides = hides || hidden > 0;
  }
  CHECK(hides);
  // No time is exposed twice.
  for (const auto& [of_stage, open] : idle)
    CHECK(open + busy[of_stage] <= result["step_time_s"].get<double>() * (1 + 1e-9));
  for (const char* communicator : {"tp", "pp", "dp-cp"}) CHECK(exposed.count(communicator) == 1);
  // Tensor-parallel communication waits for nothing else, so what is exposed is its account.
  CHECK(exposed["tp"] ==
        Approx(result["stage_times"][0]["exposed_tp_s"].get<double>()).epsilon(.02));

  const std::string text = run(command, folder).out;
  CHECK(text.find("stage 3 (rank 48): kernels of the step") != std::string::npos);
  CHECK(text.find("stage 0 (rank 0): collectives and messages of the step") != std::string::npos);
  CHECK(run("./rehearse doc kernels", folder).out.find("--kernels") != std::string::npos);
}

TEST_CASE("golden: without a whole step there is no table of kernels") {
  const std::string folder = golden::scratch("no-kernels");
  const std::string command = "./rehearse run llama-3.1-8b-abci micro_batch=4 --kernels ";
  const golden::Finished finished = run(command, folder);
  CHECK(finished.code == 2);
  CHECK(finished.out.find("--kernels: no step is complete") != std::string::npos);
  CHECK(run(command + "--memory none", folder).out.find("kernels of the step") !=
        std::string::npos);
}

TEST_CASE("golden: --all-ranks prints ranks with their times and peaks, and JSON numbers them") {
  const std::string folder = golden::scratch("all-ranks");
  const std::string command =
      "./rehearse run model=llama-2-7b cluster=dgx-h100 gpus=16 tp=2 cp=2 pp=2 micro_batch=1 "
      "global_batch=16 sequence=4096 -q ";
  const std::string text = run(command + "--all-ranks --wide", folder).out;
  INFO(text);
  CHECK(text.find("\nranks (a line for ranks with equal times and peaks") != std::string::npos);
  CHECK(text.find("\n  0-1,4-5          4      0   0  ") != std::string::npos);
  CHECK(text.find("\n  10-11,14-15      4      1   1  ") != std::string::npos);
  CHECK(run(command, folder).out.find("\nranks (") == std::string::npos);
  const auto classes = [&](const std::string& options) {
    return nlohmann::json::parse(
        run(command + "--json " + options, folder).out)["result"]["rank_classes"];
  };
  CHECK(classes("")[1]["rank_numbers"] == "2-3,6-7");
  const nlohmann::json every = classes("--all-ranks");
  REQUIRE(every.size() == 16);
  std::set<std::string> numbers;
  for (const auto& one : every) numbers.insert(one["rank_numbers"]);
  CHECK(numbers.size() == 16);
  CHECK(every[4]["rank_numbers"] == "4");  // replica 1 of stage 0, context rank 0
}

TEST_CASE("golden: a trace named .json is JSON") {
  const std::string folder = golden::scratch("json-trace");
  const golden::Finished finished =
      run("./rehearse run model=llama-2-7b cluster=dgx-h100 gpus=2 tp=1 pp=2 micro_batch=1 "
          "global_batch=2 sequence=1024 architecture.layers=2 -q --trace t.json",
          folder);
  REQUIRE(finished.code == 0);
  const nlohmann::json trace = nlohmann::json::parse(golden::text_of(folder + "/t.json"));
  std::map<std::string, int> phases;
  std::map<std::pair<int, int>, double> ends;
  std::set<std::string> sent, received;
  for (const auto& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    ++phases[phase];
    if (phase == "s") sent.insert(event["id"]);
    if (phase == "f") received.insert(event["id"]);
    if (phase != "X") continue;
    // Slices of one stream do not overlap.
    double& end = ends[{event["pid"], event["tid"]}];
    CHECK(event["ts"].get<double>() >= end - 1e-3);
    end = event["ts"].get<double>() + event["dur"].get<double>();
    CHECK(event["args"]["step"] >= 0);
  }
  CHECK(phases["X"] > 100);
  CHECK(phases["C"] > 100);
  CHECK(phases["M"] > 4);
  CHECK(!sent.empty());
  CHECK(sent == received);
}
