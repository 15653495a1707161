#include "sim/program/build/builder.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "sim/job/schedule/placement.h"
#include "sim/program/build/blocks.h"
#include "sim/program/build/make_sharding.h"
#include "sim/program/layers/attention/attention.h"
#include "sim/program/layers/loss.h"
#include "sim/program/layers/vocabulary.h"
#include "sim/program/parallel/offload/module_offload.h"
#include "sim/program/parallel/offload/offload.h"
#include "sim/program/parallel/pipeline/pipeline.h"
#include "sim/program/parallel/sharding.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::program {
namespace {

class Builder {
 public:
  Builder(const Plan& plan, const Environment& environment, Program& program)
      : rank_(plan, environment, program),
        schedule_(rank_.pipeline_schedule()),
        sharding_(make_sharding(rank_)),
        offload_(rank_),
        module_offload_(rank_) {
    rank_.sharding = sharding_.get();
  }

  void build(const Orders& orders);

 private:
  struct Written {
    std::uint32_t pattern;
    Sharding::State left;
  };
  // The key includes the microbatch if each has routes of its own, and the groups that come up if
  // modules are offloaded.
  using Key =
      std::tuple<StageAction::Kind, schedule::Pass, int, int, Moment, int, int, Sharding::State>;

  std::uint32_t pattern(const StageAction& act, const Moment& moment);
  Template write(const StageAction& act, const Moment& moment);
  Template vocabulary(const StageAction& act, const Moment& moment);
  Template forward(int chunk, const Moment& moment);
  Template backward(int chunk, const Moment& moment, bool splits);
  Template weight(int chunk, const Moment& moment);
  std::uint32_t forward_layer(const Variant& variant);
  std::uint32_t backward_layer(const Variant& variant);
  std::uint32_t weight_layer(const Variant& variant);
  void run_again(Template& t, int chunk, int layer, const Moment& moment);
  std::uint32_t begin_pass(int chunk, bool forward);
  std::uint32_t end_pass(int chunk, bool forward);
  std::uint32_t free_layer_input(std::uint32_t layers_on);
  void validate(std::vector<Pass>& step);
  void write_step(class Pipeline& pipeline, const Orders& orders, bool first);
  std::uint32_t add(Template t) {
    rank_.program.templates.push_back(std::move(t));
    return static_cast<std::uint32_t>(rank_.program.templates.size() - 1);
  }
  Pass single(PassKind kind, Emitter& e);

  // Appends a call of a block of the ends, or of a layer.
  void call(Template& t, std::optional<std::uint32_t> block, int layer = ends) {
    if (!block) return;
    t.calls.push_back({*block, layer == ends ? -1 : rank_.first_layer(t.chunk) + layer,
                       layer_base(layer == ends ? 0 : layer)});
  }
  void shard(Template& t, std::optional<std::uint32_t> block, int layer = ends) {
    if (block) rank_.program.blocks[*block].of_sharding = true;
    call(t, block, layer);
  }
  int first_chunk() const;
  LayerKind kind(int chunk, int layer, const Moment& moment) const {
    return rank_.kind(chunk, {layer, microbatch_, moment.first_step});
  }
  bool makes_handles(const Moment& moment, int chunk, int layer) const;
  LayerOffload layer_offload(int layer) const {
    const auto& layers = offloads_->layers;
    return layers.empty() ? LayerOffload{} : layers[static_cast<std::size_t>(layer)];
  }
  std::optional<Behind> groups_ahead(const StageAction& act);

  Rank rank_;
  const schedule::Schedule& schedule_;
  std::unique_ptr<Sharding> sharding_;
  Offload offload_;
  ModuleOffload module_offload_;
  const ModuleOffload::OfPass* offloads_ = nullptr;  // of the pass that is being written
  // Templates of groups that come up, by OfPass::number.
  std::map<int, std::uint32_t> ahead_;
  Blocks blocks_;
  std::map<Key, Written> written_;
  int microbatch_ = 0;  // of the pass that is being written
  // Slots of the gradients of earlier slices' keys and values, in all layers of the stage. `kept`:
  // left by the slice whose backward pass ran last. `made`: produced by the current slice. 0: no
  // slot yet.
  std::uint32_t kept_key_gradients_ = 0, made_key_gradients_ = 0;
  // The place in a later step of the pass that validates the step before; the maximum: none.
  std::uint32_t validated_at_ = std::numeric_limits<std::uint32_t>::max();
};

// The first chunk of the rank that has layers.
int Builder::first_chunk() const {
  int chunk = 0;
  while (chunk + 1 < rank_.plan.pipeline.virtual_stages && rank_.layers(chunk) == 0) ++chunk;
  return chunk;
}

// Whether TransformerEngine's permanent gradient tensors are created here: at the first layer that
// a rank's gradients reach.
bool Builder::makes_handles(const Moment& moment, int chunk, int layer) const {
  return rank_.plan.stack.kept_gradient_handles && moment.first_step && moment.first &&
         chunk == rank_.plan.pipeline.virtual_stages - 1 && layer == rank_.layers(chunk) - 1;
}

std::uint32_t Builder::free_layer_input(std::uint32_t layers_on) {
  return blocks_.get(Blocks::free_input, static_cast<int>(layers_on), [&] {
    Emitter e(rank_.tables, "free layer input");
    e.free(layer_slot(input, layers_on));
    return e.finish();
  });
}

// The begin of a pass, before its first block: it waits for its input and frees what Python
// rebinds.
std::uint32_t Builder::begin_pass(int chunk, bool forward) {
  Emitter e(rank_.tables, "pass begin");
  wait_for_messages(e, rank_, chunk, forward);
  if (!forward && !rank_.has_loss(chunk)) {
    e.free(fixed_slot(received_gradient), maybe);
    e.move(frame_slot(incoming_gradient), fixed_slot(received_gradient));
  }
  if (!forward && rank_.dim.prefix > 0) {
    if (made_key_gradients_ == 0) made_key_gradients_ = rank_.new_fixed();
    e.alloc(fixed_slot(made_key_gradients_),
            2 * rank_.layers(chunk) * key_bytes(rank_.dim, rank_.dim.prefix), Category::temporaries,
            "gradients of earlier keys");
  }
  return e.finish();
}

std::uint32_t Builder::end_pass(int chunk, bool forward) {
  Emitter e(rank_.tables, "pass end");
  if (!forward && slice_count(rank_.plan) > 1) {
    if (kept_key_gradients_ == 0) kept_key_gradients_ = rank_.new_fixed();
    if (rank_.slice() + 1 < slice_count(rank_.plan)) e.free(fixed_slot(kept_key_gradients_));
    if (rank_.dim.prefix > 0)
      e.move(fixed_slot(made_key_gradients_), fixed_slot(kept_key_gradients_));
  }
  const std::uint32_t layers = static_cast<std::uint32_t>(rank_.layers(chunk));
  if (forward) {
    if (!rank_.has_loss(chunk)) e.move(layer_slot(input, layers), fixed_slot(output));
  } else if (rank_.is_first_part(chunk) || !schedule_.gradients_travel) {
    if (rank_.cuts_vocabulary()) return e.finish();  // the gradient goes back to all stages
    // A chunk without layers ends with the gradient that it received.
    if (layers > 0 || rank_.has_loss(chunk)) e.free(frame_slot(gradient));
  } else {
    e.free(fixed_slot(sent_gradient), maybe);
    e.move(frame_slot(gradient), fixed_slot(sent_gradient));
  }
  return e.finish();
}

std::uint32_t Builder::forward_layer(const Variant& v) {
  if (v.hooks || v.first_use) return layer_forward(rank_, v);
  return blocks_.get(
      Blocks::forward, 2 * v.kind.number() + v.keep, [&] { return layer_forward(rank_, v); },
      v.offload);
}

std::uint32_t Builder::backward_layer(const Variant& v) {
  if (v.hooks || v.first_use) return layer_backward(rank_, v);
  const int variant = 4 * v.split + 2 * v.holds_gradient + v.first_microbatch;
  return blocks_.get(
      Blocks::backward, 8 * v.kind.number() + variant, [&] { return layer_backward(rank_, v); },
      v.offload);
}

std::uint32_t Builder::weight_layer(const Variant& v) {
  if (v.hooks || v.first_use) return layer_weight(rank_, v);
  return blocks_.get(Blocks::weight, 2 * v.kind.number() + v.first_microbatch,
                     [&] { return layer_weight(rank_, v); });
}

Template Builder::forward(int chunk, const Moment& moment) {
  Template t{PassKind::forward, chunk, {}};
  call(t, begin_pass(chunk, true));
  call(t, batch_begin(rank_, chunk));
  shard(t, sharding_->before(ends, Visit::forward));
  Variant variant;
  variant.hooks = sharding_->hooks();
  variant.unit = {chunk, ends};
  const bool cut = rank_.cuts_vocabulary();
  if (rank_.is_first_part(chunk))
    call(t, cut ? input_forward(rank_, variant) : embedding_forward(rank_, variant));
  const int layers = rank_.layers(chunk);
  for (int layer = 0; layer < layers; ++layer) {
    shard(t, sharding_->before(layer, Visit::forward), layer);
    Variant v = variant;
    v.unit.layer = layer;
    v.kind = kind(chunk, layer, moment);
    v.keep = !rank_.recomputes(layer);
    v.offload = layer_offload(layer);
    v.first_use = moment.first_step && moment.first && chunk == first_chunk() && layer == 0;
    call(t, forward_layer(v), layer);
    // Inside a recomputed group only the group's input is kept.
    if (!v.keep && layer % rank_.recomputed_group() != 0) call(t, free_layer_input(0), layer);
    shard(t, sharding_->after(layer, Visit::forward), layer);
    if (const auto gone = offload_.before(chunk, layer)) call(t, offload_.wait_down(*gone), *gone);
    if (const auto goes = offload_.behind(chunk, layer)) call(t, offload_.down(*goes), *goes);
  }
  if (rank_.has_loss(chunk)) {
    variant.first_use = moment.first_step && moment.first;
    variant.kind = kind(chunk, layers - 1, moment);
    t.calls.push_back({cut ? shared_head_forward(rank_, variant) : head_forward(rank_, variant), -1,
                       layer_base(layers)});
  }
  shard(t, sharding_->after(ends, Visit::forward));
  call(t, end_pass(chunk, true));
  call(t, batch_end(rank_, chunk));
  return t;
}

// Recomputes the group that ends with layer `last`, whose backward pass follows.
void Builder::run_again(Template& t, int chunk, int last, const Moment& moment) {
  Variant variant;
  variant.recompute = true;
  variant.unit.chunk = chunk;
  for (int layer = last / rank_.recomputed_group() * rank_.recomputed_group(); layer <= last;
       ++layer) {
    if (layer < last) shard(t, sharding_->before(layer, Visit::recompute), layer);
    variant.kind = kind(chunk, layer, moment);
    variant.stops_early = layer == last && !variant.kind.mixture && rank_.stops_early();
    call(t,
         blocks_.get(variant.stops_early ? Blocks::recompute_in_part : Blocks::recompute,
                     variant.kind.number(), [&] { return layer_forward(rank_, variant); }),
         layer);
    if (layer < last) shard(t, sharding_->after(layer, Visit::recompute), layer);
  }
  if (!variant.stops_early) call(t, free_layer_input(1), last);
}

Template Builder::backward(int chunk, const Moment& moment, bool splits) {
  Template t{PassKind::backward, chunk, {}};
  call(t, begin_pass(chunk, false));
  Variant variant;
  variant.hooks = sharding_->hooks();
  variant.unit = {chunk, ends};
  variant.first_microbatch = moment.first;
  variant.split = splits;
  const int layers = rank_.layers(chunk);
  const bool last = rank_.has_loss(chunk), cut = rank_.cuts_vocabulary();
  shard(t, sharding_->before(ends, Visit::backward));
  if (last) {
    Variant head = variant;
    head.first_use = moment.first_step && moment.first;
    head.split = false;
    head.kind = kind(chunk, layers - 1, moment);
    t.calls.push_back({cut ? shared_head_backward(rank_, head) : head_backward(rank_, head), -1,
                       layer_base(layers)});
  }
  for (int layer = layers - 1; layer >= 0; --layer) {
    Variant v = variant;
    v.unit.layer = layer;
    v.kind = kind(chunk, layer, moment);
    v.holds_gradient = !last && layer == layers - 1;
    v.first_use = makes_handles(moment, chunk, layer);
    v.offload = layer_offload(layer);
    shard(t, sharding_->before(layer, Visit::backward), layer);
    if (const auto here = offload_.behind(chunk, layer)) call(t, offload_.there(*here), *here);
    if (const auto next = offload_.before(chunk, layer)) call(t, offload_.up(*next), *next);
    if (rank_.recomputes(layer) && rank_.ends_recomputed_group(chunk, layer))
      run_again(t, chunk, layer, moment);
    shard(t, sharding_->before_gradients(layer), layer);
    call(t, backward_layer(v), layer);
    shard(t, sharding_->after(layer, Visit::backward), layer);
  }
  if (rank_.is_first_part(chunk))
    call(t, cut ? input_backward(rank_, variant) : embedding_backward(rank_, variant));
  shard(t, sharding_->after(ends, Visit::backward));
  call(t, end_pass(chunk, false));
  if (!splits) call(t, microbatch_end(rank_, chunk));
  return t;
}

Template Builder::weight(int chunk, const Moment& moment) {
  Template t{PassKind::weight, chunk, {}};
  Variant variant;
  variant.hooks = sharding_->hooks();
  variant.unit.chunk = chunk;
  variant.first_microbatch = moment.first;
  variant.split = true;
  for (int layer = rank_.layers(chunk) - 1; layer >= 0; --layer) {
    variant.unit.layer = layer;
    variant.kind = kind(chunk, layer, moment);
    variant.first_use = makes_handles(moment, chunk, layer);
    shard(t, sharding_->before(layer, Visit::weight), layer);
    call(t, weight_layer(variant), layer);
    shard(t, sharding_->after(layer, Visit::weight), layer);
  }
  shard(t, sharding_->after(ends, Visit::weight));
  call(t, microbatch_end(rank_, chunk));
  return t;
}

// Passes for a share of the vocabulary, which run beside the passes of layers.
Template Builder::vocabulary(const StageAction& act, const Moment& moment) {
  Variant variant;
  variant.hooks = sharding_->hooks();
  variant.unit = {act.step.chunk, ends};
  variant.first_microbatch = moment.first;
  variant.first_use = moment.first_step && moment.first;
  const bool gradients = act.step.pass == schedule::Pass::output_gradient;
  const bool joined = schedule_.output == schedule::Output::together;  // both in one pass
  const PassKind pass = act.kind != StageAction::Kind::pass ? PassKind::exchange
                        : gradients                         ? PassKind::output_gradient
                                                            : PassKind::output;
  Template t{pass, act.step.chunk, {}};
  switch (act.kind) {
    case StageAction::Kind::share:
      call(t, share_output(rank_));
      break;
    case StageAction::Kind::reduce:
      call(t, reduce_output(rank_));
      break;
    case StageAction::Kind::look_up:
      call(t, look_up(rank_, variant));
      break;
    case StageAction::Kind::share_rows:
      call(t, share_rows(rank_));
      break;
    case StageAction::Kind::look_up_back:
      call(t, look_up_back(rank_, variant));
      break;
    default:
      if (!gradients) call(t, output_pass(rank_, variant));
      if (!gradients && !joined) break;
      if (joined) sharding_->begin(schedule::Pass::backward, act.step.chunk, moment);
      variant.hooks = sharding_->hooks();
      call(t, output_gradient(rank_, variant, !joined && moment.last));
  }
  return t;
}

Template Builder::write(const StageAction& act, const Moment& moment) {
  const schedule::Pass pass = act.step.pass;
  const int chunk = act.step.chunk;
  if (act.kind != StageAction::Kind::pass || pass == schedule::Pass::output ||
      pass == schedule::Pass::output_gradient)
    return vocabulary(act, moment);
  if (pass == schedule::Pass::forward) return forward(chunk, moment);
  if (pass == schedule::Pass::weight) return weight(chunk, moment);
  return backward(chunk, moment, pass == schedule::Pass::input);
}

// The direction of a pass for data parallelism: forward passes read parameters, backward passes add
// to gradients.
schedule::Pass direction_of(schedule::Pass pass) {
  if (pass == schedule::Pass::output) return schedule::Pass::forward;
  return pass == schedule::Pass::output_gradient ? schedule::Pass::backward : pass;
}

// The template of a pass; the first request writes it.
std::uint32_t Builder::pattern(const StageAction& act, const Moment& moment) {
  const schedule::ScheduledPass& step = act.step;
  const int chunk = step.chunk;
  rank_.turn_to(step.slice);
  sharding_->begin(direction_of(step.pass), chunk, moment);
  microbatch_ = rank_.plan.draws_routes() ? step.microbatch : 0;
  offloads_ = &module_offload_.of(step);
  const Key key{act.kind,          step.pass,         chunk, step.slice, moment, microbatch_,
                offloads_->number, sharding_->state()};
  const auto found = written_.find(key);
  if (found != written_.end()) {
    sharding_->restore(found->second.left);
    return found->second.pattern;
  }
  const std::uint32_t made = add(write(act, moment));
  written_[key] = {made, sharding_->state()};
  return made;
}

// The offloaded groups of the next microbatch that are copied back after a pass.
std::optional<Behind> Builder::groups_ahead(const StageAction& act) {
  const ModuleOffload::OfPass& offloads = module_offload_.of(act.step);
  if (act.kind != StageAction::Kind::pass || offloads.ahead.empty()) return {};
  const auto [it, added] = ahead_.try_emplace(offloads.number, 0);
  if (added) it->second = add(module_offload_.ahead(offloads));
  return Behind{it->second, offloads.next};
}

Pass Builder::single(PassKind kind, Emitter& e) {
  Pass pass{};
  pass.pattern = add({kind, 0, {{e.finish(), -1, layer_base(0)}}});
  pass.microbatch = -1;
  return pass;
}

// Inserts the validation of the previous step. It runs in the warm-up, once the norm has come back
// through all later stages: before forward pass 2 (p - 1 - stage). It comes no later than the last
// forward of the first chunk that precedes all other passes. Later work of a stage may wait for
// another stage's validation [sail-sg/zero-bubble-pipeline-parallelism
// zerobubble/scheduler/communication.py: get_post_validation_time].
void Builder::validate(std::vector<Pass>& step) {
  const auto works = [&](const Pass& pass) {
    const PassKind kind = rank_.program.templates[pass.pattern].kind;
    return kind == PassKind::forward || kind == PassKind::backward;
  };
  const auto first_forward = [&](const Pass& pass) {
    const Template& t = rank_.program.templates[pass.pattern];
    return t.kind == PassKind::forward && t.chunk == 0;
  };
  const auto warm = std::find_if(step.begin(), step.end(), [&](const Pass& pass) {
    return works(pass) && !first_forward(pass);
  });
  int left = 2 * (rank_.plan.mesh.pp - 1 - rank_.program.stage);
  left = std::min({left, rank_.plan.microbatches() - 1,
                   static_cast<int>(std::count_if(step.begin(), warm, first_forward)) - 1});
  const auto at = std::find_if(
      step.begin(), warm, [&](const Pass& pass) { return first_forward(pass) && left-- == 0; });
  validated_at_ = static_cast<std::uint32_t>(at - step.begin());
  Emitter e(rank_.tables, "validate step");
  validate_step(rank_, e);
  step.insert(at, single(PassKind::step, e));
}

void Builder::write_step(Pipeline& pipeline, const Orders& orders, bool first) {
  std::vector<Pass>& step = first ? rank_.program.first_step : rank_.program.step;
  Emitter begin(rank_.tables, "step begin");
  sharding_->begin_step(begin, first);
  pipeline.begin_step(begin, first);
  step.push_back(single(PassKind::step, begin));
  const int m = first ? rank_.plan.warm_up_microbatches() : rank_.plan.microbatches();
  const schedule::Order& order =
      (*(first ? orders.first_step : orders.step))[static_cast<std::size_t>(rank_.program.stage)];
  module_offload_.plan(order, first);
  const std::vector<Pass> passes = pipeline.passes(
      [&](const StageAction& act) {
        const Position& at = act.position;
        return pattern(act, {first, at.first, at.last, at.first_of_ends});
      },
      [&](const StageAction& act) { return groups_ahead(act); }, m, order);
  step.insert(step.end(), passes.begin(), passes.end());
  if (!first && rank_.plan.validates_steps()) validate(step);
  Emitter end(rank_.tables, "step end");
  pipeline.end_step(end);
  report_step(rank_, end);
  sharding_->end_step(end, first);
  if (!first && rank_.plan.makes_masks()) end.host(HostWork::data);
  step.push_back(single(PassKind::step, end));
}

void Builder::build(const Orders& orders) {
  Program& program = rank_.program;
  program.parameters = sharding_->elements();
  int most = 0;
  for (int chunk = 0; chunk < rank_.plan.pipeline.virtual_stages; ++chunk) {
    program.layers += rank_.layers(chunk);
    most = std::max(most, rank_.layers(chunk));
  }
  Emitter set_up(rank_.tables, "set-up");
  sharding_->set_up(set_up);
  program.setup.push_back(single(PassKind::setup, set_up));
  Pipeline pipeline(rank_);
  for (const bool first : {true, false}) write_step(pipeline, orders, first);
  for (const std::uint32_t position : pipeline.completed())
    program.cuts.push_back(position + 1 + (position + 1 > validated_at_ ? 1 : 0));
  rank_.settle(most);
  program.communicators = sharding_->communicators();
}

}  // namespace

Orders orders_of(const Plan& plan) {
  const schedule::Schedule& schedule = *schedule::find(plan.pipeline.schedule);
  return {schedule::shared_orders(schedule, pipeline_shape(plan, plan.warm_up_microbatches())),
          schedule::shared_orders(schedule, pipeline_shape(plan, plan.microbatches()))};
}

void write_program(const Plan& plan, const Environment& environment, const Orders& orders,
                   Program& program) {
  Builder(plan, environment, program).build(orders);
}

}  // namespace sim::program
