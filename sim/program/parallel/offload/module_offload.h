// module_offload.h — offloads the saved tensors of chosen modules to the CPU until their backward
// pass (Megatron-LM's --fine-grained-activation-offloading).
//
//     forward   start | the module: all that autograd saves is a group | commit: copies go down
//     backward  commit: wait for the group | the module | start: the next group comes up
//
// Groups come up in the order in which they are needed, one at each start. After the last group of
// a microbatch, the groups of the next one follow, if its forward pass is done. Each copy is thus
// one layer's worth of groups ahead of its use. The last group of each name stays on the GPU if its
// backward pass follows directly; this gives the copies their lead. A module of multi-token
// prediction comes after the last layer, so all of its groups are last ones and stay.
//
// Of the remaining groups, stage s keeps the first s x `offload_delta_bytes` bytes, in the order of
// backward passes. Each pass then offloads only the share `activation_offload_fraction` of its
// groups (rounded up); its last ones stay.
//
// Copies start after all work that the GPU has received, on streams of their own. Nothing waits for
// the copies down: the allocator holds a tensor's memory until its copy is done. Tensors that come
// up are allocated from the copying stream's memory.
//
// Simplifications. The first step keeps the same groups on the GPU as later steps. The next
// microbatch's first groups come up after the whole backward pass. A tensor of two groups goes down
// with both and comes up once. Among groups in flight, the wait is for the last one of a name.
//
// [NVIDIA/Megatron-LM core pipeline_parallel/fine_grained_activation_offload.py of 2026-08]
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "sim/program/autograd/autograd_graph.h"
#include "sim/program/ir/rank.h"

namespace sim::program {

// Megatron-LM's names (--offload-modules), in the order of OffloadModule. A layer commits its
// groups in this order.
inline constexpr std::array<std::string_view, offload_module_count> offload_module_names = {
    "qkv_linear", "core_attn", "attn_proj", "attn_norm", "expert_fc1", "moe_act", "mlp_norm"};

// The plan's modules, with `separator` between them.
std::string offload_modules_text(const LayerPolicy& policy, std::string_view separator);

// A group while its module runs forward; empty if the layer does not offload the module.
class OffloadGroup {
 public:
  OffloadGroup(Writer& w, OffloadModule module);  // begins the group
  OffloadGroup(const OffloadGroup&) = delete;
  OffloadGroup& operator=(const OffloadGroup&) = delete;

  explicit operator bool() const { return on_; }
  void add(Value saved);  // a value that was saved before the group began
  void close();           // later values do not belong to the group
  void commit();

 private:
  Writer& w_;
  OffloadModule module_;
  bool on_;
  std::vector<Value> saved_;
};

// The backward counterparts of a module's begin and end: nodes that wait for its group, and bring
// up the next. The products of experts are one node and call them inside it.
void wait_for_group(Writer& w, OffloadModule module);
void bring_next_group(Writer& w, OffloadModule module);

// Plans which groups stay on the GPU and when the others come up, for all passes of a step.
class ModuleOffload {
 public:
  struct Group {
    int layer;  // in the chunk
    OffloadModule module;
    LayerKind kind;
    std::uint8_t kept = 0;  // modules of the layer whose groups stay on the GPU
  };
  struct OfPass {
    std::vector<LayerOffload> layers;  // by layer of the chunk; empty: nothing is offloaded
    std::vector<Group> ahead;          // groups of the pass `next` that come up after this pass
    schedule::ScheduledPass next{};
    int number = 0;  // passes with the same number have equal `layers` and `ahead`
  };

  explicit ModuleOffload(Rank& rank) : rank_(rank) {}

  void plan(const schedule::Order& order, bool first_step);
  const OfPass& of(const schedule::ScheduledPass& step) const;
  // The template that brings up the groups ahead, in the frame of `next`.
  Template ahead(const OfPass& pass);

 private:
  struct Microbatch;
  std::vector<Group> groups(const schedule::ScheduledPass& step, bool first_step) const;
  std::int64_t bytes(const Group& group);  // bytes that are copied
  void keep(std::vector<Microbatch>& back, std::vector<OfPass>& forward);
  std::uint32_t up(const Group& group);
  OfPass way_back(Microbatch& at, Microbatch* next) const;
  void add(const schedule::ScheduledPass& step, OfPass made);

  Rank& rank_;
  std::map<std::tuple<bool, int, int>, OfPass> passes_;  // by [backward][chunk][microbatch]
  std::map<std::vector<std::int64_t>, int> numbers_;
  std::map<std::tuple<int, OffloadModule, std::uint8_t>, std::uint32_t>
      blocks_;  // by [kind][module][kept]
};

}  // namespace sim::program
