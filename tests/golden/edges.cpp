// edges.cpp — plans at the limits of what is legal: each is answered or refused with the rule; none
// crashes the program.
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
        // One tensor of 2 TiB on a GPU that could hold the weights.
        Edge{"attention=unfused sequence=131072 tp=1 pp=1 cluster.gpu.memory_marketing=900GB "
             "cluster.gpu.memory=850GiB",
             2, "2048.00 GiB"},
        Edge{"gpus=8 tp=2 cp=1 pp=4 schedule=breadth-first virtual_stages=2 micro_batch=1 "
             "global_batch=4000",
             65, "4 stages wait for each other beyond 2048"},
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
      // Apart from the state only small buffers persist, at most 1 % of it.
      CHECK(lasting >= state);
      CHECK(static_cast<double>(lasting) <= 1.01 * static_cast<double>(state));
    }
  }
}

TEST_CASE("golden: what a plan's machine cannot do is said by every command that runs it") {
  const std::string folder = golden::scratch("site-edges");
  struct Edge {
    std::string settings;
    const char* says;
  };
  for (const Edge& edge :
       {Edge{"llama-2-7b-64 cluster=lassen", "no rate for products in bf16; write precision=fp16"},
        Edge{"model=llama-3.1-8b cluster=dgx-h100 gpus=16 global_batch=32 sequence=4096 "
             "offload_layers=31 node.cpu_memory=1GiB",
             "of saved tensors to the CPUs of a node"},
        Edge{"model=llama-3.1-8b cluster=dgx-h100 gpus=16 global_batch=32 sequence=4096 "
             "optimizer_cpu_offload=true precision_aware_optimizer=true node.cpu_memory=1GiB",
             "to the CPUs of a node"},
        Edge{"llama-2-7b-64 virtual_stages=2 microbatch_group=8", "is above pp 4"},
        Edge{"llama-2-7b-64 architecture.hidden=65536 architecture.ffn=262144 "
             "architecture.heads=1024 architecture.layers=4096 tp=1 pp=1",
             "a rank would have 3.52e+14 parameters"},
        Edge{"llama-2-7b-64 gpu.bf16=0.1TFLOP/s global_batch=200000", "a step would take"},
        Edge{"llama-2-7b-64 gpu.memory_bandwidth=10MB/s global_batch=100000", "a step would take"},
        Edge{"llama-2-7b-64 gpu.memory_bandwidth=10MB/s 'condition={node: 0 speed: 0.001}'",
             "a step would take"}}) {
    for (const char* command : {"run", "explain", "report", "run --seeds 2"}) {
      const golden::Finished finished =
          run(std::string("./rehearse ") + command + " " + edge.settings, folder);
      INFO(command << " " << edge.settings << "\n" << finished.out << finished.err);
      CHECK(finished.code == 65);
      CHECK(finished.err.find(edge.says) != std::string::npos);
    }
  }
}

TEST_CASE("golden: a file that may not grow, has no name or no folder is said") {
  const std::string folder = golden::scratch("file-edges");
  const golden::Finished full =
      run("bash -c 'ulimit -f 8; ./rehearse run llama-2-7b-64 --trace big'", folder);
  CHECK(full.code == 74);
  CHECK(full.err.find("File too large") != std::string::npos);
  for (const char* command :
       {"run llama-2-7b-64 --trace ''", "run llama-2-7b-64 --memory-plot ''",
        "report llama-2-7b-64 -o ''", "sweep paper-454 -o ''", "plan llama-2-7b dgx-h100 -o ''"}) {
    const golden::Finished nameless = run(std::string("./rehearse ") + command, folder);
    INFO(command << "\n" << nameless.err);
    CHECK(nameless.code == 64);
    CHECK(nameless.err.find(" names no ") != std::string::npos);
  }
  const golden::Finished gone =
      run("at=$PWD; mkdir gone; cd gone; rmdir ../gone; $at/rehearse run llama-2-7b-64 --trace x",
          folder);
  CHECK(gone.code == 66);
}

TEST_CASE("golden: a campaign without failures keeps what it trained, however short it is") {
  const std::string folder = golden::scratch("short-campaign");
  const golden::Finished finished =
      run("./rehearse campaign --gpus 64 --step-time 10 --restart 10min --seeds 3 --days 1 "
          "--mtbf 100000h --checkpoint-write 300s",
          folder);
  INFO(finished.out << finished.err);
  CHECK(finished.code == 0);
  CHECK(finished.out.starts_with("campaign: 99.65 % "));
}

TEST_CASE("golden: a system that gives no files to open or no memory is said, not called a bug") {
  const std::string folder = golden::grid_scratch("no-files");
  const std::string sweep = "./rehearse sweep grid.textproto -q -o made";
  const golden::Finished none = run("ulimit -n 5; " + sweep, folder);
  INFO(none.err);
  CHECK(none.code == 71);
  CHECK(none.err.find("no worker process can be started") != std::string::npos);
  CHECK(none.err.find("Too many open files; once that is mended, go on with: rehearse sweep") !=
        std::string::npos);
  CHECK(run(sweep + " --resume", folder).code == 0);
  const golden::Finished table =
      run("ulimit -n 5; ./rehearse whatif llama-2-7b-64 --vary tp=1,2", folder);
  INFO(table.err);
  CHECK(table.code == 71);
  CHECK(table.out.empty());
}

TEST_CASE("golden: a validation of nothing is not a good one") {
  const std::string folder = golden::scratch("nothing");
  const std::string measured = folder + "/calibration/measured/";
  for (const char* table : {"training_runs.csv", "nccl.csv", "usp_attention_8xA100.csv"}) {
    const std::string text = golden::text_of(measured + table);
    golden::write(folder + "/head.csv", text.substr(0, text.find('\n') + 1));
    const golden::Finished finished = run("./rehearse validate head.csv", folder);
    INFO(table << "\n" << finished.err);
    CHECK(finished.code == 65);
    CHECK(finished.out.empty());
    CHECK(finished.err.find("head.csv: error: has no rows: nothing was checked") !=
          std::string::npos);
  }
  golden::write(folder + "/runs.csv", "row_id,gpu,tp,pp,iter_time_s\na,TI-84,1,1,1\nb,,1,1,2\n");
  golden::write(folder + "/nccl.csv",
                "collective,gpu,n_gpus,nodes,bytes,time_us_oop,busbw_oop,intra_net,inter_net,"
                "dtype,notes\nall_reduce,TI-84,8,1,1024,5,1,,,float,\n");
  for (const char* table : {"runs.csv", "nccl.csv"}) {
    const golden::Finished finished = run(std::string("./rehearse validate -q ") + table, folder);
    INFO(table << "\n" << finished.out << finished.err);
    CHECK(finished.code == 65);
    CHECK(finished.err.find("nothing was checked: none of ") != std::string::npos);
  }
}
