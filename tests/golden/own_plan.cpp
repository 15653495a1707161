// own_plan.cpp — `rehearse plan` from a launch file and from a plan file.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/golden/program.h"

using golden::run;

namespace {

const std::string script = R"(#!/bin/bash
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \
  --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8 \
  --seq-length 4096 --max-position-embeddings 4096 --swiglu --normalization RMSNorm \
  --disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope \
  --attention-dropout 0 --hidden-dropout 0 --bf16 --vocab-size 128256 \
  --tokenizer-type NullTokenizer --tensor-model-parallel-size 8 --micro-batch-size 1 \
  --global-batch-size 16 --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce \
  --overlap-param-gather --recompute-granularity full --recompute-method uniform \
  --recompute-num-layers 1
)";

double step_of(const std::string& words, const std::string& folder) {
  const golden::Finished made = run("./rehearse run --json -q " + words, folder);
  INFO(words << "\n" << made.err);
  REQUIRE(made.code == 0);
  return nlohmann::json::parse(made.out)["result"]["step_time_s"];
}

}  // namespace

TEST_CASE("golden: plan starts from a launch file, and says what to change in it") {
  const std::string folder = golden::scratch("own-plan");
  golden::write(folder + "/train.sh", script);
  const std::string ask =
      "./rehearse plan -q --megatron-args train.sh zero=1 schedule=1f1b cp=1 --cluster dgx-h100 ";
  const golden::Finished made = run(ask + "--json", folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  const auto result = nlohmann::json::parse(made.out)["result"];
  const auto& own = result["own"];
  CHECK(own["fits"] == true);
  CHECK(own["file"] == "train.sh");
  const double before = own["plan"]["step_time_s"];
  CHECK(before == Approx(step_of("--megatron-args train.sh cluster=dgx-h100", folder)));
  const double best = result["plans"][0]["step_time_s"];
  CHECK(best < before);
  CHECK(best == Approx(step_of(result["plans"][0]["settings"], folder)));
  // The changes make the best plan of the file.
  std::string words = "--megatron-args train.sh cluster=dgx-h100";
  for (const auto& one : own["changes"])
    words += " " + one["field"].get<std::string>() + "=" + one["to"].get<std::string>();
  CHECK(best == Approx(step_of(words, folder)));
  const golden::Finished text = run(ask, folder);
  CHECK(text.out.find("your plan (train.sh): step ") == 0);
  CHECK(text.out.find("\nagainst your plan: tp 8 -> ") != std::string::npos);
  CHECK(text.out.find("\n--megatron-args train.sh cluster=dgx-h100 tp=") != std::string::npos);
  CHECK(text.out.find("your plan, train.sh") != std::string::npos);
  // The launch files describe the network, which has no name.
  for (const auto& launch : result["launch"]) {
    if (launch["program"] != "Megatron-LM") continue;
    CHECK(launch["not_said"] == "");
    golden::write(folder + "/launch.sh", launch["text"]);
    CHECK(best == Approx(step_of("--megatron-args launch.sh cluster=dgx-h100", folder)));
  }
}

TEST_CASE("golden: plan starts from a plan file, and takes another batch") {
  const std::string folder = golden::scratch("own-plan-file");
  const golden::Finished made =
      run("./rehearse plan -q --json llama-2-7b-64 --batch 256 zero=1 schedule=1f1b cp=1 tp=1,2 "
          "recompute=none",
          folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  const auto result = nlohmann::json::parse(made.out)["result"];
  CHECK(result["own"]["plan"]["step_time_s"].get<double>() ==
        Approx(step_of("llama-2-7b-64 global_batch=256", folder)));
  CHECK(result["plans"][0]["settings"].get<std::string>().find(" global_batch=256 ") !=
        std::string::npos);
}

TEST_CASE("golden: plan says what is wrong with a file that it starts from") {
  const std::string folder = golden::scratch("own-plan-wrong");
  golden::write(folder + "/train.sh", script);
  const auto refused = [&](const std::string& words) {
    const golden::Finished made = run("./rehearse plan -q " + words, folder);
    CHECK(made.code != 0);
    return made.err;
  };
  const std::string launch = "--megatron-args train.sh ";
  CHECK(refused(launch).find("cluster") != std::string::npos);
  CHECK(refused(launch + "llama-3.1-8b dgx-h100").find("not both") != std::string::npos);
  CHECK(refused("--megatron-args none.sh cluster=dgx-h100").find("none.sh") != std::string::npos);
  CHECK(refused("llama-3.1-8b dgx-h100 --cluster dgx-a100 --gpus 8").find("not both") !=
        std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster dgx-h100").find("--gpus is missing") != std::string::npos);
  CHECK(refused(launch + "cluster=dgx-h100 tp=3 pp=3").find("tp=3") != std::string::npos);
}
