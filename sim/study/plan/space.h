// space.h — the plans among which one is looked for: what a job of so many GPUs, sequences and
// tokens may vary, less what the user holds fixed or leaves out.
//
// A space is a tree. What decides computation is a PlanShape: mesh, microbatch, schedule, layers of
// each part, recomputation, sharding. What plans of one core differ in besides, the order of ranks
// and the options of the allocator, is a variant of it.
//
// Where the user says nothing (N GPUs, B sequences):
//
//     tp                powers of two within a node
//     cp                powers of two up to 32 that leave a rank 1024 tokens
//     context           ring, all-gather, ulysses; where cp is above 1
//     ep, etp           of mixtures of experts: powers of two that share the experts evenly; as tp,
//                       and 1
//     pp                divisors of N with a layer for every stage
//     micro_batch       powers of two up to B / dp
//     schedule          every one that a run simulates; where pp is 1, 1f1b
//     virtual_stages    2 to 8 where the schedule takes any number
//     layers of parts   even; and the embedding and the head counting as a layer each; padded where
//                       pp x virtual_stages divides neither number
//     recompute         none; the MLP, where a layer has one; every layer; one to seven eighths of
//                       a chunk's layers
//     zero              1 (distributed optimizer), 2 and 3 (FSDP2)
//     rank_order        tp-cp-ep-dp-pp, tp-cp-ep-pp-dp
//     allocator_options none, expandable segments
//
// Invariants
//  (1) Plans are counted before any is looked at; more than max_plans are refused.
//  (2) `words` of a plan, given to input::load_plan, make that plan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"
#include "sim/input/plan/plan.h"
#include "sim/program/plan/plan.h"

namespace sim::planner {

constexpr std::int64_t max_plans = 20'000'000;

struct Question {
  std::string model, cluster;  // names or paths
  std::vector<int> gpus;       // sizes of the job, each of which is searched
  // "key=value[,value...]": a field of a plan or of its cluster, fixed or restricted to these.
  std::vector<std::string> settings;
};

// What one resolution of the question's own settings gives, at tp = cp = pp = 1.
struct Base {
  std::string words;
  input::PlanFile file;
  int gpus = 0;
  // Where tp, or cp, is 1 it has the plans of another base.
  bool shares_tensors = false, shares_sequences = false;
};

// How the backward pass has its activations: a row of LayerPolicy. `layers` 0: eighths of a chunk.
struct LayerChoice {
  program::LayerPolicy policy;
  std::string modules;  // as the setting writes them
  bool eighths = false;
};

// A schedule with its number of chunks.
struct ScheduleChoice {
  const schedule::Schedule* row = nullptr;
  int chunks = 1;
};

// How a core's layers are dealt out to its parts (program/plan/layer_partition.h).
enum class Split : std::uint8_t {
  even,
  ends,    // the embedding and the head count as a layer each
  padded,  // filled up to a multiple
};

struct PlanShape {
  std::uint16_t base = 0;
  std::uint8_t schedule = 0;  // of schedule::catalog()
  Split split = Split::even;
  // What the user may list is as wide as the numbers that are taken.
  std::int32_t tp = 1, cp = 1, pp = 1, dp = 1, micro_batch = 1, chunks = 1;
  std::uint32_t policy = 0;  // of Space::policies
  std::int32_t recompute_layers = 1, offload_layers = 0;
};

// What the user's own words leave of each field; empty: as the table above says.
struct Domains {
  std::vector<int> tp, cp, pp, dp, micro_batch, chunks, recompute_layers, offload_layers;
  std::vector<std::string> schedules, zero, rank_orders, allocator_options;
  std::vector<std::string> recompute, recompute_method, recompute_modules;
  bool layers_said = false;    // how layers are split: as the base says
  bool sharding_said = false;  // by other fields than zero
  bool reshard_said = false;
  bool context_said = false, ep_said = false, etp_said = false;
};

// Settings of a question that no plan can have together, no fewer of them, and the rules that plans
// which have them break.
struct Contradiction {
  std::vector<std::string> settings, reasons;
};

class Space {
 public:
  // Every problem of the question at once; also a space that is too large, with its size and the
  // fields that make it so.
  static Result<Space> make(const Question& question);

  const std::vector<Base>& bases() const { return bases_; }
  const std::vector<PlanShape>& cores() const { return cores_; }
  const std::vector<LayerChoice>& policies() const { return policies_; }

  // Variants of a core; they are numbered order by order, allocator by allocator. Of a mixture of
  // experts one may be impossible all the same: not every order of ranks goes with its degrees.
  int orders(const PlanShape& core) const;
  int allocators() const { return static_cast<int>(domains_.allocator_options.size()); }
  int variants(const PlanShape& core) const { return orders(core) * allocators(); }

  // Whether the question says how layers are split.
  bool layers_said() const { return domains_.layers_said; }

  std::int64_t plans() const { return plans_; }
  std::int64_t impossible() const { return impossible_; }
  // Rules that impossible plans break, the most frequent ones first: at most five.
  const std::vector<std::string>& reasons() const { return reasons_; }
  // One setting that no plan can have, or two, or as many as it takes; none where the job itself is
  // impossible. For a space in which nothing is possible.
  Contradiction contradiction() const;

  program::Plan plan(const PlanShape& core, int variant) const;
  std::string words(const PlanShape& core, int variant) const;

 private:
  Diagnostics read(const Question& question);
  Diagnostics absent_modules() const;
  Diagnostics load_bases(const Question& question,
                         const std::vector<std::vector<std::string>>& others);
  // What is searched besides where the user does not say it: settings, "" as it is without one.
  Result<std::vector<std::vector<std::string>>> unsaid_axes(const Question& question) const;
  void fill_domains();
  std::string too_large() const;
  void enumerate(bool first_only);
  struct Level;
  void below(Level& at);
  bool consider(Level& at);

  Domains domains_;
  std::vector<Base> bases_;
  std::vector<LayerChoice> policies_;
  std::vector<PlanShape> cores_;
  std::int64_t plans_ = 0, impossible_ = 0;
  std::vector<std::string> reasons_;
  Question question_;
};

}  // namespace sim::planner
