// space.h — the plans that a search chooses from. The user states GPUs, sequences and tokens, and
// may fix or exclude values.
//
// A space is a tree. A PlanShape (a core) has everything that affects computation: mesh,
// microbatch, schedule, layers of each part, recomputation, sharding. Variants of a core differ in
// the order of ranks and in allocator options.
//
// Values that the user leaves open, for N GPUs and B sequences:
//
//    tp                powers of two within a node
//    cp                powers of two up to 32 that leave a rank 1024 tokens
//    context           ring, all-gather, ulysses; where cp is above 1
//    ep, etp           of mixtures of experts: powers of two that share the experts evenly; as tp,
//                      and 1
//    pp                divisors of N with a layer for every stage
//    micro_batch       powers of two up to B / dp, at most 64
//    schedule          every one that a run simulates; where pp is 1, 1f1b
//    virtual_stages    1 to 8 where the schedule takes any number
//    layers of parts   even; and the embedding and the head counting as a layer each; padded where
//                      pp x virtual_stages divides neither number
//    recompute         none; the MLP, where a layer has one; every layer; one to seven eighths of
//                      a chunk's layers
//    zero              1 (distributed optimizer), 2 and 3 (FSDP2)
//    rank_order        tp-cp-ep-dp-pp, tp-cp-ep-pp-dp
//    allocator_options none, expandable segments
//
// If the job names its framework, plans that its program cannot start are left out
// (launch/limits.h), unless the user states the fields that decide it.
//
// Invariants
// (1) Plans are counted before the search; more than max_plans are refused.
// (2) input::load_plan turns `words` of a plan into that plan.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"
#include "sim/input/plan/draft.h"
#include "sim/program/plan/plan.h"
#include "sim/study/plan/launch/limits.h"

namespace sim::planner {

constexpr std::int64_t max_plans = 20'000'000;

struct Question {
  std::string model, cluster;  // names or paths
  std::vector<int> gpus;       // sizes of the job; each is searched
  // "key=value[,value...]": fixes a field of a plan or of its cluster, or restricts it to these
  // values.
  std::vector<std::string> settings;
  // Settings of the job itself, if it comes from a plan or a launch file (own_plan.h): one value
  // each. Without a model they describe the network.
  std::vector<std::string> job;
  // Fields in which the user's own plan is beyond the limits of its framework: those of a fork.
  std::vector<std::string> beyond = {};
};

// Whether the space varies the field, unless the question states it.
bool is_searched(const std::string& field);

// The plan that one combination of the question's other settings gives, at tp = cp = pp = 1.
struct Base {
  std::string words;
  input::DraftPlan file;
  int gpus = 0;
  // At tp = 1 (or cp = 1) it has the same plans as another base, so they are skipped.
  bool shares_tensors = false, shares_sequences = false;
  std::vector<const Limit*> limits = {};  // of its framework, which its plans keep
};

// How the backward pass obtains activations: a recomputation policy. `eighths`: layers in eighths
// of a chunk.
struct LayerChoice {
  program::LayerPolicy policy;
  std::string modules;  // as in the setting
  bool eighths = false;
};

// How a core's layers are distributed to its parts (program/plan/layer_partition.h).
enum class Split : std::uint8_t {
  even,
  ends,    // embedding and head count as one layer each
  padded,  // padded to a multiple of the parts
};

struct PlanShape {
  std::uint16_t base = 0;
  std::uint8_t schedule = 0;  // index in schedule::catalog()
  Split split = Split::even;
  // The fields are as wide as the numbers that settings accept.
  std::int32_t tp = 1, cp = 1, pp = 1, dp = 1, micro_batch = 1, chunks = 1;
  std::uint32_t policy = 0;  // index in Space::policies
  std::int32_t recompute_layers = 1, offload_layers = 0;
};

// Values of each field that the user's settings allow; empty: the table above applies.
struct Domains {
  std::vector<int> tp, cp, pp, dp, micro_batch, chunks, recompute_layers, offload_layers;
  std::vector<std::string> schedules, zero, rank_orders, allocator_options;
  std::vector<std::string> recompute, recompute_method, recompute_modules;
  bool layers_said = false;    // the user states how layers are split
  bool sharding_said = false;  // the user states sharding by other fields than zero
  bool reshard_said = false;
  bool context_said = false, ep_said = false, etp_said = false;
};

// A minimal set of settings that no plan can have together, and the rules that such plans break.
struct Contradiction {
  std::vector<std::string> settings, reasons;
};

class Space {
 public:
  // Builds the space, or returns all problems of the question. A space that is too large is a
  // problem, with its size and the widest fields.
  static Result<Space> make(const Question& question);

  const std::vector<Base>& bases() const { return bases_; }
  const std::vector<PlanShape>& cores() const { return cores_; }
  const std::vector<LayerChoice>& policies() const { return policies_; }

  // Number of variants of a core, numbered by rank order, then by allocator options. A variant of a
  // mixture of experts may be impossible: some degrees exclude some orders.
  int orders(const PlanShape& core) const;
  int allocators() const { return static_cast<int>(domains_.allocator_options.size()); }
  int variants(const PlanShape& core) const { return orders(core) * allocators(); }

  // Whether the question states how layers are split.
  bool layers_said() const { return domains_.layers_said; }
  // Whether the question states the field.
  bool states(std::string_view field) const { return stated_.contains(field); }

  std::int64_t plans() const { return plans_; }
  std::int64_t impossible() const { return impossible_; }
  // Rules that impossible plans break, most frequent first, at most five.
  const std::vector<std::string>& reasons() const { return reasons_; }
  // The smallest contradiction among the settings; empty if the job itself is impossible. REQUIRES:
  // the space has no possible plan.
  Contradiction contradiction() const;

  // Whether sharded parameters are dropped after a forward pass (fsdp.reshard_after_forward).
  bool reshards(const PlanShape& core) const;

  program::Plan plan(const PlanShape& core, int variant) const;
  std::string words(const PlanShape& core, int variant) const;

 private:
  Diagnostics read(const Question& question);
  void read_setting(const std::string& text, std::map<std::string, std::string>& said,
                    std::vector<std::vector<std::string>>& axes, Diagnostics& problems);
  void check_settings(const std::map<std::string, std::string>& said, Diagnostics& problems) const;
  Diagnostics absent_modules() const;
  Diagnostics load_bases(const Question& question,
                         const std::vector<std::vector<std::string>>& others);
  // Axes that are searched because the user does not state them: alternatives as settings, "" for
  // none.
  Result<std::vector<std::vector<std::string>>> unsaid_axes(const Question& question) const;
  void fill_domains();
  std::string too_large() const;
  void enumerate(bool first_only);
  struct Level;
  void below(Level& at);
  bool consider(Level& at);
  // True: the enumeration ends, because `first_only` found its plan or there are too many plans.
  bool enumerate_base(std::size_t number, Level& at);
  bool enumerate_microbatches(Level& at);
  void note_reasons(const Level& at);

  Domains domains_;
  std::set<std::string, std::less<>> stated_;  // fields that the question states
  std::vector<Base> bases_;
  std::vector<LayerChoice> policies_;
  std::vector<PlanShape> cores_;
  std::int64_t plans_ = 0, impossible_ = 0;
  std::vector<std::string> reasons_;
  Question question_;
};

}  // namespace sim::planner
