// edges.cpp — plans at an edge of what is legal: each is answered, or refused with the rule, and
// none ends the program.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/golden/program.h"

using golden::run;

TEST_CASE("golden: plans at an edge of what is legal are answered or refused with the rule") {
  const std::string folder = golden::scratch("edges");
  struct Edge {
    const char* settings;
    int code;
    const char* says;
  };
  for (const Edge& edge :
       {Edge{"precision=fp32", 2, "asked for"},
        Edge{"precision=fp32 tp=8 micro_batch=1 recompute=full", 0, "fits"},
        Edge{"recompute=full recompute_layers=0", 65, "recompute_layers may be 1, 2, 4, 8 or 16"},
        Edge{"recompute=full recompute_method=block recompute_layers=0", 0, "fits"},
        Edge{"attention=unfused sequence=131072 tp=1 pp=1", 2, "out of memory: stage 0 at set-up"},
        // One tensor of 2 TiB, on a GPU that holds the weights.
        Edge{"attention=unfused sequence=131072 tp=1 pp=1 cluster.gpu.memory_marketing=900GB "
             "cluster.gpu.memory=850GiB",
             2, "2048.00 GiB"},
        Edge{"cluster.node.gpus=1025", 65, "it must be between 1 and 1024"},
        Edge{"architecture.layers=65536", 65, "it must be between 1 and 4096"}}) {
    const golden::Finished finished =
        run(std::string("./rehearse run llama-3.1-8b-abci ") + edge.settings, folder);
    INFO(edge.settings << "\n" << finished.out << finished.err);
    CHECK(finished.code == edge.code);
    CHECK((finished.out + finished.err).find(edge.says) != std::string::npos);
  }
}

TEST_CASE("golden: a launch script that names no precision trains in fp32") {
  const std::string folder = golden::scratch("fp32-script");
  golden::write(folder + "/train.sh",
                "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 32 "
                "--hidden-size 4096 --num-attention-heads 32 --seq-length 1024 "
                "--max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 64 "
                "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 "
                "--vocab-size 32000\n");
  const golden::Finished finished =
      run("./rehearse run --megatron-args train.sh --cluster abci-a", folder);
  INFO(finished.err);
  CHECK(finished.code == 0);
  CHECK(finished.out.find("attention unfused, fp32") != std::string::npos);
}

TEST_CASE("golden: what holds memory at a peak sums to the peak, with and without shards") {
  const std::string folder = golden::scratch("peak-sums");
  for (const std::string zero : {"zero=0", "zero=1"}) {
    const golden::Finished finished =
        run("./rehearse run llama-3.1-8b-abci micro_batch=1 --json " + zero, folder);
    const auto answer = nlohmann::json::parse(finished.out, nullptr, false);
    REQUIRE(answer.is_object());
    for (const auto& who : answer["result"]["rank_classes"]) {
      std::int64_t held = 0;
      for (const auto& bytes : who["peak_held_bytes"]) held += bytes.get<std::int64_t>();
      CHECK(held == who["peak_allocated_bytes"].get<std::int64_t>());
      const std::int64_t lasting = who["static_bytes"];
      std::int64_t state = 0;
      for (const char* kind : {"weights", "gradients", "master_weights", "optimizer"})
        state += who["peak_held_bytes"][kind].get<std::int64_t>();
      // Beside the state small buffers last, no more than 1 % of it.
      CHECK(lasting >= state);
      CHECK(static_cast<double>(lasting) <= 1.01 * static_cast<double>(state));
    }
  }
}
