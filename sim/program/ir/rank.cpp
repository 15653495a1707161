#include "sim/program/ir/rank.h"

#include <algorithm>
#include <numeric>

#include "sim/job/schedule/placement.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::program {

Dimensions::Dimensions(const Plan& plan, int slice) {
  const model::Architecture& a = plan.architecture;
  element = model::bytes_of(plan.numerics.precision);
  batch = plan.batch.micro_batch;
  const bool whole = slice_count(plan) == 1;
  const std::vector<std::int64_t> lengths = slice_lengths(plan);
  const auto own = static_cast<std::size_t>(slice);
  sequence = lengths[own];
  prefix = std::accumulate(lengths.begin(), lengths.begin() + slice, std::int64_t{0});
  local = whole ? plan.local_sequence() : sequence;
  tokens = local * batch;
  tp = plan.mesh.tp;
  cp = plan.mesh.cp;
  pp = plan.mesh.pp;
  dp = plan.mesh.dp;
  shard = plan.uses_sequence_parallel() ? tokens / tp : tokens;
  hidden = a.hidden;
  const std::int64_t rows = plan.tensor_rows();
  query = a.query_width() / rows;
  key_value = std::max<std::int64_t>(a.kv_width() / rows, a.head_dim);
  heads = a.heads / rows;
  groups = std::max<std::int64_t>(a.kv_heads / rows, 1);
  head_dim = a.head_dim;
  value_dim = a.is_latent() ? a.latent.value : head_dim;
  attended = a.is_latent() ? heads * value_dim : query;
  value = a.is_latent() ? groups * value_dim : key_value;
  ffn = a.ffn / rows;
  up = a.activation == model::Activation::swiglu ? 2 * ffn : ffn;
  const std::int64_t shares = plan.cuts_vocabulary() ? tp * pp : tp;
  vocab = model::padded_vocab(a.vocab, shares) / shares;
}

Dimensions Dimensions::of_layers(const Plan& plan) const {
  Dimensions own = *this;
  own.hidden /= plan.mesh.tensor_columns;
  return own;
}

Rank::Rank(const Plan& plan_, const Environment& environment_, Program& program_)
    : plan(plan_),
      environment(environment_),
      dim(plan_),
      layer_dim(dim.of_layers(plan_)),
      program(program_),
      tables(program_),
      schedule_(schedule::find(plan.pipeline.schedule)),
      layout_{count_parts(plan), {}, model::mixture_layers(plan.architecture)} {
  program.fixed_slots = fixed_slot_count;
  program.local_slots = local_slot_count;
  program.events = graph_event;
  tables.set_fills(plan.stack.deterministic);
  const schedule::PipelineShape shape = pipeline_shape(plan, 1);
  for (int chunk = 0; chunk < plan.pipeline.virtual_stages; ++chunk)
    layout_.chunks.push_back({part_of(schedule_->placement, shape, {program.stage, chunk}), 0, 0});
  int before = 0;
  for (int number = 0; number < layout_.parts; ++number) {
    const int layers = part_layers(plan, number);
    for (Chunk& chunk : layout_.chunks)
      if (chunk.part == number) chunk = {number, layers, before};
    before += layers;
  }
}

void Rank::turn_to(int slice) {
  if (slice == slice_) return;
  ends_of_slices_[slice_] = {graphs.embedding, graphs.head};
  const Ends& own = ends_of_slices_[slice];
  graphs.embedding = own.embedding;
  graphs.head = own.head;
  dim = Dimensions(plan, slice);
  layer_dim = dim.of_layers(plan);
  slice_ = slice;
}

bool Rank::has_first_part() const {
  return std::ranges::any_of(layout_.chunks, [](const Chunk& chunk) { return chunk.part == 0; });
}

bool Rank::has_last_part() const {
  return std::ranges::any_of(layout_.chunks,
                             [&](const Chunk& chunk) { return chunk.part == layout_.parts - 1; });
}

// If routes are drawn, each (layer, microbatch, first step) is a kind with its own `load`.
LayerKind Rank::kind(int chunk, RouteKey key) const {
  const model::Architecture& a = plan.architecture;
  key.layer += first_layer(chunk);
  LayerKind kind;
  kind.slice = slice_;
  kind.mixture =
      !layout_.mixture.empty() && layout_.mixture[static_cast<std::size_t>(key.layer)] != 0;
  kind.whole = a.whole_attention > 0 && (key.layer + 1) % a.whole_attention == 0;
  if (!kind.mixture || !plan.draws_routes()) return kind;
  const auto same = [&](const RouteKey& other) {
    return other.layer == key.layer && other.microbatch == key.microbatch &&
           other.first_step == key.first_step;
  };
  const auto found = std::ranges::find_if(program.routes, same);
  kind.load = 1 + static_cast<int>(found - program.routes.begin());
  if (found == program.routes.end()) program.routes.push_back(key);
  return kind;
}

Load Rank::load(const LayerKind& kind) const {
  if (kind.load == 0) return balanced_load(plan, dim.shard);
  return drawn_load(plan, dim.shard, program.routes[static_cast<std::size_t>(kind.load - 1)],
                    program.expert_ranks);
}

bool Rank::keeps_output(int chunk) const {
  if (!in_torch_stages()) return false;
  const KeptOutputs kept = plan.pipeline.kept_outputs;
  return kept == KeptOutputs::every_stage ||
         (kept == KeptOutputs::last_stage && is_last_part(chunk));
}

bool Rank::recomputes(int layer) const {
  if (!plan.policy.choices.empty()) {
    const auto at = static_cast<std::size_t>(layer);
    return at < plan.policy.choices.size() && plan.policy.choices[at] == LayerChoice::recompute;
  }
  if (plan.policy.recompute != Recompute::full) return false;
  return plan.policy.recompute_method == RecomputeMethod::uniform ||
         layer < plan.policy.recompute_layers;
}

bool Rank::stops_early() const {
  const model::Architecture& a = plan.architecture;
  const bool compiled = plan.stack.layer_kernels == LayerKernels::compiled;
  return plan.stack.checkpoint_early_stop && (compiled || !plan.numerics.fp8) &&
         a.hidden_dropout == 0 && !a.output_norms && !adapts(Module::fc2);
}

int Rank::recomputed_group() const {
  if (!plan.policy.choices.empty()) return 1;
  return plan.policy.recompute_method == RecomputeMethod::uniform ? plan.policy.recompute_layers
                                                                  : 1;
}

Slot Rank::slot_of_survivor(std::size_t owner, std::uint32_t n) {
  if (owner == 0) {
    slots_.of_layer = std::max(slots_.of_layer, slots_.named_of_layer + n + 1);
    return layer_slot(slots_.named_of_layer + n);
  }
  const auto [it, added] = slots_.survivors.try_emplace({owner, n}, slots_.of_frame);
  slots_.of_frame += added;
  return {Space::microbatch, it->second};
}

void Rank::settle(int most_layers) {
  constexpr std::uint32_t mask = (1u << layers_on_bits) - 1;
  const auto back = [](std::uint32_t index) {
    const std::uint32_t layers = mask + 1 - (index >> layers_on_bits);
    return layers <= most_layers_back ? layers : 0;
  };
  const auto base = [&](std::uint32_t layer) {
    return slots_.of_frame + (layer - frame_slot_count) * slots_.of_layer;
  };
  // By block: the number of earlier layers that its instructions reach back to.
  std::vector<std::uint32_t> below(program.blocks.size(), 0);
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    std::vector<Instruction>& code = program.blocks[b].code;
    for (const Instruction& i : code)
      if (i.space == Space::layer) below[b] = std::max(below[b], back(i.index));
    const auto settled = [&](std::uint32_t index) {
      const std::uint32_t down = back(index), on = down > 0 ? 0 : index >> layers_on_bits;
      return (index & mask) + (below[b] - down + on) * slots_.of_layer;
    };
    for (Instruction& i : code) {
      if (i.space == Space::layer) i.index = settled(i.index);
      if (i.op != Op::move) continue;
      if (const Slot to = destination(i); to.space == Space::layer)
        i.value = packed({to.space, settled(to.index)});
    }
  }
  for (Template& t : program.templates)
    for (Call& call : t.calls)
      call.layer_base = base(call.layer_base) - below[call.block] * slots_.of_layer;
  program.frame_slots = base(layer_base(most_layers)) + 1;
}

}  // namespace sim::program
