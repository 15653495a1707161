#include "sim/workload/build.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <memory>
#include <tuple>

#include "sim/workload/data_parallel.h"
#include "sim/workload/fsdp.h"
#include "sim/workload/pipeline.h"
#include "sim/workload/step.h"

namespace sim::workload {

Dimensions::Dimensions(const Plan& plan) {
  const model::Architecture& a = plan.architecture;
  element = model::bytes_of(plan.precision);
  batch = plan.micro_batch;
  sequence = plan.sequence;
  local = plan.local_sequence();
  tokens = local * batch;
  tp = plan.tp;
  cp = plan.cp;
  pp = plan.pp;
  dp = plan.dp;
  shard = plan.uses_sequence_parallel() ? tokens / tp : tokens;
  hidden = a.hidden;
  query = a.query_width() / tp;
  key_value = std::max<std::int64_t>(a.kv_width() / tp, a.head_dim);
  heads = a.heads / tp;
  groups = std::max<std::int64_t>(a.kv_heads / tp, 1);
  head_dim = a.head_dim;
  ffn = a.ffn / tp;
  up = a.activation == model::Activation::swiglu ? 2 * ffn : ffn;
  vocab = model::padded_vocab(a.vocab, tp) / tp;
}

Rank::Rank(const Plan& plan_, const Environment& environment_, Program& program_)
    : plan(plan_), environment(environment_), dim(plan_), program(program_), tables(program_) {
  program.fixed_slots = fixed_slot_count;
}

namespace {

constexpr std::uint32_t layer_base(int layer) {
  return frame_slot_count + static_cast<std::uint32_t>(layer) * layer_slot_count;
}

// Writes the passes of one rank.
class Builder {
 public:
  Builder(const Plan& plan, const Environment& environment, Program& program)
      : rank_(plan, environment, program), schedule_(*schedule::find(plan.schedule)) {
    for (int chunk = 0; chunk < plan.virtual_stages; ++chunk)
      chunks_.push_back(std::make_unique<DataParallel>(rank_, chunk));
    if (!plan.shards_parameters()) return;
    fsdp_ = std::make_unique<Fsdp>(rank_, *chunks_.front());
    rank_.fsdp = fsdp_.get();
  }

  void build();

 private:
  // Of the run, and of the passes of one kind and chunk in a step: the first one and the last one.
  struct Moment {
    bool first_step, first, last;
  };
  std::uint32_t add(Template t) {
    rank_.program.templates.push_back(std::move(t));
    return static_cast<std::uint32_t>(rank_.program.templates.size() - 1);
  }
  std::uint32_t forward(int chunk, const Moment& moment);
  std::uint32_t backward(int chunk, const Moment& moment);
  bool makes_handles(const Moment& moment, int chunk, int layer) const;
  std::uint32_t weight(int chunk, const Moment& moment);
  void recomputed_layers(Template& t, int chunk, const Variant& variant);
  std::uint32_t pattern(schedule::Pass kind, int chunk, const Moment& moment);
  std::uint32_t begin_pass(int chunk, bool forward);
  std::uint32_t end_pass(int chunk, bool forward);
  int global_layer(int chunk, int layer) const {
    int before = 0;
    for (int c = 0; c <= chunk; ++c)
      for (int stage = 0; stage < (c < chunk ? rank_.plan.pp : rank_.program.stage); ++stage)
        before += rank_.plan.chunk_layers(stage, c);
    return before + layer;
  }
  // The first chunk of the rank that has layers.
  int first_chunk() const {
    int chunk = 0;
    while (chunk + 1 < rank_.plan.virtual_stages && rank_.layers(chunk) == 0) ++chunk;
    return chunk;
  }
  // Whether layer `layer` of a chunk is run again in the backward pass.
  bool recomputes(int layer) const {
    if (rank_.plan.recompute != Recompute::full) return false;
    return rank_.plan.recompute_method == RecomputeMethod::uniform ||
           layer < rank_.plan.recompute_layers;
  }
  int group_size() const {
    return rank_.plan.recompute_method == RecomputeMethod::uniform ? rank_.plan.recompute_layers
                                                                   : 1;
  }
  std::uint32_t cached(std::int64_t& slot, const auto& make) {
    if (slot < 0) slot = make();
    return static_cast<std::uint32_t>(slot);
  }
  std::uint32_t free_layer_input(std::uint32_t layers_on);
  bool offloads(int layer) const { return layer >= 0 && layer < rank_.plan.offload_layers; }
  void find_saved(std::uint32_t forward_block);
  std::uint32_t offload();
  std::uint32_t reload();

  Rank rank_;
  const schedule::Schedule& schedule_;
  std::vector<std::unique_ptr<DataParallel>> chunks_;
  std::unique_ptr<Fsdp> fsdp_;
  std::map<std::tuple<schedule::Pass, int, bool, bool, bool>, std::uint32_t> patterns_;
  std::int64_t plain_forward_ = -1, dropping_forward_ = -1, repeated_forward_ = -1;
  std::int64_t plain_backward_[2][2] = {{-1, -1}, {-1, -1}};  // [holds][first microbatch]
  std::int64_t plain_weight_[2] = {-1, -1};
  std::int64_t free_input_[2] = {-1, -1};
  // What a layer saves for its backward pass, by slot, and the blocks that take it away and back.
  std::map<std::uint32_t, Instruction> saved_;
  std::int64_t offload_ = -1, reload_ = -1;
};

// What a layer's forward pass leaves in the layer's slots, and the residual that it was given.
void Builder::find_saved(std::uint32_t forward_block) {
  if (!saved_.empty()) return;
  std::map<std::pair<Space, std::uint32_t>, Instruction> live;
  for (const Instruction& i : rank_.program.blocks[forward_block].code) {
    if (i.op == Op::alloc) live[{i.space, i.index}] = i;
    if (i.op == Op::free) live.erase({i.space, i.index});
    if (i.op != Op::move) continue;
    auto tensor = live.extract({i.space, i.index});
    if (tensor.empty()) continue;
    tensor.key() = {static_cast<Space>(i.value >> 32), static_cast<std::uint32_t>(i.value)};
    live.insert(std::move(tensor));
  }
  for (const auto& [slot, made] : live) {
    if (slot.first != Space::layer) continue;
    if (slot.second < layer_slot_count) saved_[slot.second] = made;
    if (slot.second == input + layer_slot_count) saved_[input] = made;  // the next layer's is alike
  }
}

// Copies to the CPU and back run beside the layers; memory goes when the next layer is done and is
// there again before that layer's backward pass [TransformerEngine cpu_offload.py:
// AsyncDoubleBufferGroupOffloadHandler].
std::uint32_t Builder::offload() {
  return cached(offload_, [&] {
    Emitter e(rank_.tables, "offload of a layer");
    for (const auto& [slot, made] : saved_) e.free({Space::layer, slot});
    return e.finish();
  });
}

std::uint32_t Builder::reload() {
  return cached(reload_, [&] {
    Emitter e(rank_.tables, "reload of a layer");
    for (const auto& [slot, made] : saved_)
      e.alloc({Space::layer, slot}, made.value, made.category, rank_.program.labels[made.label]);
    return e.finish();
  });
}

std::uint32_t Builder::free_layer_input(std::uint32_t layers_on) {
  return cached(free_input_[layers_on], [&] {
    Emitter e(rank_.tables, "free layer input");
    e.free(layer_slot(input, layers_on));
    return e.finish();
  });
}

// What a pass does before its first block: waits for its input, drops what Python rebinds.
std::uint32_t Builder::begin_pass(int chunk, bool forward) {
  Emitter e(rank_.tables, "pass begin");
  const bool overlaps = rank_.plan.virtual_stages > 1 || schedule_.splits_backward;
  if (overlaps && rank_.plan.pp > 1) {
    if (rank_.plan.virtual_stages > 1) e.wait(forward ? send_forward_event : send_backward_event);
    const bool receives = forward ? !rank_.is_first_part(chunk) : !rank_.is_last_part(chunk);
    if (receives) e.wait(forward ? receive_forward_event : receive_backward_event);
  }
  if (!forward && !rank_.is_last_part(chunk)) {
    e.free(fixed_slot(received_gradient), maybe);
    e.move(frame_slot(incoming_gradient), fixed_slot(received_gradient));
  }
  return e.finish();
}

std::uint32_t Builder::end_pass(int chunk, bool forward) {
  Emitter e(rank_.tables, "pass end");
  const std::uint32_t layers = static_cast<std::uint32_t>(rank_.layers(chunk));
  if (forward) {
    if (!rank_.is_last_part(chunk)) e.move(layer_slot(input, layers), fixed_slot(output));
  } else if (rank_.is_first_part(chunk)) {
    // A chunk without layers ends with the gradient that it received.
    if (layers > 0 || rank_.is_last_part(chunk)) e.free(frame_slot(gradient));
  } else {
    e.free(fixed_slot(sent_gradient), maybe);
    e.move(frame_slot(gradient), fixed_slot(sent_gradient));
  }
  return e.finish();
}

std::uint32_t Builder::forward(int chunk, const Moment& moment) {
  Template t{PassKind::forward, chunk, {}};
  DataParallel& dp = *chunks_[static_cast<std::size_t>(chunk)];
  const bool gathers = !moment.first_step && moment.first && rank_.plan.overlap_param_gather &&
                       rank_.plan.distributed_optimizer && !fsdp_;
  t.calls.push_back({begin_pass(chunk, true), -1, layer_base(0)});
  t.calls.push_back({batch_begin(rank_, chunk), -1, layer_base(0)});
  Variant variant;
  variant.gather = gathers ? &dp : nullptr;
  if (fsdp_) t.calls.push_back({fsdp_->begin_forward(), -1, layer_base(0)});
  if (rank_.is_first_part(chunk))
    t.calls.push_back({embedding_forward(rank_, variant), -1, layer_base(0)});
  const int layers = rank_.layers(chunk);
  for (int layer = 0; layer < layers; ++layer) {
    const auto call = [&](std::uint32_t block) {
      t.calls.push_back({block, global_layer(chunk, layer), layer_base(layer)});
    };
    if (fsdp_) call(fsdp_->before_forward(layer));
    Variant v = variant;
    v.layer = layer;
    v.keep = !recomputes(layer);
    v.first_use = moment.first_step && moment.first && chunk == first_chunk() && layer == 0;
    const std::uint32_t block = gathers || v.first_use
                                    ? layer_forward(rank_, v)
                                    : cached(v.keep ? plain_forward_ : dropping_forward_,
                                             [&] { return layer_forward(rank_, v); });
    call(block);
    // Inside a recomputed group only the group's input stays.
    if (!v.keep && layer % group_size() != 0) call(free_layer_input(0));
    if (fsdp_) call(fsdp_->after_forward(layer, !v.keep));
    if (offloads(layer)) find_saved(block);
    if (offloads(layer - 1))
      t.calls.push_back({offload(), global_layer(chunk, layer - 1), layer_base(layer - 1)});
  }
  if (rank_.is_last_part(chunk)) {
    variant.first_use = moment.first_step && moment.first;
    t.calls.push_back({head_forward(rank_, variant), -1, layer_base(layers)});
  }
  if (fsdp_) t.calls.push_back({fsdp_->end_forward(), -1, layer_base(0)});
  t.calls.push_back({end_pass(chunk, true), -1, layer_base(0)});
  t.calls.push_back({batch_end(rank_, chunk), -1, layer_base(0)});
  return add(std::move(t));
}

// Runs the group that ends with layer `variant.layer` again, keeping what its backward needs.
void Builder::recomputed_layers(Template& t, int chunk, const Variant& variant) {
  const int first = variant.layer / group_size() * group_size();
  Variant again;
  again.recompute = true;
  for (int layer = first; layer <= variant.layer; ++layer)
    t.calls.push_back({cached(repeated_forward_, [&] { return layer_forward(rank_, again); }),
                       global_layer(chunk, layer), layer_base(layer)});
  t.calls.push_back(
      {free_layer_input(1), global_layer(chunk, variant.layer), layer_base(variant.layer)});
}

// The first layer that a rank's gradients reach.
bool Builder::makes_handles(const Moment& moment, int chunk, int layer) const {
  return rank_.plan.kept_gradient_handles && moment.first_step && moment.first &&
         chunk == rank_.plan.virtual_stages - 1 && layer == rank_.layers(chunk) - 1;
}

std::uint32_t Builder::backward(int chunk, const Moment& moment) {
  Template t{PassKind::backward, chunk, {}};
  DataParallel& dp = *chunks_[static_cast<std::size_t>(chunk)];
  t.calls.push_back({begin_pass(chunk, false), -1, layer_base(0)});
  Variant variant;
  variant.reduce = moment.last && !fsdp_ ? &dp : nullptr;
  variant.first_microbatch = moment.first;
  variant.split = schedule_.splits_backward;
  const int layers = rank_.layers(chunk);
  const bool last = rank_.is_last_part(chunk);
  if (fsdp_) t.calls.push_back({fsdp_->begin_backward(), -1, layer_base(0)});
  if (last) {
    Variant head = variant;
    head.first_use = moment.first_step && moment.first;
    t.calls.push_back({head_backward(rank_, head), -1, layer_base(layers)});
  }
  for (int layer = layers - 1; layer >= 0; --layer) {
    Variant v = variant;
    v.layer = layer;
    v.holds_gradient = !last && layer == layers - 1;
    const auto call = [&](std::uint32_t block) {
      t.calls.push_back({block, global_layer(chunk, layer), layer_base(layer)});
    };
    if (fsdp_) call(fsdp_->before_backward(layer, recomputes(layer)));
    if (offloads(layer - 1))
      t.calls.push_back({reload(), global_layer(chunk, layer - 1), layer_base(layer - 1)});
    const bool group_end = layer == layers - 1 || (layer + 1) % group_size() == 0;
    if (recomputes(layer) && group_end) recomputed_layers(t, chunk, v);
    v.first_use = makes_handles(moment, chunk, layer);
    const std::uint32_t block = v.reduce || v.first_use
                                    ? layer_backward(rank_, v)
                                    : cached(plain_backward_[v.holds_gradient][v.first_microbatch],
                                             [&] { return layer_backward(rank_, v); });
    call(block);
    if (fsdp_) call(fsdp_->after_backward(layer, moment.first, moment.last));
  }
  if (rank_.is_first_part(chunk))
    t.calls.push_back({embedding_backward(rank_, variant), -1, layer_base(0)});
  if (fsdp_) t.calls.push_back({fsdp_->end_backward(moment.first, moment.last), -1, layer_base(0)});
  t.calls.push_back({end_pass(chunk, false), -1, layer_base(0)});
  if (!schedule_.splits_backward)
    t.calls.push_back({microbatch_end(rank_, chunk), -1, layer_base(0)});
  return add(std::move(t));
}

std::uint32_t Builder::weight(int chunk, const Moment& moment) {
  Template t{PassKind::weight, chunk, {}};
  DataParallel& dp = *chunks_[static_cast<std::size_t>(chunk)];
  Variant variant;
  variant.reduce = moment.last ? &dp : nullptr;
  variant.first_microbatch = moment.first;
  variant.split = true;
  for (int layer = rank_.layers(chunk) - 1; layer >= 0; --layer) {
    Variant v = variant;
    v.layer = layer;
    v.first_use = makes_handles(moment, chunk, layer);
    const std::uint32_t block =
        v.reduce || v.first_use
            ? layer_weight(rank_, v)
            : cached(plain_weight_[v.first_microbatch], [&] { return layer_weight(rank_, v); });
    t.calls.push_back({block, global_layer(chunk, layer), layer_base(layer)});
  }
  t.calls.push_back({microbatch_end(rank_, chunk), -1, layer_base(0)});
  return add(std::move(t));
}

// The template of a pass, written when it is asked for the first time.
std::uint32_t Builder::pattern(schedule::Pass kind, int chunk, const Moment& moment) {
  const auto key = std::tuple(kind, chunk, moment.first_step, moment.first, moment.last);
  const auto found = patterns_.find(key);
  if (found != patterns_.end()) return found->second;
  const std::uint32_t made = kind == schedule::Pass::forward    ? forward(chunk, moment)
                             : kind == schedule::Pass::backward ? backward(chunk, moment)
                                                                : weight(chunk, moment);
  return patterns_.emplace(key, made).first->second;
}

void Builder::build() {
  Program& program = rank_.program;
  std::vector<DataParallel*> chunks;
  for (const auto& chunk : chunks_) {
    program.parameters += chunk->parameters();
    chunks.push_back(chunk.get());
  }
  int most = 0;
  for (int chunk = 0; chunk < rank_.plan.virtual_stages; ++chunk) {
    program.layers += rank_.layers(chunk);
    most = std::max(most, rank_.layers(chunk));
  }
  const auto single = [&](PassKind kind, std::uint32_t block) {
    Template t{kind, 0, {{block, -1, layer_base(0)}}};
    Pass pass{};
    pass.pattern = add(std::move(t));
    pass.microbatch = -1;
    return pass;
  };
  program.setup.push_back(single(PassKind::setup, setup_block(rank_, chunks)));
  Pipeline pipeline(rank_, schedule_);
  for (const bool first : {true, false}) {
    for (DataParallel* chunk : chunks) chunk->begin_step();
    std::vector<Pass>& step = first ? program.first_step : program.step;
    const int m = first ? rank_.plan.warm_up_microbatches() : rank_.plan.microbatches();
    step.push_back(single(PassKind::step, step_begin(rank_, chunks, first)));
    const std::vector<Pass> passes = pipeline.passes(
        [&](schedule::Pass kind, int chunk, Position at) {
          return pattern(kind, chunk, {first, at.first, at.last});
        },
        m);
    step.insert(step.end(), passes.begin(), passes.end());
    step.push_back(single(PassKind::step, step_end(rank_, chunks, first)));
  }
  for (const std::uint32_t position : pipeline.completed()) program.cuts.push_back(position + 1);
  program.local_slots = local_slot_count;
  program.frame_slots = layer_base(most) + 1;
  program.communicators = communicators(rank_);
}

// Keeps the cuts between which every class repeats itself: interval k of a class is what it runs
// between completing microbatches k-1 and k.
void keep_repeating_cuts(Job& job, int microbatches_per_period) {
  const std::size_t count = job.classes.front().cuts.size();
  const auto interval_repeats = [](const Program& p, std::size_t k, std::size_t d) {
    const std::uint32_t a = p.cuts[k - d], b = p.cuts[k], c = p.cuts[k + d];
    if (c - b != b - a) return false;
    for (std::uint32_t i = 0; i < b - a; ++i)
      if (p.step[a + i].pattern != p.step[b + i].pattern ||
          p.step[a + i].steady != p.step[b + i].steady)
        return false;
    return true;
  };
  const auto d = static_cast<std::size_t>(microbatches_per_period);
  std::vector<std::size_t> kept;
  for (std::size_t k = 2 * d - 1; k + d < count; k += d) {
    const bool repeats = std::all_of(job.classes.begin(), job.classes.end(),
                                     [&](const auto& p) { return interval_repeats(p, k, d); });
    if (repeats) {
      kept.push_back(k);
    } else if (!kept.empty()) {
      break;  // one unbroken run
    }
  }
  if (!kept.empty()) kept.push_back(kept.back() + d);
  for (Program& p : job.classes) {
    std::vector<std::uint32_t> cuts;
    for (const std::size_t k : kept) cuts.push_back(p.cuts[k]);
    p.cuts = std::move(cuts);
  }
}

}  // namespace

mesh::Mesh mesh_of(const Plan& plan, mesh::Alike alike) {
  mesh::Degrees degrees;
  degrees.tp = plan.tp;
  degrees.cp = plan.cp;
  degrees.dp = plan.dp;
  degrees.pp = plan.pp;
  if (plan.shards_parameters()) degrees.replicas = plan.fsdp.replicas;
  return mesh::Mesh(degrees, plan.rank_order, std::move(alike));
}

Job build(const Plan& plan, const Environment& environment, bool all_ranks,
          const std::vector<int>& class_of_replica) {
  assert(problems(plan).empty());
  Job job;
  job.mesh = mesh_of(plan, {all_ranks, class_of_replica});
  job.launch_blocking = plan.launch_blocking;
  job.single_queue = !plan.shards_parameters();
  job.tp_comm_overlap = plan.tp_comm_overlap && plan.uses_sequence_parallel();
  job.loading = {0, plan.micro_batch, plan.microbatches(), plan.data_workers};
  if (plan.attention_mask && plan.reset_attention_mask)
    job.loading.mask_elements = plan.sequence * plan.sequence;
  job.classes.resize(static_cast<std::size_t>(job.mesh.classes()));
  for (int c = 0; c < job.mesh.classes(); ++c) {
    Program& program = job.classes[static_cast<std::size_t>(c)];
    const int first = job.mesh.first_like(c);
    if (first != c) {
      program = job.classes[static_cast<std::size_t>(first)];
      program.ranks = job.mesh.rank_count(c);
      continue;
    }
    const mesh::Coordinates at = job.mesh.coordinates(c);
    program.stage = at.stage;
    program.cp_rank = at.cp_rank;
    program.ranks = job.mesh.rank_count(c);
    Builder(plan, environment, program).build();
  }
  keep_repeating_cuts(job, plan.virtual_stages > 1 ? plan.pp : 1);
  return job;
}

}  // namespace sim::workload
