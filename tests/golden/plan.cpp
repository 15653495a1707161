// plan.cpp — `rehearse plan`: its JSON, its exits, and that `run` takes back what it says.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/golden/program.h"

using golden::run;

namespace {

const std::string question = "./rehearse plan -q llama-3.1-8b dgx-h100 --gpus 8 --batch 16 ";

}  // namespace

TEST_CASE("golden: the settings of a plan run as they are, and take what plan says") {
  const std::string folder = golden::scratch("plan");
  const golden::Finished made = run(
      question + "--sequence 4096 zero=1 schedule=1f1b --best 3 --json --report plan.html", folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  const auto result = nlohmann::json::parse(made.out)["result"];
  REQUIRE(result["plans"].size() == 3);
  const auto& space = result["space"];
  CHECK(space["plans"] == space["impossible"].get<int>() + space["cut_by_time"].get<int>() +
                              space["cut_by_memory"].get<int>() + space["replayed"].get<int>());
  double before = 0;
  for (const auto& plan : result["plans"]) {
    CHECK(plan["step_time_s"] >= before);
    before = plan["step_time_s"];
    CHECK(plan["tokens_s_gpu"].get<double>() ==
          Approx(16 * 4096 / plan["step_time_s"].get<double>() / 8));
    CHECK(plan["peak_reserved_gib"] <= plan["capacity_gib"]);
    const std::string settings = plan["settings"];
    CHECK(settings.find("model=llama-3.1-8b cluster=dgx-h100") == 0);
    const golden::Finished again = run("./rehearse run --json -q " + settings, folder);
    REQUIRE(again.code == 0);
    const auto answer = nlohmann::json::parse(again.out)["result"];
    CHECK(answer["step_time_ps"].get<double>() * 1e-12 ==
          Approx(plan["step_time_s"].get<double>()).epsilon(1e-12));
  }
  CHECK(golden::text_of(folder + "/plan.html").find("throughput against memory") !=
        std::string::npos);
}

TEST_CASE("golden: plan says what is wrong with a question, and what would give") {
  const std::string folder = golden::scratch("plan-wrong");
  CHECK(run("./rehearse plan llama-3.1-8b dgx-h100 --gpus 8 --batch 16", folder)
            .err.find("--sequence is missing") != std::string::npos);
  const golden::Finished both = run(question + "--sequence 4096 tp=4 pp=4 recompute=none", folder);
  CHECK(both.code == 65);
  CHECK(both.err.find("tp=4 and pp=4 together") != std::string::npos);
  const golden::Finished none =
      run(question + "--sequence 32768 tp=1 cp=1 pp=1 zero=1 recompute=none schedule=1f1b", folder);
  CHECK(none.code == 2);
  CHECK(none.out.find("no plan fits") != std::string::npos);
  CHECK(none.out.find("the nearest lacks") != std::string::npos);
  CHECK(none.out.find("without ") != std::string::npos);
  CHECK(run(question + "--sequence 4096 --objective cost", folder).code == 64);
  CHECK(run(question + "--sequence 4096 --objective gpus", folder).code == 64);
}
