// logs.cpp — readers of training logs and of nccl-tests, on lines as the programs print them.
#include <catch2/catch.hpp>

#include "sim/calibrate/compare.h"
#include "sim/calibrate/readers/lines.h"
#include "sim/calibrate/readers/reader.h"

using namespace sim;
using namespace sim::calibrate;

TEST_CASE("calibrate: a Megatron-LM log gives steps with their rates and memory") {
  const auto read = read_bytes(
      " [2024-08-15 10:00:01] iteration        9/     100 | consumed samples:   4608 | elapsed "
      "time "
      "per iteration (ms): 12345.6 | throughput per GPU (TFLOP/s/GPU): 401.5 | learning rate: "
      "1.0E-05 | global batch size:   512 | lm loss: 1.0E+01 |\n"
      "[Rank 0] (after 10 iterations) memory (MB) | allocated: 1000.0 | max allocated: 51200.0 | "
      "reserved: 2000.0 | max reserved: 61440.0\n"
      " [2024-08-16 10:00:13] iteration       10/     100 | consumed samples:   5120 | elapsed "
      "time "
      "per iteration (ms): 12000.0 | throughput per GPU (TFLOP/s/GPU): 410.0 | global batch size:  "
      " 512 |\n",
      "train.log");
  REQUIRE(read);
  CHECK(read->reader->name == "Megatron-LM log");
  const Measurements& m = read->measurements;
  REQUIRE(m.steps.size() == 2);
  CHECK(m.steps[0].seconds == Approx(12.3456));
  CHECK(m.steps[0].iteration == 9);
  CHECK(m.steps[0].tflops_gpu == Approx(401.5));
  CHECK(m.steps[1].reserved_gib == Approx(60));
  CHECK(m.steps[1].allocated_gib == Approx(50));
  CHECK(m.date == "2024-08-16");
}

namespace {

// The settings that a log prints, as "tp=8:3" with the line.
std::string settings_in(const std::string& log) {
  const auto read = read_bytes(log, "train.log");
  REQUIRE(read);
  std::string text;
  for (const PrintedSetting& one : read->measurements.settings)
    text += one.field + "=" + std::to_string(one.value) +
            one.where.substr(one.where.find_last_of(':')) + " ";
  return text;
}

const std::string step_512 =
    " iteration 5/ 9 | elapsed time per iteration (ms): 120.5 | global batch size: 512 |\n";
const std::string titan_step = "[titan] step: 10  loss: 7.1  memory: 43.1GiB(45.4%)  tps: 5,123\n";

}  // namespace

TEST_CASE("calibrate: a Megatron-LM log gives the settings of its run, with their lines") {
  CHECK(settings_in("using world size: 512, data-parallel size: 16, context-parallel size: 2, "
                    "hierarchical context-parallel sizes: None, tensor-model-parallel size: 8, "
                    "pipeline-model-parallel size: 2\n"
                    "------------------------ arguments ------------------------\r\n"
                    "  global_batch_size ............................... 64\r\n"
                    "  hidden_size ..................................... 4096\n"
                    "  micro_batch_size ................................ 1\n"
                    "  num_layers ...................................... 32\n"
                    "  num_layers_per_virtual_pipeline_stage ........... None\n"
                    "  seq_length ...................................... 8192\n"
                    "  tensor_model_parallel_size ...................... 8\n"
                    "  virtual_pipeline_model_parallel_size ............ 4\n" +
                    step_512) ==
        "gpus=512:1 dp=16:1 tp=8:1 cp=2:1 pp=2:1 virtual_stages=4:10 micro_batch=1:5 "
        "global_batch=512:11 sequence=8192:8 architecture.layers=32:6 architecture.hidden=4096:4 ");
  // Older releases; ranks with a prefix.
  CHECK(settings_in("hierarchical context-parallel sizes: Nonetensor-model-parallel size: 8\n" +
                    step_512) == "tp=8:1 global_batch=512:2 ");
  CHECK(settings_in("0: using world size: 8, data-parallel-size: 4, tensor-model-parallel size: 2, "
                    "pipeline-model-parallel size: 1 \n" +
                    step_512) == "gpus=8:1 dp=4:1 tp=2:1 pp=1:1 global_batch=512:2 ");
  // The table of DeepSpeed, in which the world is the data-parallel group of a Megatron mesh.
  CHECK(settings_in("[2024-07-24 02:13:16,847] [INFO] [config.py:1001:print]   world_size ..... 4\n"
                    "[2024-07-24 02:13:16,847] [INFO] [config.py:1001:print]   "
                    "train_micro_batch_size_per_gpu  2\n" +
                    step_512) == "micro_batch=2:2 global_batch=512:3 ");
  // NeMo: a configuration in YAML, the world of PyTorch Lightning.
  CHECK(settings_in("  tensor_model_parallel_size: 2\n  num_layers: 24\n"
                    "All distributed processes registered. Starting with 16 processes\n"
                    "Training epoch 0, iteration 4/49 | global_batch_size: 128 | "
                    "train_step_timing in s: 3.25\n") == "gpus=16:3 tp=2:1 global_batch=128:4 ");
  CHECK(settings_in(step_512 + step_512) == "global_batch=512:1 ");
}

TEST_CASE("calibrate: a torchtitan log gives the settings of its run") {
  const std::string trainer =
      "[titan] INFO - Trainer is initialized with local batch size 8, global batch size 64, "
      "gradient accumulation steps 1, sequence length 2048, total steps 10 (warmup 2)\n";
  CHECK(
      settings_in("[titan] \x1b[32mINFO\x1b[0m - Building 2-D device mesh with ['dp_shard', 'tp'], "
                  "[4, 2]\n" +
                  trainer + titan_step) ==
      "gpus=8:1 tp=2:1 cp=1:1 pp=1:1 micro_batch=8:2 global_batch=64:2 sequence=2048:2 ");
  // With stages, the local batch is several microbatches.
  CHECK(settings_in(
            "[titan] Building device mesh with parallelism: pp=2, dp_replicate=1, dp_shard=4, "
            "cp=1, tp=2, ep=4, etp=1\n" +
            trainer + titan_step) ==
        "gpus=16:1 tp=2:1 cp=1:1 pp=2:1 ep=4:1 global_batch=64:2 sequence=2048:2 ");
  CHECK(
      settings_in("Building 2-D device mesh with ['dp_shard', 'tp'], [4]\n" + titan_step).empty());
}

TEST_CASE("calibrate: steps of a batch that ramps up are left out, and tokens are the log's") {
  const auto read = read_bytes(
      "using world size: 16, data-parallel size: 16\n"
      " iteration 1/ 9 | elapsed time per iteration (ms): 500 | global batch size: 16 |\n"
      " iteration 2/ 9 | elapsed time per iteration (ms): 500 | global batch size: 16 |\n"
      " iteration 3/ 9 | elapsed time per iteration (ms): 2000 | global batch size: 64 |\n",
      "x");
  REQUIRE(read);
  program::Plan plan;
  plan.batch.global_batch = 64;
  plan.batch.sequence = 1024;
  plan.mesh.dp = 8;
  CHECK(tokens_per_gpu(read->measurements, plan) == 64 * 1024 / 16);
  const MeasuredRun run = measured_run(read->measurements.steps, 4096);
  CHECK(run.steps == 1);
  CHECK(run.ramp == 1);  // the first step warms up
  CHECK(run.tokens_s_gpu == Approx(2048));
  const OtherRun other = other_run(read->measurements, plan);
  REQUIRE(other.differences.size() == 1);
  CHECK(other.differences[0].where == "x:1");
  CHECK(other.differences[0].message == "the log has 16 GPUs; the plan has 8 GPUs");
  CHECK(other.remedy() == "write gpus=16");
}

TEST_CASE("calibrate: an iteration's number that is no count is none") {
  const auto read = read_bytes(
      " iteration 1e19/ 100 | elapsed time per iteration (ms): 12.5 |\n"
      " iteration 7/ 100 | elapsed time per iteration (ms): 12.5 |\n",
      "x");
  REQUIRE(read);
  REQUIRE(read->measurements.steps.size() == 2);
  CHECK(read->measurements.steps[0].iteration == 0);
  CHECK(read->measurements.steps[1].iteration == 7);
}

TEST_CASE("calibrate: Megatron-DeepSpeed and NeMo print seconds") {
  auto read = read_bytes(
      " iteration 5/ 1000 | elapsed time per iteration (s): 104.98 | learning rate: 1E-5 | TFLOPs: "
      "145.3 |\n",
      "x");
  REQUIRE(read);
  CHECK(read->measurements.steps[0].seconds == Approx(104.98));
  CHECK(read->measurements.steps[0].tflops_gpu == Approx(145.3));
  read = read_bytes("Training epoch 0, iteration 4/49 | lr: 1e-5 | train_step_timing in s: 3.25\n",
                    "x");
  REQUIRE(read);
  CHECK(read->measurements.steps[0].seconds == Approx(3.25));
}

TEST_CASE("calibrate: a torchtitan log is read through its colours") {
  const auto read = read_bytes(
      "[rank0]:\x1b[36m[titan] 2024-12-01 01:23:45,678 - root - INFO - \x1b[0m\x1b[31mstep: 10  "
      "\x1b[32mloss:  7.1234  \x1b[33mmemory: 43.12GiB(45.40%)  \x1b[34mtps: 5,123  "
      "\x1b[36mtflops: "
      "300.12  \x1b[35mmfu: 30.35%\x1b[39m\n",
      "x");
  REQUIRE(read);
  CHECK(read->reader->name == "torchtitan log");
  REQUIRE(read->measurements.steps.size() == 1);
  const StepSample& step = read->measurements.steps[0];
  CHECK(step.iteration == 10);
  CHECK(step.tokens_s_gpu == Approx(5123));
  CHECK(step.tflops_gpu == Approx(300.12));
  CHECK(step.reserved_gib == Approx(43.12));
  CHECK(read->measurements.date == "2024-12-01");
}

TEST_CASE("calibrate: nccl-tests lines become collectives on the ranks of the header") {
  std::string text = "# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor)\n";
  for (int rank = 0; rank < 16; ++rank)
    text += "#  Rank " + std::to_string(rank) + " Group  0 Pid  99 on node" +
            std::to_string(rank / 8) + " device  " + std::to_string(rank % 8) +
            " [0x07] NVIDIA H100 80GB HBM3\n";
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
      "time   algbw   busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
      "(us)  (GB/s)  (GB/s)\n"
      "     1048576        262144     float     sum      -1    63.91   16.41   30.76      0    "
      "63.50   16.51   30.96      0\n"
      "[1,0]<stdout>:  8589934592    2147483648     float     sum      -1    34500  248.98  466.84 "
      " "
      "    0    34490  249.06  466.99      0\n"
      "# Avg bus bandwidth    : 100\n";
  const auto read = read_bytes(text, "x.txt");
  REQUIRE(read);
  CHECK(read->reader->name == "nccl-tests");
  const Measurements& m = read->measurements;
  REQUIRE(m.collectives.size() == 2);
  CHECK(m.collectives[0].kind == collective::Kind::all_reduce);  // factor 2 x 15 / 16 = 1.875
  CHECK(m.collectives[0].ranks == 16);
  CHECK(m.collectives[0].nodes == 2);
  CHECK(m.collectives[0].bytes.n == 1048576);
  CHECK(m.collectives[0].seconds == Approx(63.91e-6));
  CHECK(m.collectives[1].seconds == Approx(34.5e-3));
  CHECK(m.device == "NVIDIA H100 80GB HBM3");
}

TEST_CASE("calibrate: a line of nccl-tests begins with two sizes above 0, of 16 TiB at most") {
  const std::string rest = "     float     sum      -1    63.91   16.41   30.76      0\n";
  std::string text = "# size count type redop root time algbw busbw #wrong\n";
  for (int rank = 0; rank < 16; ++rank)
    text += "#  Rank " + std::to_string(rank) + " Group  0 Pid  99 on node0 device  " +
            std::to_string(rank) + " [0x07] NVIDIA H100 80GB HBM3\n";
  for (const char* sizes :
       {"0 262144", "4096 0", "4096 -1", "x 1024", "4096 x", "1048576 262144",
        "17592186044417 1024", "1024 17592186044417", "17592186044416 17592186044416"})
    text += sizes + rest;
  const auto read = read_bytes(text, "x.txt");
  REQUIRE(read);
  REQUIRE(read->measurements.collectives.size() == 2);
  CHECK(read->measurements.collectives[0].bytes.n == 1048576);
  CHECK(read->measurements.collectives[1].bytes.n == 17592186044416);
}

TEST_CASE("calibrate: without a header the ranks follow from the two bandwidths") {
  // 2 (n - 1) / n = 1.75 for n = 8.
  const auto read = read_bytes(
      "# size count type redop root time algbw busbw #wrong\n"
      " 1073741824 268435456 float sum -1 8000.0 134.2 234.9 0 8000.0 134.2 234.9 0\n",
      "x.txt");
  REQUIRE(read);
  REQUIRE(read->measurements.collectives.size() == 1);
  CHECK(read->measurements.collectives[0].ranks == 8);
}

TEST_CASE("calibrate: durations of bigscience's benchmark are read") {
  std::string text;
  for (int rank = 0; rank < 4; ++rank) text += std::to_string(rank) + " data size: 4.0 GB\n";
  text +=
      "0:\n duration: 2.0000 sec\n algo throughput: 3 bps, 3 Gbps\n busbw: 2  Gbps\n"
      "1:\n duration: 2.5000 sec\n2:\n duration: 3.0000 sec\n";
  const auto read = read_bytes(text, "x.txt");
  REQUIRE(read);
  REQUIRE(read->measurements.collectives.size() == 1);
  CHECK(read->measurements.collectives[0].bytes.n == 4'000'000'000);
  CHECK(read->measurements.collectives[0].seconds == Approx(2.5));
  CHECK(read->measurements.collectives[0].ranks == 4);
}

TEST_CASE("calibrate: numbers in logs are read to their end and nothing else is") {
  CHECK(number_after("tps: 5,123 x", "tps:") == 5123);
  CHECK(number_after("a=1.5e3", "a") == 1500);
  CHECK(number_after("a: nan", "a:") == 0);
  CHECK(number_after("a: -3", "a:") == 0);
  CHECK(number_after("a: 1e999", "a:") == 0);
  CHECK(number_after("a:", "a:") == 0);
  CHECK(date_in("x 2024-13-99 y").size() == 10);
  CHECK(date_in("2024") == "");
}

TEST_CASE("calibrate: the ranks of nccl-tests are the highest of the header and one") {
  // Two processes print the same header, and srun prefixes the lines with their numbers.
  std::string text;
  for (int copy = 0; copy < 2; ++copy)
    for (int rank : {0, 1, 2, 15})
      text += std::to_string(copy) + ": #  Rank " + std::to_string(rank) +
              " Group  0 Pid  99 on node0 device  0 [0x07] NVIDIA H100 80GB HBM3\n";
  text +=
      " 0: # size count type redop root time algbw busbw #wrong\n"
      " 0: 1048576 262144 float sum -1 63.91 16.41 30.76 0 63.50 16.51 30.96 0\n";
  const auto read = read_bytes(text, "x.txt");
  REQUIRE(read);
  REQUIRE(read->measurements.collectives.size() == 1);
  CHECK(read->measurements.collectives[0].ranks == 16);
}

TEST_CASE("calibrate: without a header the bandwidths of the largest size say the ranks") {
  // The busbw / algbw ratio gives the ranks. Small sizes print 0.16 and 0.3, whose ratio of 1.875
  // would mean 16 ranks. Large sizes print 1.75: 8 ranks.
  const auto read = read_bytes(
      "# size count type redop root time algbw busbw #wrong\n"
      " 4096 1024 float sum -1 25.0 0.16 0.30 0 25.0 0.16 0.30 0\n"
      " 1073741824 268435456 float sum -1 8000.0 134.2 234.9 0 8000.0 134.2 234.9 0\n",
      "x.txt");
  REQUIRE(read);
  REQUIRE(read->measurements.collectives.size() == 2);
  CHECK(read->measurements.collectives[0].ranks == 8);
}

TEST_CASE("calibrate: a log of Composer gives a step for each batch") {
  const auto read = read_bytes(
      "[batch=19/100]:\n"
      "\t Train time/token: 1000\n\t Train throughput/batches_per_sec: 0.0500\n"
      "\t Train throughput/device/tokens_per_sec: 2048.0\n"
      "\t Train throughput/device/flops_per_sec: 150000000000000.0\n"
      "\t Train memory/peak_reserved_mem: 40.5\n"
      "\t Train memory/peak_allocated_mem: 30.25\n"
      "[batch=20/100]:\n\t Train throughput/batches_per_sec: 0.0400\n",
      "x");
  REQUIRE(read);
  CHECK(read->reader->name == "Composer log");
  const auto& steps = read->measurements.steps;
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].iteration == 19);
  CHECK(steps[0].seconds == Approx(20));
  CHECK(steps[0].tokens_s_gpu == Approx(2048));
  CHECK(steps[0].tflops_gpu == Approx(150));
  CHECK(steps[0].reserved_gib == Approx(40.5e9 / (1 << 30)));
  CHECK(steps[0].allocated_gib == Approx(30.25e9 / (1 << 30)));
  CHECK(steps[1].seconds == Approx(25));
}

TEST_CASE("calibrate: what alone would explain a step is what its part must take") {
  answer::Answer answer;
  answer.run.step_time = Duration{10'000'000'000'000};  // 10 s
  engine::ClassReport rank;
  rank.accounts[static_cast<std::size_t>(engine::Account::compute)] = Duration{8'000'000'000'000};
  rank.accounts[static_cast<std::size_t>(engine::Account::dp_exposed)] =
      Duration{2'000'000'000'000};
  answer.run.classes.push_back(rank);
  // 11 s are measured. The kernels take 9/8 of their time, or the links 3/2 of theirs.
  const auto why = explanations(answer, 11);
  REQUIRE(why.size() == 3);
  CHECK(why[0].factor == Approx(1.125));
  CHECK(why[0].calibration == "gemm.sustained and attention.sustained x 0.889");
  CHECK(why[1].factor == Approx(1.5));
  CHECK(why[2].seconds == Approx(1));
  CHECK(explanations(answer, 10.05).empty());

  std::vector<StepSample> steps(5);
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].tokens_s_gpu = i == 0 ? 1 : 100;
  const MeasuredRun run = measured_run(steps, 400);
  CHECK(run.steps == 4);  // the first one warms up
  CHECK(run.seconds == Approx(4));
}
