// module_offload.h — what chosen modules of a layer save waits for their backward pass on the CPU
// (Megatron-LM's --fine-grained-activation-offloading).
//
//     forward   start | the module: all that autograd saves is a group | commit: copies go down
//     backward  commit: the group is waited for | the module | start: the next group comes up
//
// Groups come up in the order in which they are needed, one for each start that is passed; behind
// the last of a microbatch those of the next one whose forward pass is done. So each group is on
// its way while as many others go back as a layer has. The last of each name stays on the GPU where
// its backward pass is the next one, which is what gives the copies their lead.
//
// Of the groups that are left, in the order of backward passes, a stage keeps the first ones until
// it has kept its number times `offload_delta_bytes`; of those of each pass that still go, the last
// stay, all but `activation_offload_fraction` of them (rounded up).
//
// Copies wait for what the GPU was given so far, go by streams of their own and are not waited for
// on the way down: the allocator holds a tensor's memory until its copy is done. What comes up is
// of the copying stream's memory.
// [NVIDIA/Megatron-LM core pipeline_parallel/fine_grained_activation_offload.py of 2026-08]
//
// Simplified: the first step leaves on the GPU what later ones do; the next microbatch's first
// groups come up behind the whole backward pass; a tensor of two groups travels with both and comes
// up once; of groups on their way the last of a name is waited for.
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

// As Megatron-LM calls them (--offload-modules), in the order of OffloadModule, which is that in
// which a layer commits them.
inline constexpr std::array<std::string_view, offload_module_count> offload_module_names = {
    "qkv_linear", "core_attn", "attn_proj", "attn_norm", "expert_fc1", "moe_act", "mlp_norm"};

// The plan's, with `separator` between them.
std::string offload_modules_text(const LayerPolicy& policy, std::string_view separator);

// Rules about them that a plan breaks (module_offload_rules.cpp).
Diagnostics module_offload_problems(const Plan& plan);

// A group while its module runs forward; nothing where the layer does not offload the module.
class OffloadGroup {
 public:
  OffloadGroup(Writer& w, OffloadModule module);  // starts it
  OffloadGroup(const OffloadGroup&) = delete;
  OffloadGroup& operator=(const OffloadGroup&) = delete;

  explicit operator bool() const { return on_; }
  void add(Value saved);  // by a node from before its start
  void close();           // what is saved from here on is not the group's
  void commit();

 private:
  Writer& w_;
  OffloadModule module_;
  bool on_;
  std::vector<Value> saved_;
};

// On the way back, before and behind the module's: nodes of the group, but of experts, whose
// products are one node.
void wait_for_group(Writer& w, OffloadModule module);
void bring_next_group(Writer& w, OffloadModule module);

// Which groups stay and which come up when, for all passes of a step.
class ModuleOffload {
 public:
  struct Group {
    int layer;  // of the chunk
    OffloadModule module;
    LayerKind kind;
    std::uint8_t kept = 0;  // modules of its layer whose groups stay on the GPU
  };
  struct OfPass {
    std::vector<LayerOffload> layers;  // of the chunk; empty: nothing is offloaded
    std::vector<Group> ahead;          // come up behind it, of the pass `next`
    schedule::Step next{};
    int number = 0;  // passes of one number have the same layers and the same groups ahead
  };

  explicit ModuleOffload(Rank& rank) : rank_(rank) {}

  void plan(const schedule::Order& order, bool first_step);
  const OfPass& of(const schedule::Step& step) const;
  // What brings up the groups ahead, in the frame of `next`.
  Template ahead(const OfPass& pass);

 private:
  struct Microbatch;
  std::vector<Group> groups(const schedule::Step& step, bool first_step) const;
  std::int64_t bytes(const Group& group);  // that travel
  void keep(std::vector<Microbatch>& back, std::vector<OfPass>& forward);
  std::uint32_t up(const Group& group);
  OfPass way_back(Microbatch& at, Microbatch* next) const;
  void add(const schedule::Step& step, OfPass made);

  Rank& rank_;
  std::map<std::tuple<bool, int, int>, OfPass> passes_;  // by [backward][chunk][microbatch]
  std::map<std::vector<std::int64_t>, int> numbers_;
  std::map<std::tuple<int, OffloadModule, std::uint8_t>, std::uint32_t>
      blocks_;  // by [kind][module][kept]
};

}  // namespace sim::program
