// sample.h — plans for tests of programs, and a walk through the allocations of a rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/program/build/build.h"
#include "tests/program/draw.h"
#include "tests/program/later_plans.h"
#include "tests/program/mixtures.h"

namespace sample {

using namespace sim;
using namespace sim::program;

// Llama-3.1-8B.
inline Plan llama_8b() {
  Plan p;
  model::Architecture& a = p.architecture;
  a.layers = 32;
  a.hidden = 4096;
  a.ffn = 14336;
  a.heads = 32;
  a.kv_heads = 8;
  a.head_dim = 128;
  a.vocab = 128256;
  a.max_positions = 131072;
  p.mesh.tp = 2;
  p.mesh.dp = 4;
  p.batch.sequence = 8192;
  p.batch.global_batch = 64;
  return p;
}

// The style of GPT-3: learned positions, layer norm, biases, dropout, tied embeddings.
inline Plan gpt() {
  Plan p;
  model::Architecture& a = p.architecture;
  a.layers = 8;
  a.hidden = 1024;
  a.ffn = 4096;
  a.heads = a.kv_heads = 16;
  a.head_dim = 64;
  a.vocab = 51200;
  a.max_positions = 8192;
  a.norm = model::Norm::layer;
  a.position = model::Position::learned;
  a.activation = model::Activation::gelu;
  a.tied_embeddings = a.qkv_bias = a.linear_bias = true;
  a.attention_dropout = a.hidden_dropout = 0.1;
  p.stack.attention = AttentionBackend::unfused;
  p.mesh.dp = 2;
  p.batch.sequence = 2048;
  p.batch.global_batch = 16;
  return p;
}

inline Job job(const Plan& plan) {
  return build(valid(plan), {Bytes{4 << 20}, Bytes{8 << 20}, 108});
}

// Calls visit(instruction) for all instructions of a later step, in order.
template <typename Visit>
void each_of_step(const Program& program, Visit visit) {
  for (const Pass& pass : program.step)
    for (const Call& call : program.templates[pass.pattern].calls)
      for (const Instruction& i : program.blocks[call.block].code) visit(i);
}

struct Tensor {
  std::string label;
  std::int64_t bytes = 0;
  Category category = Category::other;
  Stream pool = Stream::compute;
};

// The rules that a plan breaks, one per line.
inline std::string rules(const Plan& plan) {
  std::string text;
  for (const Diagnostic& p : problems(plan)) text += p.where + ": " + p.message + "\n";
  return text;
}

// Walks passes in order and tracks allocations. `at(instruction, block, live)` runs after every
// instruction.
class Walk {
 public:
  explicit Walk(const Program& program) : program_(program) {}

  template <class At>
  void run(const std::vector<Pass>& passes, At at) {
    for (const Pass& pass : passes)
      for (const Call& call : program_.templates[pass.pattern].calls) {
        const Block& block = program_.blocks[call.block];
        for (const Instruction& i : block.code) {
          step(pass, call, i);
          at(i, block, *this);
        }
      }
  }
  void run(const std::vector<Pass>& passes) {
    run(passes, [](const Instruction&, const Block&, const Walk&) {});
  }

  // Bytes alive under a label; with an empty label, all bytes.
  std::int64_t bytes(const std::string& label = "") const {
    std::int64_t sum = 0;
    for (const auto& [slot, t] : live_)
      if (label.empty() || t.label == label) sum += t.bytes;
    return sum;
  }
  int count(const std::string& label) const {
    return static_cast<int>(std::count_if(live_.begin(), live_.end(),
                                          [&](const auto& t) { return t.second.label == label; }));
  }
  const std::string& name(const Instruction& i) const { return program_.labels[i.label]; }
  const std::set<std::string>& seen() const { return seen_; }
  // Errors with slots: a full one filled, an empty one emptied.
  const std::vector<std::string>& broken() const { return broken_; }
  bool holds_only_fixed() const {
    return std::all_of(live_.begin(), live_.end(),
                       [](const auto& t) { return std::get<0>(t.first) == Space::fixed; });
  }

 private:
  using Key = std::tuple<Space, std::uint32_t, std::uint32_t>;  // space, frame, index

  static Key key(const Pass& pass, const Call& call, Space space, std::uint32_t index) {
    // Slots of the microbatch and of its layers share a frame.
    const bool framed = space == Space::microbatch || space == Space::layer;
    return {framed ? Space::microbatch : space, framed ? pass.frame : 0,
            space == Space::layer ? call.layer_base + index : index};
  }
  void step(const Pass& pass, const Call& call, const Instruction& i) {
    const Key from = key(pass, call, i.space, i.index);
    if (i.op == Op::alloc) {
      fill(from, {name(i), i.value, i.category, i.stream});
      seen_.insert(name(i));
    } else if (i.op == Op::free) {
      if (live_.erase(from) == 0 && !(i.flags & maybe)) broken_.push_back("free of an empty slot");
    } else if (i.op == Op::record_stream) {
      if (!live_.count(from)) broken_.push_back("record of an empty slot");
    } else if (i.op == Op::move) {
      const auto it = live_.find(from);
      if (it == live_.end()) {
        broken_.push_back("move of an empty slot");
        return;
      }
      const Tensor tensor = it->second;
      live_.erase(it);
      fill(key(pass, call, static_cast<Space>(i.value >> 32), static_cast<std::uint32_t>(i.value)),
           tensor);
    }
  }
  void fill(const Key& key, Tensor tensor) {
    const auto [it, empty] = live_.emplace(key, tensor);
    if (!empty) broken_.push_back(tensor.label + " in the slot of " + it->second.label);
    it->second = std::move(tensor);
  }

  const Program& program_;
  std::map<Key, Tensor> live_;
  std::set<std::string> seen_;
  std::vector<std::string> broken_;
};

// The maximum bytes alive under a label in a later step.
inline std::int64_t most_in_step(const Program& program, const std::string& label) {
  Walk walk(program);
  walk.run(program.setup);
  walk.run(program.first_step);
  std::int64_t most = 0;
  walk.run(program.step, [&](const Instruction&, const Block&, const Walk& now) {
    most = std::max(most, now.bytes(label));
  });
  return most;
}

// Bytes alive at the begin of the head of a later step's first microbatch, in class 0.
inline std::int64_t at_head(const Plan& plan) {
  const Program program = job(plan).classes[0];
  Walk walk(program);
  walk.run(program.setup);
  walk.run(program.first_step);
  std::int64_t bytes = 0;
  walk.run(program.step, [&](const Instruction& i, const Block& b, const Walk& now) {
    if (i.op == Op::alloc && b.name == "head and loss" && bytes == 0) bytes = now.bytes();
  });
  return bytes;
}

// Bytes that a block leaves allocated, by label. Blocks that create a library's workspace are
// skipped, because a later block is otherwise equal.
inline std::map<std::string, std::int64_t> left_by(const Program& program,
                                                   const std::string& name) {
  for (std::uint32_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    const bool makes = std::any_of(block.code.begin(), block.code.end(), [](const auto& i) {
      return i.op == Op::alloc && i.space == Space::fixed;
    });
    if (block.name != name || makes) continue;
    Program one = program;
    one.templates = {{PassKind::forward, 0, {{b, 0, 1000}}}};
    Walk walk(one);
    walk.run({Pass{}});
    std::map<std::string, std::int64_t> result;
    for (const std::string& label : walk.seen())
      if (const std::int64_t bytes = walk.bytes(label)) result[label] = bytes;
    return result;
  }
  return {};
}

// Plans that together allocate every tensor of INVENTORY.md.
inline std::vector<std::pair<std::string, Plan>> catalog() {
  std::vector<std::pair<std::string, Plan>> plans;
  const auto add = [&plans](std::string name, Plan p, auto change) {
    p.batch.global_batch = 8 * p.mesh.dp;
    change(p);
    plans.emplace_back(std::move(name), std::move(p));
  };
  const auto plain = [](Plan&) {};
  const Recompute selective = Recompute::selective, full = Recompute::full;
  const AttentionBackend cudnn = AttentionBackend::cudnn, unfused = AttentionBackend::unfused;
  add("llama", llama_8b(), plain);
  add("llama one GPU", llama_8b(), [](Plan& p) { p.mesh.tp = p.mesh.dp = 1; });
  add("llama no sp", llama_8b(), [](Plan& p) { p.mesh.sequence_parallel = false; });
  add("llama two sequences", llama_8b(), [](Plan& p) { p.batch.micro_batch = 2; });
  add("llama two sequences no sp", llama_8b(), [](Plan& p) {
    p.batch.micro_batch = 2;
    p.mesh.sequence_parallel = false;
  });
  add("llama separate products", llama_8b(), [](Plan& p) { p.stack.separate_products = true; });
  add("llama deterministic", llama_8b(), [](Plan& p) { p.stack.deterministic = true; });
  add("llama kept handles", llama_8b(), [](Plan& p) { p.stack.kept_gradient_handles = true; });
  add("llama cuDNN", llama_8b(), [=](Plan& p) { p.stack.attention = cudnn; });
  add("llama selective", llama_8b(), [=](Plan& p) { p.policy.recompute = selective; });
  add("llama two sequences selective", llama_8b(), [=](Plan& p) {
    p.batch.micro_batch = 2;
    p.policy.recompute = selective;
  });
  add("llama full", llama_8b(), [=](Plan& p) {
    p.policy.recompute = full;
    p.policy.recompute_layers = 4;
  });
  add("llama full two sequences", llama_8b(), [=](Plan& p) {
    p.policy.recompute = full;
    p.batch.micro_batch = 2;
  });
  add("llama block", llama_8b(), [=](Plan& p) {
    p.policy.recompute = full;
    p.policy.recompute_method = RecomputeMethod::block;
    p.policy.recompute_layers = 3;
  });
  add("llama unfused", llama_8b(), [=](Plan& p) { p.stack.attention = unfused; });
  add("llama unfused short", llama_8b(), [=](Plan& p) {
    p.stack.attention = unfused;
    p.batch.sequence = 2048;
  });
  add("llama unfused selective", llama_8b(), [=](Plan& p) {
    p.stack.attention = unfused;
    p.policy.recompute = selective;
  });
  add("llama unfused full", llama_8b(), [=](Plan& p) {
    p.stack.attention = unfused;
    p.policy.recompute = full;
  });
  add("llama without fusions", llama_8b(), [](Plan& p) {
    p.stack.rope_fusion = p.stack.swiglu_fusion = p.stack.gradient_accumulation_fusion = false;
  });
  for (const bool all : {true, false})
    for (const int tp : {1, 2})
      for (const bool fp8 : {true, false})
        for (const int batch : {1, 2})
          for (const Recompute recompute : {Recompute::none, full})
            add("llama adapters", llama_8b(), [=](Plan& p) {
              p.lora.rank = 16;
              p.lora.projection = p.lora.fc1 = p.lora.fc2 = all;
              p.mesh.tp = tp;
              p.batch.micro_batch = batch;
              p.numerics.fp8 = fp8;
              p.numerics.fp8_parameters = fp8 && all;
              p.policy.recompute = recompute;
            });
  add("llama adapters no sp", llama_8b(), [](Plan& p) {
    p.lora.rank = 8;
    p.mesh.sequence_parallel = false;
  });
  add("llama adapters unfused", llama_8b(), [=](Plan& p) {
    p.lora.rank = 8;
    p.lora.qkv = false;
    p.stack.attention = unfused;
  });
  add("llama adapters ring", llama_8b(), [](Plan& p) {
    p.lora.rank = 8;
    p.mesh.cp = 2;
    p.stack.gradient_accumulation_fusion = false;
  });
  add("llama offload", llama_8b(), [](Plan& p) { p.policy.offload_layers = 31; });
  for (const std::uint8_t modules : {0b1, 0b10, 0b110, 0b111})
    add("llama offload of modules", llama_8b(), [=](Plan& p) {
      p.policy.offload_modules = modules;
      p.policy.offload_min_elements = modules % 2 == 1 ? 0 : 1048576;
    });
  for (const double fraction : {1.0, 0.6})
    add("offload of some groups", llama_8b(), [=](Plan& p) {
      p.mesh.pp = 2;
      p.batch.global_batch = 8;
      p.policy.offload_modules = 0b110;
      p.policy.activation_offload_fraction = fraction;
      p.policy.offload_delta_bytes = fraction == 1 ? 200'000'000 : 50'000'000;
    });
  for (const char* schedule : {"gpipe", "1f1b", "interleaved-1f1b"})
    add("gpt offload of modules", gpt(), [=](Plan& p) {
      p.pipeline.schedule = schedule;
      p.mesh.pp = 2;
      if (p.pipeline.schedule == "interleaved-1f1b") p.pipeline.virtual_stages = 2;
      p.policy.offload_modules = 0b111;
      p.policy.offload_min_elements = 0;
    });
  add("gpt offload", gpt(), [](Plan& p) {
    p.policy.offload_layers = 3;
    p.lora.rank = 8;
  });
  add("gpt adapters", gpt(), [](Plan& p) { p.lora.rank = 8; });
  for (const int tp : {1, 2}) {
    add("llama fused loss", llama_8b(), [=](Plan& p) {
      p.mesh.tp = tp;
      p.stack.cross_entropy = CrossEntropy::one_kernel;
    });
    add("llama compiled loss", llama_8b(), [=](Plan& p) {
      p.mesh.tp = tp;
      p.stack.cross_entropy = CrossEntropy::native;
    });
    add("llama loss of TransformerEngine", llama_8b(), [=](Plan& p) {
      p.mesh.tp = tp;
      p.stack.cross_entropy = CrossEntropy::te;
    });
  }
  add("llama bf16 gradients", llama_8b(), [](Plan& p) { p.numerics.fp32_gradients = false; });
  add("llama all-reduce", llama_8b(),
      [](Plan& p) { p.sharding.distributed_optimizer = p.sharding.overlap_param_gather = false; });
  add("llama optimizer copies", llama_8b(), [](Plan& p) { p.sharding.optimizer_replicas = 2; });
  add("llama whole parameters", llama_8b(), [](Plan& p) {
    p.sharding.optimizer_replicas = 2;
    p.sharding.whole_parameters = true;
    p.sharding.overlap_param_gather = false;
  });
  for (const sim::program::LayerCode code :
       {sim::program::LayerCode::before_core, sim::program::LayerCode::one_function})
    add("gpt of DeepSpeed", gpt(), [=](Plan& p) {
      p.stack.layer_code = code;
      p.stack.attention = AttentionBackend::unfused;
      deepspeed(p);
    });
  add("halves summed together", gpt(), [](Plan& p) {
    p.architecture.input_norms = model::InputNorms::shared;
    p.mesh.tp = 2;
    p.mesh.sequence_parallel = false;
    p.stack.joined_halves = true;
    p.stack.overlap_tensor_reduce = false;
    deepspeed(p);
    p.sharding.deepspeed_all_reduce = true;
  });
  add("gpt of older layers, recomputed in part", gpt(), [](Plan& p) {
    p.stack.layer_code = sim::program::LayerCode::one_function;
    p.stack.attention = AttentionBackend::unfused;
    p.policy.recompute = Recompute::selective;
    p.policy.recompute_modules.mlp = true;
  });
  for (const int cp : {2, 4, 8})
    for (const AttentionBackend backend : {AttentionBackend::flash, cudnn})
      for (const Recompute recompute : {Recompute::none, selective, full})
        add("llama ring", llama_8b(), [=](Plan& p) {
          p.mesh.cp = cp;
          p.stack.attention = backend;
          p.policy.recompute = recompute;
        });
  for (const int pp : {2, 4})
    for (const char* schedule : {"1f1b", "gpipe", "zb-h1"})
      add("llama pipeline", llama_8b(), [=](Plan& p) {
        p.mesh.pp = pp;
        p.pipeline.schedule = schedule;
      });
  add("llama interleaved", llama_8b(), [](Plan& p) {
    p.mesh.pp = p.pipeline.virtual_stages = 2;
    p.pipeline.schedule = "interleaved-1f1b";
  });
  for (const char* schedule : {"1f1b", "zb-h1"})
    for (const AttentionBackend backend : {AttentionBackend::flash, unfused})
      for (const Recompute recompute : {Recompute::none, selective})
        for (const int tp : {1, 2})
          for (const int b : {1, 2})
            for (const bool sp : {true, false})
              for (const int pp : {1, 2})
                for (const int groups : {16, 4})
                  add("gpt", gpt(), [=](Plan& p) {
                    p.pipeline.schedule = schedule;
                    p.stack.attention = backend;
                    p.policy.recompute = recompute;
                    p.mesh.tp = tp;
                    p.batch.micro_batch = b;
                    p.mesh.sequence_parallel = sp;
                    p.mesh.pp = pp;
                    p.architecture.kv_heads = groups;
                    if (b == 2) p.architecture.hidden_dropout = 0;
                  });
  for (const Recompute recompute : {Recompute::none, full})
    add("llama interleaved, the embedding and the head alone", llama_8b(), [=](Plan& p) {
      p.architecture.layers = 6;  // and two in eight chunks
      p.mesh.pp = 2;
      p.pipeline.virtual_stages = 4;
      p.pipeline.account_for_embedding = p.pipeline.account_for_loss = true;
      p.pipeline.schedule = "interleaved-1f1b";
      p.policy.recompute = recompute;
    });
  add("gpt one group per rank", gpt(), [](Plan& p) {
    p.mesh.tp = 4;
    p.architecture.kv_heads = 4;
  });
  add("gpt long", gpt(), [](Plan& p) { p.batch.sequence = 8192; });
  add("gpt without attention dropout", gpt(),
      [](Plan& p) { p.architecture.attention_dropout = 0; });
  add("gpt ring", gpt(), [](Plan& p) {
    p.mesh.cp = 4;
    p.stack.attention = AttentionBackend::flash;
  });
  for (const auto kind : {DataParallelism::fsdp1, DataParallelism::fsdp2})
    for (const bool reshard : {true, false})
      for (const bool no_sync : {true, false})
        for (const bool fp32 : {true, false})
          for (const Recompute recompute : {Recompute::none, full})
            add("sharded", kind == DataParallelism::fsdp1 ? gpt() : llama_8b(), [=](Plan& p) {
              p.sharding.data_parallel = kind;
              p.sharding.fsdp.reshard_after_forward = reshard;
              p.sharding.fsdp.no_sync = no_sync;
              p.numerics.fp32_gradients = fp32;
              p.policy.recompute = recompute;
              p.stack.attention = AttentionBackend::flash;
              p.architecture.layers = 4;
              p.sharding.fsdp.replicas = fp32 ? 2 : 1;
              p.sharding.fsdp.limit_all_gathers = reshard;
            });
  for (const int forward : {0, 2})
    for (const int backward : {0, 1, 3})
      for (const auto kind : {DataParallelism::fsdp1, DataParallelism::fsdp2})
        add("sharded, prefetching", llama_8b(), [=](Plan& p) {
          p.sharding.data_parallel = kind;
          p.sharding.fsdp.forward_prefetch = forward;
          p.sharding.fsdp.backward_prefetch = backward;
          p.sharding.fsdp.fp32_parameters = kind == DataParallelism::fsdp1 && forward == 2;
          p.architecture.layers = 6;
          p.architecture.tied_embeddings = backward == 1;
          p.mesh.cp = 2;
        });
  add("sharded, one microbatch", llama_8b(), [](Plan& p) {
    p.sharding.data_parallel = DataParallelism::fsdp2;
    p.architecture.layers = 1;
    p.batch.global_batch = p.mesh.dp;
  });
  for (const int b : {1, 2})
    for (const bool sp : {true, false})
      for (const Recompute recompute : {Recompute::none, selective, full})
        add("fp8", llama_8b(), [=](Plan& p) {
          p.numerics.fp8 = true;
          p.batch.micro_batch = b;
          p.mesh.sequence_parallel = sp;
          p.policy.recompute = recompute;
          p.stack.attention = sp ? cudnn : AttentionBackend::flash;
          p.mesh.cp = sp ? 2 : 1;
        });
  for (const bool distributed : {true, false})
    add("fp8 parameters", llama_8b(), [=](Plan& p) {
      p.numerics.fp8 = p.numerics.fp8_parameters = true;
      p.sharding.distributed_optimizer = p.sharding.overlap_param_gather = distributed;
    });
  add("fp8 gpt in shards", gpt(), [](Plan& p) {
    p.numerics.fp8 = true;
    p.stack.attention = AttentionBackend::flash;
    p.sharding.data_parallel = DataParallelism::fsdp2;
  });
  for (const char* schedule : {"vocab-1", "vocab-2", "vocab-interlaced"})
    for (const bool tied : {false, true})
      for (const int tp : {1, 2})
        add("vocabulary over the stages", tied ? gpt() : llama_8b(), [=](Plan& p) {
          p.pipeline.schedule = schedule;
          p.mesh.pp = 4;
          p.mesh.tp = tp;
          p.batch.micro_batch = tp;
          p.mesh.sequence_parallel = !tied;
        });
  for (const char* schedule : {"1f1b", "zb-h1"})
    for (const Recompute recompute : {Recompute::none, full})
      add("uneven stages", llama_8b(), [=](Plan& p) {
        p.pipeline.schedule = schedule;
        p.mesh.pp = 4;
        p.architecture.layers = 14;
        p.pipeline.account_for_embedding = p.pipeline.account_for_loss = true;
        p.policy.recompute = recompute;
      });
  for (const int tp : {1, 2})
    for (const bool fp8 : {true, false})
      for (const bool core : {true, false})
        add("recomputed MLP", gpt(), [=](Plan& p) {
          p.stack.attention = AttentionBackend::flash;
          p.policy.recompute = selective;
          p.policy.recompute_modules = {core, true};
          p.mesh.tp = tp;
          p.numerics.fp8 = fp8;
          p.mesh.sequence_parallel = core;
        });
  for (const double share : {0.0, 0.5, 1.0})
    add("narrow optimizer", llama_8b(), [=](Plan& p) {
      p.optimizer = {true, 2, 2, 1, false, share};
      p.numerics.fp32_gradients = false;
    });
  add("composer", gpt(), [](Plan& p) {
    p.stack.attention = AttentionBackend::triton;
    p.sharding.data_parallel = DataParallelism::fsdp1;
    p.stack.layer_kernels = LayerKernels::eager;
    p.stack.cross_entropy = CrossEntropy::one_kernel;
    p.stack.fused_optimizer = false;
    p.stack.logit_metrics = 2;
    p.sharding.fsdp.backward_prefetch = 0;
  });
  for (const bool compiled : {true, false})
    for (const int tp : {1, 2})
      add("torchtitan", llama_8b(), [=](Plan& p) {
        p.stack.attention = AttentionBackend::flash;
        p.sharding.data_parallel = DataParallelism::fsdp2;
        p.stack.layer_kernels = compiled ? LayerKernels::compiled : LayerKernels::eager;
        p.stack.rope_fusion = p.stack.swiglu_fusion = compiled;
        p.mesh.tp = tp;
        p.numerics.fp8 = compiled && tp == 2;
        p.policy.recompute = selective;
        p.policy.recompute_modules = {false, false, true};
      });
  add("uneven chunks", llama_8b(), [](Plan& p) {
    p.mesh.pp = p.pipeline.virtual_stages = 2;
    p.pipeline.schedule = "interleaved-1f1b";
    p.architecture.layers = 7;
    p.pipeline.account_for_loss = true;
  });
  add("uneven first and last stage", gpt(), [](Plan& p) {
    p.mesh.pp = 4;
    p.architecture.layers = 9;
    p.pipeline.first_stage_layers = 1;
    p.pipeline.last_stage_layers = 2;
  });
  add("gpt few heads", gpt(), [](Plan& p) {
    p.mesh.tp = 8;
    p.batch.sequence = 256;
  });
  for (const auto kind : {DataParallelism::fsdp1, DataParallelism::fsdp2})
    for (const bool reshard : {true, false})
      for (const char* schedule : {"1f1b", "gpipe", "interleaved-1f1b", "zb-h1"})
        for (const bool tied : {true, false}) {
          if (kind == DataParallelism::fsdp1 && std::string_view(schedule) == "zb-h1") continue;
          add("shards with stages", tied ? gpt() : llama_8b(), [=](Plan& p) {
            p.sharding.data_parallel = kind;
            p.sharding.fsdp.reshard_after_forward = reshard;
            p.pipeline.schedule = schedule;
            p.mesh.pp = 2;
            p.pipeline.virtual_stages = p.pipeline.schedule == "interleaved-1f1b" ? 2 : 1;
            p.architecture.layers = 4;
            p.numerics.fp32_gradients = tied;
            p.sharding.fsdp.replicas = reshard ? 2 : 1;
            p.stack.attention = AttentionBackend::flash;
            p.batch.global_batch = 4 * p.mesh.dp;
          });
        }
  for (const auto kind : {DataParallelism::fsdp1, DataParallelism::fsdp2})
    for (const int pp : {1, 2})
      for (const Recompute recompute : {Recompute::none, full})
        add("adapters in shards", llama_8b(), [=](Plan& p) {
          p.sharding.data_parallel = kind;
          p.mesh.pp = pp;
          p.lora.rank = 16;
          p.architecture.layers = 4;
          p.policy.recompute = recompute;
          p.policy.recompute_layers = recompute == full ? 2 : 1;
          p.batch.global_batch = 4 * p.mesh.dp;
        });
  for (const int pp : {1, 2})
    for (const bool adapters : {true, false})
      add("gathered in fp8", llama_8b(), [=](Plan& p) {
        p.sharding.data_parallel = DataParallelism::fsdp2;
        p.numerics.fp8 = p.numerics.fp8_parameters = true;
        p.mesh.pp = pp;
        p.lora.rank = adapters ? 16 : 0;
        p.architecture.layers = 4;
        p.batch.global_batch = 4 * p.mesh.dp;
      });
  for (const schedule::Schedule& schedule : schedule::catalog())
    for (const bool tied : {false, true})
      for (const Recompute recompute : {Recompute::none, full}) {
        add("every schedule", tied ? gpt() : llama_8b(), [&](Plan& p) {
          p.architecture.layers = 8;
          p.mesh.pp = 2;
          p.mesh.dp = 2;
          p.batch.global_batch = 2 * 6;
          p.pipeline.schedule = schedule.name;
          p.pipeline.virtual_stages = schedule.chunks;
          p.policy.recompute = recompute;
        });
        // Some schedules have no programs, and some do not support every policy.
        if (!problems(plans.back().second).empty()) plans.pop_back();
      }
  add_later_plans(add, llama_8b());
  for (const auto& [name, plan] : mixtures()) plans.emplace_back(name, plan);
  return plans;
}

}  // namespace sample
