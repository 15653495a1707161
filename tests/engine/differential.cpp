// differential.cpp — compares the fast engine with the reference engine, picosecond for picosecond
// and byte for byte. The plans of its catalog together use every mechanism.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "sample.h"
#include "sim/job/context/context.h"
#include "sim/job/schedule/schedule.h"
#include "tests/program/draw.h"
#include "tests/program/mixtures.h"

using namespace sim;
using engine::Method;
using engine::Options;
using program::Plan;

namespace {

struct Case {
  std::string name;
  Plan plan;
  double launch_us = 4;
};

// Gives each replica its own number of microbatches.
void share(Plan& p, const std::vector<int>& counts) {
  p.batch.replica_microbatches = counts;
  p.batch.global_batch = p.batch.micro_batch * std::accumulate(counts.begin(), counts.end(), 0);
}

std::vector<Case> catalog() {
  std::vector<Case> cases;
  const auto add = [&cases](std::string name, Plan p, auto change, double launch_us = 4) {
    change(p);
    cases.push_back({std::move(name), std::move(p), launch_us});
  };
  const auto plain = [](Plan&) {};
  add("one GPU", sample::plan(1, 1, 1, 1, 6), plain);
  add("data parallel", sample::plan(1, 1, 1, 4, 8), plain);
  add("tensor parallel", sample::plan(2, 1, 1, 2, 8), plain);
  add("tensor parallel, blocks kept by Work", sample::plan(4, 1, 1, 2, 8),
      [](Plan& p) { p.environment.avoid_record_streams = true; });
  add("no sequence parallelism", sample::plan(2, 1, 2, 1, 8),
      [](Plan& p) { p.mesh.sequence_parallel = false; });
  add("pipeline", sample::plan(1, 1, 4, 1, 12), plain);
  add("3D", sample::plan(2, 1, 4, 2, 12), plain);
  add("3D, two sequences", sample::plan(2, 1, 2, 2, 12), [](Plan& p) {
    p.batch.micro_batch = 2;
    p.batch.global_batch *= 2;
  });
  add("ring attention", sample::plan(1, 2, 1, 2, 6), plain);
  add("ring of four", sample::plan(2, 4, 2, 1, 6), plain);
  add("ring of four, cuDNN", sample::plan(1, 4, 1, 1, 4),
      [](Plan& p) { p.stack.attention = program::AttentionBackend::cudnn; });
  for (const context::Method& method : context::catalog())
    for (const int variant : {0, 1, 2, 3})
      add(fmt::format("context {}, variant {}", method.name, variant),
          sample::plan(variant == 1 ? 2 : 1, 4, variant == 2 ? 2 : 1, 2, 6), [&](Plan& p) {
            p.architecture.kv_heads = p.architecture.heads;
            p.mesh.context = method.name;
            if (method.exchange == context::Exchange::neighbours) p.mesh.ulysses = 2;
            if (variant == 1) p.policy.recompute = program::Recompute::selective;
            if (variant == 1) p.numerics.fp8 = true;
            if (variant == 2) p.stack.layer_kernels = program::LayerKernels::compiled;
            if (variant == 3) p.sharding.data_parallel = program::DataParallelism::fsdp2;
          });
  for (const double launch_us : {1.0, 20.0})
    for (const auto& graphs : {program::CudaGraphs{.attention = true},
                               program::CudaGraphs{.attention = true, .mlp = true},
                               program::CudaGraphs{.passes = true}}) {
      const auto with = [&](Plan& p) {
        p.stack.cuda_graphs = graphs;
        p.stack.check_for_nan = !graphs.passes;
      };
      add("CUDA graphs", sample::plan(2, 2, 2, 2, 8), with, launch_us);
      add("CUDA graphs, a queue for each stream", sample::plan(1, 1, 4, 1, 8), with, launch_us);
    }
  add("CUDA graphs of experts", sample::mixture(), [](Plan& p) {
    p.stack.cuda_graphs = {.attention = true, .router = true, .preprocess = true};
  });
  for (const bool overlaps : {true, false})
    add("optimizer on the CPU", sample::plan(2, 1, 2, 2, 8), [=](Plan& p) {
      p.optimizer = {true, 4, 4, 4, false, 0.5, overlaps};
      p.policy.offload_layers = 1;
    });
  for (const int pp : {1, 2, 4})
    for (const std::uint8_t modules : {0b10, 0b111})
      add("modules on the CPU", sample::plan(2, 1, pp, 1, 8), [=](Plan& p) {
        p.policy.offload_modules = modules;
        p.policy.offload_min_elements = 0;
        p.architecture.layers = 8;
        if (pp == 2) p.sharding.overlap_grad_reduce = p.sharding.overlap_param_gather = false;
        if (pp != 2 || modules == 0b10) return;
        p.pipeline.schedule = "interleaved-1f1b";
        p.pipeline.virtual_stages = 2;
      });
  for (const auto dispatcher : {program::Dispatcher::alltoall, program::Dispatcher::flex})
    for (const bool latent : {false, true})
      add("modules of experts on the CPU", sample::mixture(), [=](Plan& p) {
        if (latent) sample::make_latent(p);
        p.experts.dispatcher = dispatcher;
        p.experts.routing = latent ? program::Routing::skewed : program::Routing::balanced;
        p.policy.offload_modules = 0b1111111;
        p.policy.offload_min_elements = 0;
      });
  for (const auto kind : {program::DataParallelism::fsdp1, program::DataParallelism::fsdp2})
    add("ZeRO++", sample::plan(1, 1, 1, 4, 6), [=](Plan& p) {
      p.sharding.data_parallel = kind;
      p.sharding.fsdp.secondary = 2;
      p.sharding.fsdp.quantized_weights = p.sharding.fsdp.quantized_gradients = true;
    });
  add("gpipe", sample::plan(2, 1, 4, 1, 8), [](Plan& p) { p.pipeline.schedule = "gpipe"; });
  add("zero bubble", sample::plan(2, 1, 4, 1, 12), [](Plan& p) { p.pipeline.schedule = "zb-h1"; });
  add("zero bubble without tensor parallelism", sample::plan(1, 1, 3, 2, 9), [](Plan& p) {
    p.pipeline.schedule = "zb-h1";
    p.architecture.layers = 9;
  });
  add("interleaved", sample::plan(2, 1, 2, 2, 8), [](Plan& p) {
    p.pipeline.schedule = "interleaved-1f1b";
    p.pipeline.virtual_stages = 2;
  });
  add("interleaved, all warm-up", sample::plan(1, 1, 4, 1, 4), [](Plan& p) {
    p.pipeline.schedule = "interleaved-1f1b";
    p.pipeline.virtual_stages = 2;
  });
  add("interleaved, the embedding and the head alone", sample::plan(2, 1, 2, 2, 8), [](Plan& p) {
    p.pipeline.schedule = "interleaved-1f1b";
    p.architecture.layers = 6;
    p.pipeline.virtual_stages = 4;
    p.pipeline.account_for_embedding = p.pipeline.account_for_loss = true;
  });
  add("full recomputation", sample::plan(2, 1, 2, 1, 8),
      [](Plan& p) { p.policy.recompute = program::Recompute::full; });
  add("full recomputation in pairs", sample::plan(2, 1, 2, 1, 8), [](Plan& p) {
    p.policy.recompute = program::Recompute::full;
    p.policy.recompute_layers = 2;
  });
  for (const auto kind : {program::DataParallelism::ddp, program::DataParallelism::fsdp2})
    add("each layer by its own choice", sample::plan(1, 1, 2, 2, 8), [=](Plan& p) {
      using enum program::LayerChoice;
      p.sharding.data_parallel = kind;
      p.policy.choices = {swap, recompute, swap, keep};
    });
  add("slices of unlike lengths", sample::plan(2, 1, 4, 1, 6), [](Plan& p) {
    p.pipeline.schedule = "terapipe";
    p.pipeline.slice_lengths = {768, 512, 448, 320};
  });
  add("recomputation of a block of layers", sample::plan(1, 1, 2, 1, 6), [](Plan& p) {
    p.policy.recompute = program::Recompute::full;
    p.policy.recompute_method = program::RecomputeMethod::block;
    p.policy.recompute_layers = 3;
  });
  add("GPT, unfused attention, selective", sample::plan(2, 1, 2, 1, 6), [](Plan& p) {
    p.architecture = sample::gpt();
    p.stack.attention = program::AttentionBackend::unfused;
    p.policy.recompute = program::Recompute::selective;
  });
  add("GPT, unfused attention", sample::plan(2, 1, 1, 2, 4), [](Plan& p) {
    p.architecture = sample::gpt();
    p.stack.attention = program::AttentionBackend::unfused;
  });
  add("no overlap", sample::plan(2, 1, 2, 2, 8),
      [](Plan& p) { p.sharding.overlap_grad_reduce = p.sharding.overlap_param_gather = false; });
  add("all-reduced gradients", sample::plan(2, 1, 2, 2, 8),
      [](Plan& p) { p.sharding.distributed_optimizer = p.sharding.overlap_param_gather = false; });
  add("bf16 gradients, expandable segments", sample::plan(2, 1, 2, 2, 8), [](Plan& p) {
    p.numerics.fp32_gradients = false;
    p.environment.allocator_options = "expandable_segments:True";
  });
  add("fp8", sample::plan(2, 1, 2, 2, 6), [](Plan& p) { p.numerics.fp8 = true; });
  for (const auto recompute : {program::Recompute::none, program::Recompute::full}) {
    add("rounded operands, clipped", sample::plan(2, 1, 2, 2, 6), [=](Plan& p) {
      p.stack.gradient_accumulation_fusion = false;
      p.numerics.fake_quantization = program::FakeQuantization::operands;
      p.numerics.fake_quantization_clips = true;
      p.policy.recompute = recompute;
    });
    add("saved weights of a depth", sample::plan(2, 1, 1, 4, 8), [=](Plan& p) {
      p.mesh.tensor_depth = 2;
      p.mesh.sequence_parallel = false;
      p.sharding.distributed_optimizer = p.sharding.overlap_param_gather =
          p.sharding.overlap_grad_reduce = false;
      p.stack.gradient_accumulation_fusion = false;
      p.stack.saved_depth_weights = true;
      p.policy.recompute = recompute;
    });
    add("state of DeepSpeed on the CPU", sample::plan(2, 1, 2, 2, 6), [=](Plan& p) {
      sample::deepspeed(p);
      p.optimizer.offload_fraction = 1;
      p.policy.recompute = recompute;
    });
  }
  for (const int stride : {0, 2, 3})
    for (const bool async : {false, true})
      for (const double fraction : {0.5, 1.0})
        add("ZeRO-3 on the CPU", sample::plan(2, 1, 1, 4, 6), [=](Plan& p) {
          p.sharding.data_parallel = program::DataParallelism::fsdp2;
          p.sharding.deepspeed_optimizer = true;
          p.sharding.deepspeed_all_reduce = async;
          p.sharding.overlap_grad_reduce = stride != 3;
          p.numerics.fp32_gradients = stride == 2;
          p.optimizer.offload_fraction = fraction;
          p.optimizer.sub_group = 1'000'000;
          p.optimizer.gpu_stride = stride;
          p.optimizer.async_gradient_copy = async;
          p.lora.rank = stride == 3 && async ? 8 : 0;
        });
  for (const bool wide : {false, true})
    add("ZeRO-3 of DeepSpeed", sample::plan(2, 1, 1, 4, 6), [=](Plan& p) {
      p.sharding.data_parallel = program::DataParallelism::fsdp2;
      p.sharding.deepspeed_optimizer = true;
      p.numerics.fp32_gradients = p.sharding.overlap_grad_reduce = wide;
      p.optimizer.sub_group = 1'000'000;
    });
  add("fp8 parameters", sample::plan(2, 1, 2, 2, 6),
      [](Plan& p) { p.numerics.fp8 = p.numerics.fp8_parameters = true; });
  add("packed documents, ring", sample::plan(1, 2, 2, 1, 4),
      [](Plan& p) { p.batch.packed_document = p.batch.sequence / 8; });
  add("uneven stages", sample::plan(1, 1, 4, 1, 8), [](Plan& p) {
    p.architecture.layers = 10;
    p.pipeline.account_for_embedding = p.pipeline.account_for_loss = true;
  });
  add("recomputed MLP", sample::plan(2, 1, 2, 1, 6), [](Plan& p) {
    p.policy.recompute = program::Recompute::selective;
    p.policy.recompute_modules = {false, true};
  });
  add("uneven chunks", sample::plan(2, 1, 2, 2, 8), [](Plan& p) {
    p.pipeline.schedule = "interleaved-1f1b";
    p.pipeline.virtual_stages = 2;
    p.architecture.layers = 7;
    p.pipeline.account_for_embedding = true;
  });
  const auto sharded = [](program::DataParallelism kind, int replicas = 1) {
    return [=](Plan& p) {
      p.sharding.data_parallel = kind;
      p.sharding.fsdp.replicas = replicas;
    };
  };
  add("flat shards", sample::plan(1, 1, 1, 4, 6), sharded(program::DataParallelism::fsdp1));
  add("flat shards, launch-bound", sample::plan(1, 1, 1, 4, 6),
      sharded(program::DataParallelism::fsdp1), 300);
  add("shards", sample::plan(1, 1, 1, 4, 6), sharded(program::DataParallelism::fsdp2));
  add("shards, two copies", sample::plan(2, 1, 1, 4, 5),
      sharded(program::DataParallelism::fsdp2, 2));
  add("shards, ring, two flat copies", sample::plan(1, 2, 1, 4, 5),
      sharded(program::DataParallelism::fsdp1, 2));
  add("flat shards, bf16 reduction, recomputation", sample::plan(1, 1, 1, 4, 4), [](Plan& p) {
    p.sharding.data_parallel = program::DataParallelism::fsdp1;
    p.numerics.fp32_gradients = false;
    p.policy.recompute = program::Recompute::full;
  });
  add("ZeRO-2, reduced at the end", sample::plan(1, 1, 1, 4, 6), [](Plan& p) {
    p.sharding.data_parallel = program::DataParallelism::fsdp2;
    p.sharding.fsdp.reshard_after_forward = false;
    p.sharding.fsdp.no_sync = true;
  });
  add("flat ZeRO-2, gathers unlimited", sample::plan(1, 1, 1, 4, 6), [](Plan& p) {
    p.sharding.data_parallel = program::DataParallelism::fsdp1;
    p.sharding.fsdp.reshard_after_forward = false;
    p.sharding.fsdp.limit_all_gathers = false;
  });
  add("shards gathered ahead", sample::plan(1, 1, 1, 4, 6), [](Plan& p) {
    p.sharding.data_parallel = program::DataParallelism::fsdp2;
    p.sharding.fsdp.forward_prefetch = p.sharding.fsdp.backward_prefetch = 2;
  });
  // Sharded parameters with pipeline stages: every schedule, FSDP1 and FSDP2, kept whole until the
  // last pass or gathered again.
  for (const schedule::Schedule& schedule : schedule::catalog())
    for (const auto kind : {program::DataParallelism::fsdp1, program::DataParallelism::fsdp2})
      for (const bool reshard : {true, false}) {
        Plan p = sample::plan(reshard ? 2 : 1, 1, 2, 4, 6);
        p.pipeline.schedule = schedule.name;
        p.pipeline.virtual_stages = schedule.problem({2, 6, 1}).empty() ? 1 : 2;
        p.sharding.data_parallel = kind;
        p.sharding.fsdp.reshard_after_forward = reshard;
        p.sharding.fsdp.replicas = reshard ? 2 : 1;
        if (!program::problems(p).empty()) continue;
        add(fmt::format("shards with stages, {}", schedule.name), p, plain);
      }
  add("GPT in shards on stages", sample::plan(1, 1, 4, 2, 6), [](Plan& p) {
    p.architecture = sample::gpt();
    p.sharding.data_parallel = program::DataParallelism::fsdp2;
    p.numerics.fp32_gradients = false;
  });
  add("adapters in shards", sample::plan(2, 1, 2, 2, 6), [](Plan& p) {
    p.sharding.data_parallel = program::DataParallelism::fsdp2;
    p.lora.rank = 16;
  });
  add("adapters in flat shards, recomputed in pairs", sample::plan(1, 1, 1, 4, 6), [](Plan& p) {
    p.sharding.data_parallel = program::DataParallelism::fsdp1;
    p.lora.rank = 16;
    p.policy.recompute = program::Recompute::full;
    p.policy.recompute_layers = 2;
  });
  add("shards gathered in fp8, on stages", sample::plan(2, 1, 2, 2, 6), [](Plan& p) {
    p.sharding.data_parallel = program::DataParallelism::fsdp2;
    p.numerics.fp8 = p.numerics.fp8_parameters = true;
    p.sharding.fsdp.reshard_after_forward = false;
  });
  add("launch-bound", sample::plan(2, 1, 2, 2, 8), plain, 300);
  const auto unlike = [](std::vector<int> counts) { return [=](Plan& p) { share(p, counts); }; };
  add("unlike replicas", sample::plan(1, 1, 1, 4, 1), unlike({6, 6, 3, 1}));
  add("unlike replicas, launch-bound", sample::plan(2, 1, 1, 2, 1), unlike({2, 7}), 300);
  add("unlike replicas, 3D", sample::plan(2, 1, 2, 3, 1), unlike({8, 2, 5}));
  add("unlike replicas, ring", sample::plan(1, 2, 2, 2, 1), unlike({3, 9}));
  add("unlike replicas, all-reduced gradients", sample::plan(1, 1, 2, 2, 1), [](Plan& p) {
    p.sharding.distributed_optimizer = p.sharding.overlap_param_gather = false;
    share(p, {9, 4});
  });
  add("unlike replicas, no overlap", sample::plan(2, 1, 2, 2, 1), [](Plan& p) {
    p.sharding.overlap_grad_reduce = p.sharding.overlap_param_gather = false;
    share(p, {9, 4});
  });
  add("unlike replicas, DeepSpeed", sample::plan(2, 1, 2, 2, 1), [](Plan& p) {
    sample::deepspeed(p);
    share(p, {3, 6});
  });
  for (const auto& [name, mixture] : sample::mixtures()) add(name, mixture, plain);
  return cases;
}

// Every schedule that has programs, with the options that it allows.
std::vector<Case> schedules() {
  std::vector<Case> cases;
  for (const schedule::Schedule& schedule : schedule::catalog()) {
    Plan base = sample::plan(1, 1, 4, 2, 12);
    base.pipeline.schedule = schedule.name;
    base.pipeline.virtual_stages = schedule.chunks;
    const auto add = [&](const char* what, auto change, bool gpt = false) {
      Plan p = base;
      if (gpt) p.architecture = sample::gpt();
      change(p);
      if (program::problems(p).empty())
        cases.push_back({std::string(schedule.name) + ", " + what, std::move(p)});
    };
    add("plain", [](Plan&) {});
    add("tensor parallel", [](Plan& p) { p.mesh.tp = 2; });
    add("full recomputation", [](Plan& p) { p.policy.recompute = program::Recompute::full; });
    add("fp8", [](Plan& p) { p.numerics.fp8 = true; });
    add("replicated", [](Plan& p) {
      p.sharding.distributed_optimizer = p.sharding.overlap_param_gather = false;
    });
    add("shards", [](Plan& p) { p.sharding.data_parallel = program::DataParallelism::fsdp2; });
    add("optimizer validated later", [](Plan& p) { p.optimizer.post_validation = true; });
    add("two stages", [](Plan& p) { p.mesh.pp = 2; });
    add("unlike replicas", [](Plan& p) { share(p, {16, 12}); });
    add("unlike replicas, recomputation", [](Plan& p) {
      share(p, {12, 20});
      p.policy.recompute = program::Recompute::full;
    });
    add("padded", [](Plan& p) {
      p.pipeline.layer_split = program::LayerSplit::padded;
      p.architecture.layers = 7;
    });
    add(
        "tied embeddings", [](Plan&) {}, true);
  }
  return cases;
}

// Every way to share a sequence or a product, with the options that it allows.
std::vector<Case> shares() {
  std::vector<Case> cases;
  const auto with_all = [&](const std::string& name, const Plan& base) {
    const auto add = [&](const char* what, auto change) {
      Plan p = base;
      change(p);
      if (program::problems(p).empty()) cases.push_back({name + ", " + what, std::move(p)});
    };
    add("plain", [](Plan&) {});
    add("full recomputation", [](Plan& p) { p.policy.recompute = program::Recompute::full; });
    add("recomputed core", [](Plan& p) { p.policy.recompute = program::Recompute::selective; });
    add("fp8", [](Plan& p) { p.numerics.fp8 = true; });
    add("replicated", [](Plan& p) {
      p.sharding.distributed_optimizer = p.sharding.overlap_param_gather = false;
    });
    add("shards", [](Plan& p) { p.sharding.data_parallel = program::DataParallelism::fsdp2; });
    add("interleaved", [](Plan& p) {
      p.mesh.pp = 2;
      p.pipeline.schedule = "interleaved-1f1b";
      p.pipeline.virtual_stages = 2;
    });
  };
  for (const context::Method& method : context::catalog()) {
    Plan base = sample::plan(2, 4, 1, 2, 6);
    base.architecture.kv_heads = base.architecture.heads;
    base.mesh.context = method.name;
    if (method.exchange == context::Exchange::neighbours) base.mesh.ulysses = 2;
    with_all(fmt::format("context {}", method.name), base);
  }
  Plan columns = sample::plan(4, 1, 1, 2, 6);
  columns.mesh.tensor_columns = 2;
  columns.mesh.sequence_parallel = false;
  with_all("columns of products", columns);
  columns.mesh.dp = 4;
  columns.mesh.tensor_depth = 2;
  columns.batch.global_batch *= 2;
  columns.sharding.distributed_optimizer = columns.sharding.overlap_param_gather =
      columns.sharding.overlap_grad_reduce = false;
  columns.stack.gradient_accumulation_fusion = false;
  with_all("columns and depth of products", columns);
  CHECK(cases.size() > 50);
  return cases;
}

// All operations by rank class and stream, independent of the order of the calls.
struct Recorder final : engine::Observer {
  using Operation = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>;
  std::map<std::pair<int, int>, std::vector<Operation>> operations;
  std::map<int, std::vector<std::array<std::int64_t, 5>>> memory_events;

  void operation(int c, program::Stream stream, std::string_view name,
                 const engine::ProgramLocation&, Time start, Time waited, Time end) override {
    operations[{c, static_cast<int>(stream)}].emplace_back(std::string(name), start.ps, waited.ps,
                                                           end.ps);
  }
  void memory(const engine::MemoryChange& m) override {
    memory_events[m.rank_class].push_back(
        {m.when.ps, static_cast<std::int64_t>(m.category), m.delta, m.allocated.n, m.reserved.n});
  }
};

void check_equal(const engine::RunReport& a, const engine::RunReport& b) {
  CHECK(a.step_time == b.step_time);
  CHECK(a.warm_up_time == b.warm_up_time);
  CHECK(a.first_step_time == b.first_step_time);
  CHECK(a.step == b.step);
  CHECK(a.steady == b.steady);
  REQUIRE(a.classes.size() == b.classes.size());
  for (std::size_t i = 0; i < a.classes.size(); ++i) {
    CAPTURE(i);
    CHECK(a.classes[i].accounts == b.classes[i].accounts);
    CHECK(a.classes[i].peak_allocated == b.classes[i].peak_allocated);
    CHECK(a.classes[i].peak_reserved == b.classes[i].peak_reserved);
    CHECK(a.classes[i].peak_active == b.classes[i].peak_active);
    CHECK(a.classes[i].static_bytes == b.classes[i].static_bytes);
    CHECK(a.classes[i].peak_split == b.classes[i].peak_split);
    CHECK(a.classes[i].step_retries == b.classes[i].step_retries);
  }
}

}  // namespace

TEST_CASE("engine: fast and reference engine agree on every operation and every byte") {
  std::vector<Case> cases = catalog();
  for (Case& c : shares()) cases.push_back(std::move(c));
  for (Case& c : schedules()) cases.push_back(std::move(c));
  const auto both = static_cast<std::ptrdiff_t>(cases.size());
  // Below, the CPU waits for the GPU.
  for (Case& c : schedules()) cases.push_back(std::move(c));
  for (Case& c : catalog())
    if (c.plan.stack.cuda_graphs.any()) cases.push_back(std::move(c));
  for (const Case& c : cases) {
    CAPTURE(c.name);
    REQUIRE(program::problems(c.plan).empty());
    const program::Job job = sample::job(c.plan);
    engine::Times times = sample::times(job, c.launch_us);
    times.launch_queue = &c - cases.data() >= both ? 24 : 0;
    times.queue_entries_per_collective = 2;
    const engine::Memory memory = [&] {
      engine::Memory m = sample::memory(job);
      m.options = c.plan.environment.allocator_options;
      return m;
    }();
    Recorder fast, reference;
    Options options;
    options.steps = 2;
    options.observer = &fast;
    const engine::RunReport a = engine::run(job, times, memory, options);
    options.observer = &reference;
    options.method = Method::reference;
    const engine::RunReport b = engine::run(job, times, memory, options);
    check_equal(a, b);
    CHECK(fast.operations == reference.operations);
    CHECK(fast.memory_events == reference.memory_events);
  }
}

TEST_CASE("engine: both engines agree on plans drawn from all that is legal") {
  int shards = 0;
  for (std::uint64_t number = 0; number < 500; ++number) {
    const Plan plan = sample::draw(number);
    if (!program::problems(plan).empty()) continue;
    CAPTURE(number);
    shards += plan.shards_parameters();
    const program::Job job = sample::job(plan);
    engine::Times times = sample::times(job, 4);
    // The queue has no limit, or so few entries that the CPU waits. A collective takes two entries.
    times.launch_queue = std::array{0, 2, 5, 40}[number % 4];
    times.queue_entries_per_collective = 2;
    Options options;
    options.steps = 2;
    const engine::RunReport a = engine::run(job, times, sample::memory(job), options);
    options.method = Method::reference;
    check_equal(a, engine::run(job, times, sample::memory(job), options));
  }
  CHECK(shards > 50);
}

namespace {

// The numbers of operations executed with and without shortcuts. Checks that both give the same
// answer.
std::pair<std::int64_t, std::int64_t> executed(const program::Job& job, const engine::Times& times,
                                               const engine::Memory& memory, int steps = 2) {
  Options options;
  options.steps = steps;
  const engine::RunReport few = engine::run(job, times, memory, options);
  options.shortcuts = false;
  const engine::RunReport all = engine::run(job, times, memory, options);
  check_equal(few, all);
  return {few.replayed, all.replayed};
}

}  // namespace

TEST_CASE("engine: the shortcuts of the fast engine change nothing") {
  for (Case c : catalog()) {
    CAPTURE(c.name);
    c.plan.batch.global_batch *= 4;
    for (int& count : c.plan.batch.replica_microbatches) count *= 4;
    const program::Job job = sample::job(c.plan);
    const engine::Times times = sample::times(job, c.launch_us);
    const engine::Memory memory = sample::memory(job);
    const auto [few, all] = executed(job, times, memory);
    CHECK(few <= all);
  }
}

TEST_CASE("engine: of many steps the last is reported, executed or not") {
  const program::Job job = sample::job(sample::plan(1, 1, 2, 2, 4));
  const auto [few, all] = executed(job, sample::times(job), sample::memory(job), 9);
  CHECK(2 * few < all);
}

TEST_CASE("engine: one class stands for its tensor and data parallel peers exactly") {
  for (const Case& c : catalog()) {
    if (c.plan.world() > 16 || c.plan.draws_routes()) continue;
    CAPTURE(c.name);
    const program::Environment environment{Bytes{4 << 20}, Bytes{8 << 20}, 100};
    const program::Job merged = program::build(program::valid(c.plan), environment);
    const program::Job all = program::build(program::valid(c.plan), environment, true);
    REQUIRE(static_cast<int>(all.classes.size()) == c.plan.world());
    const engine::RunReport a =
        engine::run(merged, sample::times(merged, c.launch_us), sample::memory(merged), Options{});
    const engine::RunReport b =
        engine::run(all, sample::times(all, c.launch_us), sample::memory(all), Options{});
    CHECK(a.step_time == b.step_time);
    CHECK(a.warm_up_time == b.warm_up_time);
    CHECK(a.first_step_time == b.first_step_time);
    CHECK(a.step == b.step);
    CHECK(a.steady == b.steady);
    CHECK(a.bubble == Approx(b.bubble));
    for (std::size_t i = 0; i < b.classes.size(); ++i) {
      const auto at = all.mesh.coordinates(static_cast<int>(i));
      const auto& one = a.classes[static_cast<std::size_t>(
          merged.mesh.class_of({at.stage, merged.mesh.replica_class(at.dp_rank), at.cp_rank, 0}))];
      CHECK(b.classes[i].accounts == one.accounts);
      CHECK(b.classes[i].peak_allocated == one.peak_allocated);
      CHECK(b.classes[i].peak_reserved == one.peak_reserved);
    }
  }
}

TEST_CASE("engine: a repeating step is not executed to its end") {
  // One GPU repeats from the second microbatch on: only a few of 64 are executed.
  const program::Job job = sample::job(sample::plan(1, 1, 1, 1, 64));
  const engine::RunReport report =
      engine::run(job, sample::times(job), sample::memory(job), Options{});
  CHECK(report.replayed < report.events);
}

TEST_CASE("engine: of many microbatches few are executed, also where they go round") {
  int schedules = 0;
  for (const schedule::Schedule& schedule : schedule::catalog()) {
    CAPTURE(schedule.name);
    Plan p = sample::plan(1, 1, 4, 1, 128);
    p.pipeline.schedule = schedule.name;
    p.pipeline.virtual_stages = schedule.problem({4, 128, 1}).empty() ? schedule.chunks : 2;
    if (!program::problems(p).empty()) continue;
    const program::Job job = sample::job(p);
    if (job.classes.front().cuts.empty() || schedule.output != schedule::Output::last_part)
      continue;
    engine::Times times = sample::times(job);
    times.launch_queue = 64;
    const auto [few, all] = executed(job, times, sample::memory(job));
    // With local parallelism every stage has its own pace. Breadth-first ends all microbatches
    // after all forward passes.
    if (schedule.name == "local" || schedule.name == "breadth-first") continue;
    CHECK(2 * few < all);
    ++schedules;
  }
  CHECK(schedules >= 14);
}

TEST_CASE("engine: the accounts of a class sum to the step time") {
  for (const Case& c : catalog()) {
    CAPTURE(c.name);
    const program::Job job = sample::job(c.plan);
    const engine::RunReport report =
        engine::run(job, sample::times(job, c.launch_us), sample::memory(job), Options{});
    for (const engine::ClassReport& r : report.classes) {
      Duration sum{};
      for (const Duration d : r.accounts) {
        CHECK(d.ps >= 0);
        sum += d;
      }
      CHECK(sum == report.step_time);
      CHECK(r.peak_allocated <= r.peak_reserved);
    }
  }
}

TEST_CASE("engine: out of memory is found by both engines at the same place") {
  for (const std::int64_t mib : {600, 900, 1400}) {
    CAPTURE(mib);
    const program::Job job = sample::job(sample::plan(2, 1, 2, 1, 8));
    const engine::Times times = sample::times(job);
    const engine::Memory memory = sample::memory(job, Bytes{mib << 20});
    Options options;
    const engine::RunReport a = engine::run(job, times, memory, options);
    options.method = Method::reference;
    const engine::RunReport b = engine::run(job, times, memory, options);
    REQUIRE(a.out_of_memory == b.out_of_memory);
    CHECK(!a.out_of_memory.empty() == (mib < 1400));
    for (const std::size_t i : a.out_of_memory) {
      const auto& x = *a.classes[i].out_of_memory;
      const auto& y = *b.classes[i].out_of_memory;
      CHECK(x.place.label == y.place.label);
      CHECK(x.place.layer == y.place.layer);
      CHECK(x.place.microbatch == y.place.microbatch);
      CHECK(x.requested == y.requested);
      CHECK(x.reserved == y.reserved);
      CHECK(x.allocated == y.allocated);
      CHECK(x.allocated + x.device_free <= Bytes{mib << 20});
    }
  }
}

TEST_CASE("engine: messages posted ahead come to an end at every size of memory") {
  for (const char* schedule : {"zb-2p", "zb-v", "interleaved-zb", "breadth-first"})
    for (std::int64_t mib = 500; mib <= 1700; mib += 50) {
      CAPTURE(schedule, mib);
      program::Plan p = sample::plan(1, 1, 4, 1, 12);
      p.pipeline.schedule = schedule;
      p.pipeline.virtual_stages = schedule::find(schedule)->chunks;
      const program::Job job = sample::job(p);
      const engine::Times times = sample::times(job);
      const engine::Memory memory = sample::memory(job, Bytes{mib << 20});
      const engine::RunReport report = engine::run(job, times, memory, {});
      const engine::RunReport reference =
          engine::run(job, times, memory, {.method = Method::reference});
      CHECK(report.step_time > Duration{});
      // If memory runs out, a real job hangs. The engines may let different ranks continue first.
      CHECK(report.out_of_memory.empty() == reference.out_of_memory.empty());
      if (report.out_of_memory.empty()) check_equal(report, reference);
    }
}
