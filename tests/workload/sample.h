// sample.h — plans and a walk through what a rank allocates, for tests of the workload.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/workload/build.h"

namespace sample {

using namespace sim;
using namespace sim::workload;

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
  p.tp = 2;
  p.dp = 4;
  p.sequence = 8192;
  p.global_batch = 64;
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
  p.attention = AttentionBackend::unfused;
  p.dp = 2;
  p.sequence = 2048;
  p.global_batch = 16;
  return p;
}

inline Job job(const Plan& plan) {
  return build(plan, {Bytes{4 << 20}, Bytes{8 << 20}, 108});
}

struct Tensor {
  std::string label;
  std::int64_t bytes = 0;
  Category category = Category::other;
  Stream pool = Stream::compute;
};

// Walks passes in order and keeps what is allocated. `at(instruction, block, live)` runs behind
// every instruction.
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

  // Bytes that are alive under a label; all bytes with an empty one.
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

 private:
  using Key = std::tuple<Space, std::uint32_t, std::uint32_t>;  // space, frame, index

  static Key key(const Pass& pass, const Call& call, Space space, std::uint32_t index) {
    // Slots of the microbatch and of its layers share a frame.
    const bool framed = space == Space::microbatch || space == Space::layer;
    return {framed ? Space::microbatch : space, framed ? pass.frame : 0,
            space == Space::layer ? call.layer_base + index : index};
  }
  void step(const Pass& pass, const Call& call, const Instruction& i) {
    if (i.op == Op::alloc) {
      live_[key(pass, call, i.space, i.index)] = {name(i), i.value, i.category, i.stream};
      seen_.insert(name(i));
    } else if (i.op == Op::free) {
      live_.erase(key(pass, call, i.space, i.index));
    } else if (i.op == Op::move) {
      auto node = live_.extract(key(pass, call, i.space, i.index));
      if (node.empty()) return;
      node.key() =
          key(pass, call, static_cast<Space>(i.value >> 32), static_cast<std::uint32_t>(i.value));
      live_.insert(std::move(node));
    }
  }

  const Program& program_;
  std::map<Key, Tensor> live_;
  std::set<std::string> seen_;
};

}  // namespace sample
