// launch_torchtitan_test.cpp — torchtitan's configurations, key by key.
#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/input/launch/megatron.h"
#include "sim/input/plan/plan.h"
#include "sim/job/schedule/schedule.h"
#include "support.h"

namespace {

sim::Result<sim::input::PlanFile> titan(const std::string& rest) {
  support::Scratch scratch;
  const std::string text = R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
seq_len = 8192
)" + rest;
  return sim::input::load_megatron(scratch.write("titan.toml", text),
                                   {"gpus=16", "global_batch=64", "cluster=dgx-h100"});
}

}  // namespace

TEST_CASE("launch: torchtitan's asynchronous tensor parallelism sends in pieces") {
  const std::string tensor = "[parallelism]\ntensor_parallel_degree = 2\n";
  const std::string both[2][2] = {
      {tensor + "enable_async_tensor_parallel = true\n", "[compile]\nenable = true\n"},
      {tensor + "[experimental]\nenable_async_tensor_parallel = true\n",
       "[compile]\nenable = true\n"}};
  for (const auto& [asynchronous, compile] : both) {
    const auto file = titan(asynchronous + compile);
    CAPTURE(asynchronous, support::problems(file));
    REQUIRE(file);
    CHECK(file->plan->stack.tp_comm_overlap);
    CHECK(file->plan->uses_sequence_parallel());
    for (const std::string& note : file->notes) CHECK_FALSE(support::contains(note, "async"));
    // torchtitan refuses it without the compiler, and so does the program.
    const auto refused = titan(asynchronous);
    CHECK_FALSE(refused);
    CHECK(support::contains(support::problems(refused), "needs torch.compile"));
  }
  const auto vanilla =
      titan(tensor + "enable_async_tensor_parallel = false\n[compile]\nenable = true\n");
  REQUIRE(vanilla);
  CHECK_FALSE(vanilla->plan->stack.tp_comm_overlap);
}

TEST_CASE("launch: torchtitan shares sequences as PyTorch does, gathered or passed on") {
  const std::string context = "[parallelism]\ncontext_parallel_degree = 2\n";
  for (const auto& [rotates, name] :
       {std::pair{"", "torch-allgather"},
        std::pair{"context_parallel_rotate_method = \"allgather\"\n", "torch-allgather"},
        std::pair{"context_parallel_rotate_method = \"alltoall\"\n", "torch-alltoall"}}) {
    const auto file = titan(context + rotates);
    CAPTURE(rotates, support::problems(file));
    REQUIRE(file);
    CHECK(file->plan->mesh.context == name);
  }
  CHECK_FALSE(titan(context + "context_parallel_rotate_method = \"ring\"\n"));
}

TEST_CASE("launch: torchtitan's checkpoints stop early where it is asked for or compiled") {
  const std::string full =
      "[parallelism]\ntensor_parallel_degree = 2\n[activation_checkpoint]\nmode = \"full\"\n";
  const auto stops = [&](const std::string& rest) {
    const auto file = titan(full + rest);
    CAPTURE(rest, support::problems(file));
    REQUIRE(file);
    return file->plan->stack.checkpoint_early_stop;
  };
  CHECK_FALSE(stops(""));
  CHECK(stops("early_stop = true\n"));
  CHECK_FALSE(stops("early_stop = false\n"));
  CHECK(stops("[compile]\nenable = true\n"));
  CHECK(stops("early_stop = false\n[compile]\nenable = true\n"));
}

TEST_CASE(
    "launch: torchtitan's products in fp8 are asked for by a converter, or by older switches") {
  const auto is_fp8 = [](const std::string& rest, std::size_t notes = 0) {
    const auto file = titan("[parallelism]\ntensor_parallel_degree = 2\n" + rest);
    CAPTURE(rest, support::problems(file));
    REQUIRE(file);
    const auto of_rows = [](const std::string& note) { return support::contains(note, "a row"); };
    CHECK(std::ranges::count_if(file->notes, of_rows) == static_cast<std::ptrdiff_t>(notes));
    if (file->plan->numerics.fp8)
      CHECK(file->plan->numerics.fp8_recipe == sim::program::Fp8Recipe::tensorwise);
    return file->plan->numerics.fp8;
  };
  CHECK_FALSE(is_fp8(""));
  CHECK(is_fp8("[float8]\nenable_float8_linear = true\n"));
  CHECK(is_fp8("[float8]\nenable_fsdp_float8_all_gather = true\n"));
  CHECK_FALSE(is_fp8("[float8]\nenable_float8_linear = false\nrecipe_name = \"rowwise\"\n"));
  CHECK(is_fp8("[float8]\nenable_float8_linear = true\nrecipe_name = \"rowwise\"\n", 1));
  CHECK(is_fp8("[float8]\nenable_float8_linear = true\nrecipe_name = \"tensorwise\"\n"));
  const auto converted = [&](const std::string& converters) {
    const auto file = sim::input::read_megatron(
        "[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = " + converters +
            "\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n",
        "titan.toml", {"gpus=8", "global_batch=8", "cluster=dgx-h100"});
    CAPTURE(converters, support::problems(file));
    REQUIRE(file);
    return file->plan->numerics.fp8;
  };
  CHECK(converted("[\"float8\"]"));
  CHECK(converted("\"quantize.linear.float8\""));
  CHECK_FALSE(converted("[]"));
}

TEST_CASE("launch: torchtitan's layers keep their parameters behind a forward pass, or do not") {
  const auto reshards = [](const std::string& rest) {
    const auto file = titan("[parallelism]\ntensor_parallel_degree = 2\n" + rest +
                            "[activation_checkpoint]\nmode = \"full\"\n");
    CAPTURE(rest, support::problems(file));
    REQUIRE(file);
    return file->plan->sharding.fsdp.reshard_after_forward;
  };
  const std::string key = "fsdp_reshard_after_forward = ",
                    stages = "pipeline_parallel_degree = 2\n";
  CHECK(reshards(""));
  CHECK(reshards(key + "\"default\"\n"));
  CHECK_FALSE(reshards(key + "\"never\"\n"));
  CHECK_FALSE(reshards(stages));
  CHECK_FALSE(reshards(stages + key + "\"default\"\n"));
  CHECK(reshards(stages + key + "\"always\"\n"));
}

TEST_CASE("launch: torchtitan recomputes every n-th layer, and every second one by default") {
  const auto choices = [](const std::string& rest) {
    const auto file = titan("[parallelism]\ntensor_parallel_degree = 2\n" + rest);
    CAPTURE(rest, support::problems(file));
    REQUIRE(file);
    return file->plan->policy.choices;
  };
  using sim::program::LayerChoice;
  const auto second = choices("");
  REQUIRE(second.size() == 32);
  CHECK(std::ranges::count(second, LayerChoice::recompute) == 16);
  CHECK(second[0] == LayerChoice::keep);
  const auto fourth =
      choices("[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"4\"\n");
  CHECK(std::ranges::count(fourth, LayerChoice::recompute) == 8);
  CHECK(choices("[activation_checkpoint]\nmode = \"none\"\n").empty());
  // The layers of a stage are not counted here.
  CHECK(support::contains(support::problems(titan("[parallelism]\npipeline_parallel_degree = 2\n")),
                          "write recompute="));
}

TEST_CASE("launch: torchtitan deals out layers with its embedding and head, and counts chunks") {
  const auto stages = [](const std::string& rest) {
    return titan("[parallelism]\npipeline_parallel_degree = 4\n" + rest +
                 "[activation_checkpoint]\nmode = \"none\"\n");
  };
  const auto pipeline = [&](const std::string& rest) {
    const auto file = stages(rest);
    CAPTURE(rest, support::problems(file));
    REQUIRE(file);
    return file->plan->pipeline;
  };
  using sim::program::LayerSplit;
  const std::string first = "pipeline_parallel_first_stage_less_layers = ",
                    last = "pipeline_parallel_last_stage_less_layers = ",
                    schedule = "pipeline_parallel_schedule = ",
                    of_stage = "pipeline_parallel_layers_per_stage = ";
  const auto unsaid = pipeline("");
  CHECK(unsaid.layer_split == LayerSplit::weighted);
  CHECK(unsaid.embedding_layers == 1);
  CHECK(unsaid.head_layers == 1);
  CHECK(unsaid.schedule == "1f1b");
  const auto two = pipeline(first + "2\n" + last + "3\n");
  CHECK(two.embedding_layers == 2);
  CHECK(two.head_layers == 3);
  CHECK(pipeline(first + "0\n" + last + "0\n").layer_split == LayerSplit::even);
  for (const sim::schedule::Schedule& one : sim::schedule::catalog()) {
    if (one.torch.empty()) continue;
    const auto named = pipeline(schedule + '"' + std::string(one.torch) + "\"\n");
    CHECK(named.schedule == one.name);
    CHECK(named.virtual_stages == one.chunks);
  }
  // 32 layers and 2 of embedding and head: 3 a stage are 12 stages, 4 are 9.
  CHECK(pipeline(schedule + "\"Interleaved1F1B\"\n" + of_stage + "3\n").virtual_stages == 3);
  for (const char* wrong : {"4", "0", "-1", "many", "100"}) {
    const auto file = stages(schedule + "\"Interleaved1F1B\"\n" + of_stage + wrong + "\n");
    CHECK(support::contains(support::problems(file), "write virtual_stages="));
  }
}

TEST_CASE("launch: what is wrong in a configuration of torchtitan is said with its place") {
  const auto file = titan("# a comment\n[activation_checkpoint]\n  early_stop = maybe\n");
  REQUIRE_FALSE(file);
  const std::string said = support::problems(file);
  CHECK(support::contains(said, "titan.toml:9:3"));
  CHECK(support::contains(said, "'checkpoint_early_stop' is true or false, got 'maybe'"));
}
