// architect.cpp — messages and notes for readers who compare clusters: conditions, units, clusters
// with their own GPUs.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/golden/program.h"

using golden::run;

namespace {

struct Says {
  std::string folder;
  // The command's text, without line breaks.
  std::string operator()(const std::string& command) const {
    const golden::Finished finished = run("./rehearse " + command + " --wide -q", folder);
    return finished.out + finished.err;
  }
};

}  // namespace

TEST_CASE("golden: a condition's fields are listed, and one outside of the job is noted") {
  const Says says{golden::scratch("conditions")};
  const auto of = [&](const std::string& condition) {
    return says("run llama-2-7b-64 --memory none 'condition={" + condition + "}'");
  };
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(of("link: 1"), "no field 'link'; it has node, gpu, nic, leaf, spine, speed, bandwidth and");
  has(of("node: 1 bandwidth: 200Gb/s"), "a share of the part's own bandwidth, between 0 and 1");
  has(of("node: 99 bandwidth: 0.5"),
      "node 99 is not in this job: the condition changes nothing; the job's 8 nodes are 0 to 7");
  CHECK(of("node: 7 bandwidth: 0.5").find("not in this job") == std::string::npos);
  has(says("doc condition"), "- bandwidth: number from 0 to 1, share; default 1. Share of the");
  has(says("run llama-2-7b-64 condition.node=3"), "write condition='{node: ... }'");
  has(says("doc node.interconnect"), "bridges: NVLinks between GPUs 2k and 2k + 1");
  has(says("run llama-2-7b-64 node.interconnect=none"), "without NVLink write pcie");
}

TEST_CASE("golden: units that people type are taken, or answered with the number") {
  const Says says{golden::scratch("typed-units")};
  CHECK(says("run llama-2-7b-64 gpu.power_w=500W").find("write 500") != std::string::npos);
  CHECK(says("run llama-2-7b-64 gpu.power_w=0.5kW").find("write 500") != std::string::npos);
  CHECK(says("run llama-2-7b-64 jitter.slow_minutes=2h").find("write 120") != std::string::npos);
  const std::string campaign = "campaign --step-time 10 --gpus 64 --seeds 2 ";
  const std::string minutes = says(campaign + "--mtbf 3h --detection 10min");
  CHECK(minutes.find("limited by detecting") != std::string::npos);
  CHECK(says(campaign + "--mtbf 3h --detection 10m") == minutes);
  CHECK(says(campaign + "--mtbf 3hours --detection 600sec") == minutes);
  CHECK(says(campaign).find("--failures everything, llama-3, opt-175b, rsc-1 or rsc-2") !=
        std::string::npos);
}

TEST_CASE("golden: each cluster of plan may have its own GPUs") {
  const std::string folder = golden::scratch("plan-own-gpus");
  const Says says{folder};
  const std::string job = " --batch 16 --sequence 4096 zero=1 cp=1 schedule=1f1b recompute=none ";
  const golden::Finished made =
      run("./rehearse plan llama-3.1-8b --cluster dgx-h100:16,dgx-b200:8 --json -q" + job, folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  const auto clusters = nlohmann::json::parse(made.out)["result"]["clusters"];
  REQUIRE(clusters.size() == 2);
  CHECK(clusters[0]["gpus"] == 16);
  CHECK(clusters[1]["cluster"] == "dgx-b200");
  CHECK(clusters[1]["gpus"] == 8);
  // One cluster with GPUs is the question with --gpus; its own number comes first.
  const std::string one =
      run("./rehearse plan llama-3.1-8b dgx-h100 --gpus 8 -q" + job, folder).out;
  CHECK(run("./rehearse plan llama-3.1-8b dgx-h100:8 -q" + job, folder).out == one);
  CHECK(run("./rehearse plan llama-3.1-8b dgx-h100:8 --gpus 16 -q" + job, folder).out == one);
  CHECK(says("plan llama-3.1-8b --cluster dgx-h100=16" + job).find("write dgx-h100:16") !=
        std::string::npos);
  CHECK(says("plan llama-2-7b,llama-3.1-8b dgx-h100,dgx-b200 --gpus 8" + job)
            .find("plan takes one model") != std::string::npos);
}

TEST_CASE("golden: topo check doubts numbers that no known GPU, switch or node has") {
  const Says says{golden::scratch("doubtful-clusters")};
  const auto has = [&](const std::string& settings, const std::string& part) {
    const std::string text = says("topo check dgx-a100 cluster.nodes=2 " + settings);
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has("", "no problems");
  has("gpu.bf16=3120TFLOP/s",
      "gpu.bf16 is 3120 TFLOP/s, 10 times the 312 TFLOP/s of A100-SXM4-80GB (");
  has("gpu.bf16=624TFLOP/s", "data sheets print sparse peaks, twice the dense ones");
  has("gpu.memory_bandwidth=2039Gb/s", "bits in place of bytes");
  has("gpu.name=mine gpu.bf16=3120TFLOP/s", "profile a100-80");
  has("node.gpus=4 node.nics=5", "5 NICs for 4 GPUs: GPU 0, 1, 2 has 1 NIC; GPU 3 has 2 NICs");
  has("node.gpus=4 node.nics=5 node.nic_of_gpu=[1,2,3,4]", "no GPU uses NIC 0");
  has("cluster.nodes=1600 fabric.kind=single_switch", "joins 1600 nodes with");
}

TEST_CASE(
    "golden: whatif has the interval of its base, the job's rate, and says what is borrowed") {
  const std::string folder = golden::scratch("whatif-base");
  const Says says{folder};
  const std::string plan =
      "whatif model=llama-3.1-8b cluster=dgx-h100 gpus=16 global_batch=16 sequence=4096 tp=4 pp=2 ";
  const golden::Finished made =
      run("./rehearse " + plan + "--vary cluster=dgx-b200,dgx-h200 --json -q", folder);
  INFO(made.err);
  const auto rows = nlohmann::json::parse(made.out)["result"];
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["interval_90_text"].get<std::string>().find("90 % interval") != std::string::npos);
  CHECK(rows[1]["interval_90_text"] == "");
  for (const auto& row : rows)
    CHECK(row["tokens_per_second"].get<double>() ==
          Approx(16 * row["tokens_per_second_gpu"].get<double>()));
  const std::string text = says(plan + "--vary cluster=dgx-b200,dgx-h200");
  INFO(text);
  CHECK(text.find("kernels of b200 on ") != std::string::npos);
  CHECK(text.find("rehearse plan MODEL dgx-b200,dgx-h200 searches each") != std::string::npos);
}
