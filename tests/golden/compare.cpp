// compare.cpp — `rehearse compare`: logs beside the prediction, and logs of other runs.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/golden/program.h"

using golden::run;

TEST_CASE(
    "golden: compare says how far the step is off, and whether that is within what is asked") {
  const std::string folder = golden::scratch("compare");
  const auto number = [](const std::string& text, const std::string& key) {
    const std::size_t at = text.find("\"" + key + "\": ");
    REQUIRE(at != std::string::npos);
    return std::stod(text.substr(at + key.size() + 4));
  };
  const auto error = [&](double measured_s) {
    std::string log;
    for (int i = 1; i <= 10; ++i)
      log += fmt::format(
          " iteration {}/ 100 | elapsed time per iteration (ms): {:.3f} | global batch size: 512 "
          "|\n",
          i, 1000 * measured_s);
    golden::write(folder + "/run.log", log);
    const golden::Finished finished =
        run("./rehearse compare --json run.log llama-2-7b-64", folder);
    const double predicted = number(finished.out, "predicted"),
                 said = number(finished.out, "error_percent");
    CHECK(number(finished.out, "measured") == Approx(measured_s));
    CHECK(said == Approx(100 * (predicted / measured_s - 1)));
    CHECK(finished.code == (std::abs(said) <= 10 ? 0 : 2));
    return said;
  };
  const double predicted = 20 * (1 + error(20) / 100);
  CHECK(error(predicted / 2) == Approx(100).epsilon(1e-3));
  CHECK(error(predicted * 2) == Approx(-50).epsilon(1e-3));
  CHECK(error(predicted / 1.05) == Approx(5).epsilon(1e-2));
  CHECK(error(predicted / 0.95) == Approx(-5).epsilon(1e-2));
}

TEST_CASE("golden: compare doubts a log whose throughput is not the plan's work") {
  const std::string folder = golden::scratch("other-work");
  const auto text = [&](double seconds, double tflops) {
    std::string log;
    for (int i = 1; i <= 10; ++i)
      log += fmt::format(
          " iteration {}/ 100 | elapsed time per iteration (ms): {:.3f} | throughput per GPU "
          "(TFLOP/s/GPU): {:.1f} | global batch size: 512 |\n",
          i, 1000 * seconds, tflops);
    golden::write(folder + "/run.log", log);
    return run("./rehearse compare run.log llama-2-7b-64 --wide", folder).out;
  };
  // Throughput and step of the prediction.
  const std::string own = run("./rehearse run llama-2-7b-64 --json", folder).out;
  const nlohmann::json answer = nlohmann::json::parse(own)["result"];
  const double seconds = answer["step_time_s"];
  double tflops = 0;
  for (const nlohmann::json& one : answer["throughput"])
    if (one["convention"] == "megatron") tflops = one["tflops_gpu"];
  CHECK(text(seconds, tflops).find("the plan's FLOPs") == std::string::npos);
  CHECK(text(2 * seconds, tflops / 2).find("the plan's FLOPs") == std::string::npos);
  CHECK(text(2 * seconds, tflops / 2).find("all GPUs slower alike are unlikely") !=
        std::string::npos);
  CHECK(text(2 * seconds, tflops).find("are 2 times the plan's FLOPs") != std::string::npos);
  CHECK(text(seconds / 3, tflops).find("are 0.333 times the plan's FLOPs") != std::string::npos);
}

TEST_CASE("golden: compare refuses the log of another run, with every difference and its line") {
  const std::string folder = golden::scratch("other-run");
  golden::write(
      folder + "/train.log",
      "building GPT model\n"
      "using world size: 512, data-parallel size: 16, tensor-model-parallel size: 8, "
      "pipeline-model-parallel size: 4\n"
      "  seq_length ...................................... 4096\n"
      " iteration 1/ 9 | elapsed time per iteration (ms): 9000 | global batch size: 1024 |\n");
  const std::string command = "./rehearse compare train.log llama-2-7b-64 tp=4 ";
  const golden::Finished refused = run(command, folder);
  CHECK(refused.code == 65);
  CHECK(refused.out.empty());
  CHECK(refused.err.find("train.log:2: error: the log has 512 GPUs, tp 8; the plan has 64 GPUs, tp "
                         "4\n") != std::string::npos);
  CHECK(refused.err.find(
            "train.log:4: error: the log has global batch 1024; the plan has global batch "
            "512\n") != std::string::npos);
  CHECK(refused.err.find("write gpus=512 tp=8 global_batch=1024; --force compares them all the "
                         "same\n") != std::string::npos);
  CHECK(refused.err.find("train.log:3") == std::string::npos);
  const golden::Finished forced = run(command + "--force", folder);
  CHECK(forced.code == 2);
  CHECK(forced.err.find("train.log:2: warning: the log has 512 GPUs") != std::string::npos);
  CHECK(forced.out.find("1 steps of train.log measured") == 0);
  // The tokens of a step are those of the log: 1024 x 4096 / 512 in 9 s.
  CHECK(forced.out.find("910.2") != std::string::npos);
  CHECK(run("./rehearse compare train.log llama-2-7b-64 gpus=512 tp=8 global_batch=1024", folder)
            .code == 2);
}
