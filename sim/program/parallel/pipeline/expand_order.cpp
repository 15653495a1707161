#include "sim/program/parallel/pipeline/expand_order.h"

#include <cassert>
#include <cstddef>
#include <map>
#include <utility>

#include "sim/job/schedule/placement.h"

namespace sim::program {
namespace {

using schedule::Pass;
using schedule::PipelineShape;
using schedule::Schedule;
using schedule::ScheduledPass;
using schedule::StageChunk;

bool goes_back(Pass pass) {
  return pass == Pass::backward || pass == Pass::input;
}

// Whether the pass produces another part's input.
bool travels(Pass pass) {
  return pass == Pass::forward || goes_back(pass);
}

class OrderExpander {
 public:
  OrderExpander(const Schedule& schedule, const PipelineShape& shape, const schedule::Order& order,
                int stage)
      : schedule_(schedule), shape_(shape), order_(order), stage_(stage) {
    for (const ScheduledPass& step : order_) count(step, 1);
    total_ = left_;
    forwards_run_.resize(tasks());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (order_[i].pass == Pass::forward) forwards_.push_back(i);
      if (goes_back(order_[i].pass)) backwards_.push_back(i);
    }
  }

  std::vector<StageAction> acts() {
    if (schedule_.output != schedule::Output::last_part) plan_vocabulary();
    if (schedule_.wire.batched)
      batched();
    else
      posted();
    finish_rows();
    mark_complete();
    return std::move(acts_);
  }

 private:
  // Counts of passes that add to the gradients of layers, and to those of the ends of the model,
  // which input passes write. Forward passes are counted separately.
  enum Counted : std::uint8_t { of_forwards, of_layers, of_ends, of_outputs, of_output_gradients };
  void count(const ScheduledPass& step, int by) {
    if (step.pass == Pass::output) left_[{of_outputs, step.chunk}] += by;
    if (step.pass == Pass::output_gradient) left_[{of_output_gradients, step.chunk}] += by;
    if (step.pass == Pass::forward) left_[{of_forwards, step.chunk}] += by;
    if (step.pass == Pass::backward || step.pass == Pass::weight)
      left_[{of_layers, step.chunk}] += by;
    if (goes_back(step.pass)) left_[{of_ends, step.chunk}] += by;
  }
  Position next_position(const ScheduledPass& step) {
    const Counted counted = step.pass == Pass::forward           ? of_forwards
                            : step.pass == Pass::input           ? of_ends
                            : step.pass == Pass::output          ? of_outputs
                            : step.pass == Pass::output_gradient ? of_output_gradients
                                                                 : of_layers;
    const auto untouched = [&](Counted what) {
      return left_[{what, step.chunk}] == total_[{what, step.chunk}];
    };
    const Position position{untouched(counted), left_[{counted, step.chunk}] == 1,
                            goes_back(step.pass) && untouched(of_ends)};
    count(step, -1);
    return position;
  }

  // Tasks of the stage: a slice of a microbatch in a chunk.
  std::size_t tasks() const {
    return static_cast<std::size_t>(shape_.chunks * shape_.microbatches * shape_.slices);
  }
  std::size_t number(const ScheduledPass& step) const {
    return static_cast<std::size_t>(
        (step.chunk * shape_.microbatches + step.microbatch) * shape_.slices + step.slice);
  }

  StageChunk place(const ScheduledPass& step) const { return {stage_, step.chunk}; }
  // The destination of a step's output, and the origin of its input; null at the ends of the model.
  bool goes_on(const ScheduledPass& step, StageChunk& to) const {
    const bool forward = step.pass == Pass::forward;
    const StageChunk own = place(step);
    if (forward ? is_last(schedule_.placement, shape_, own)
                : is_first(schedule_.placement, shape_, own) || !schedule_.gradients_travel)
      return false;
    to = forward ? behind(schedule_.placement, shape_, own)
                 : before(schedule_.placement, shape_, own);
    return true;
  }
  bool comes_from(const ScheduledPass& step, StageChunk& from) const {
    const bool forward = step.pass == Pass::forward;
    const StageChunk own = place(step);
    if (forward ? is_first(schedule_.placement, shape_, own)
                : is_last(schedule_.placement, shape_, own) || !schedule_.gradients_travel)
      return false;
    from = forward ? before(schedule_.placement, shape_, own)
                   : behind(schedule_.placement, shape_, own);
    return true;
  }
  bool sends(const ScheduledPass& step) const {
    StageChunk to;
    return travels(step.pass) && goes_on(step, to) && to.stage != stage_;
  }
  bool receives(const ScheduledPass& step) const {
    StageChunk from;
    return travels(step.pass) && comes_from(step, from) && from.stage != stage_;
  }
  std::uint32_t sent(const ScheduledPass& step) const {
    if (!sends(step)) return 0;
    return step.pass == Pass::forward ? send_forward : send_backward;
  }
  std::uint32_t received(const ScheduledPass& step) const {
    if (!receives(step)) return 0;
    return step.pass == Pass::forward ? receive_forward : receive_backward;
  }

  void plan_vocabulary();
  void share_before(std::size_t index);
  void behind_output(const ScheduledPass& step);
  void rows(StageAction::Kind kind, int microbatch);
  void finish_rows();
  void mark_complete();
  void run(const ScheduledPass& step);
  void exchange(std::uint32_t messages, const ScheduledPass& step);
  void turn(const ScheduledPass& step);
  void release(const ScheduledPass& step) {
    // If no gradient comes back, the loss also needs the output and keeps it.
    if (step.pass == Pass::forward && sends(step) && schedule_.gradients_travel)
      acts_.push_back({StageAction::Kind::release, step});
  }
  void receive_next(const std::vector<std::size_t>& direction, std::size_t done) {
    if (done < direction.size())
      exchange(received(order_[direction[done]]), order_[direction[done]]);
  }
  void ask_for_gradient();
  void batched();
  void posted();
  std::size_t warm_up() const;

  const Schedule& schedule_;
  const PipelineShape& shape_;
  const schedule::Order& order_;
  int stage_;
  std::vector<StageAction> acts_;
  std::map<std::pair<Counted, int>, int> left_, total_;  // by chunk
  std::vector<std::size_t> forwards_, backwards_;        // positions in the order
  std::vector<bool> forwards_run_;                       // by number of the task
  // Whether the next gradient is to be received ahead of its pass.
  bool asks_ = false;
  std::size_t asked_ = 0;  // gradients whose receive is issued
  // A vocabulary over all stages. `shares`: output passes, by the place in the order before which
  // their input is shared. `looked_up`: microbatches whose rows are looked up, by the number of
  // output passes before. `returned`: microbatches whose gradients come back, by the number of the
  // output pass.
  struct Vocabulary {
    std::multimap<std::size_t, ScheduledPass> shares;
    std::multimap<int, int> looked_up, returned;
    int outputs = 0;
  };
  Vocabulary vocabulary_;
};

// Plans look-ups from the order of the first stage, and the inputs of this stage's output passes.
void OrderExpander::plan_vocabulary() {
  const schedule::Order first = schedule_.order(shape_, 0);
  int outputs = 0;
  for (const ScheduledPass& step : first) {
    if (step.pass == Pass::output) ++outputs;
    if (step.pass == Pass::forward) vocabulary_.looked_up.emplace(outputs, step.microbatch);
    if (step.pass == Pass::backward) vocabulary_.returned.emplace(outputs + 1, step.microbatch);
  }
  const bool last = is_last(schedule_.placement, shape_, {stage_, 0});
  const bool at_once = schedule_.output == schedule::Output::together;
  std::size_t from = 0;  // place after the previous output pass
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const ScheduledPass& step = order_[i];
    if (step.pass == Pass::output) {
      std::size_t at = from;
      const auto asks = [&](const ScheduledPass& other) {
        return last ? other.pass == Pass::forward && other.microbatch == step.microbatch
                    : goes_back(other.pass);
      };
      for (at = from; at < i && !asks(order_[at]);) ++at;
      // Without such a pass, it is the output pass itself. The last stage sends after its forward
      // pass.
      if (last) at = at < i ? at + 1 : from;
      vocabulary_.shares.emplace(at_once ? i : at, step);
    }
    if (step.pass == Pass::output || step.pass == Pass::output_gradient) from = i + 1;
  }
}

void OrderExpander::rows(StageAction::Kind kind, int microbatch) {
  const bool forward = kind == StageAction::Kind::look_up;
  const ScheduledPass step{forward ? Pass::forward : Pass::backward, microbatch};
  const Position position{microbatch == 0, microbatch == shape_.microbatches - 1, false};
  acts_.push_back({kind, step, 0, position});
}

void OrderExpander::share_before(std::size_t index) {
  if (index == 0)
    for (auto [it, end] = vocabulary_.looked_up.equal_range(0); it != end; ++it)
      rows(StageAction::Kind::look_up, it->second);
  for (auto [it, end] = vocabulary_.shares.equal_range(index); it != end; ++it) {
    const ScheduledPass& step = it->second;
    for (auto [row, last] = vocabulary_.returned.equal_range(step.microbatch); row != last; ++row)
      rows(StageAction::Kind::share_rows, row->second);
    acts_.push_back({StageAction::Kind::share, step});
  }
}

void OrderExpander::behind_output(const ScheduledPass& step) {
  if (step.pass != Pass::output) return;
  ++vocabulary_.outputs;
  for (auto [it, end] = vocabulary_.looked_up.equal_range(vocabulary_.outputs); it != end; ++it)
    rows(StageAction::Kind::look_up, it->second);
  for (auto [it, end] = vocabulary_.returned.equal_range(step.microbatch); it != end; ++it)
    rows(StageAction::Kind::look_up_back, it->second);
  if (schedule_.output != schedule::Output::together)
    acts_.push_back({StageAction::Kind::reduce, step});
}

// Returns the gradients of the rows that remain after the last output pass.
void OrderExpander::finish_rows() {
  for (const auto& [outputs, microbatch] : vocabulary_.returned)
    if (outputs >= vocabulary_.outputs) {
      rows(StageAction::Kind::share_rows, microbatch);
      rows(StageAction::Kind::look_up_back, microbatch);
    }
}

// A task's frame is released after the last action that works on it.
void OrderExpander::mark_complete() {
  std::vector<bool> seen(tasks());
  for (auto act = acts_.rbegin(); act != acts_.rend(); ++act) {
    if (act->kind != StageAction::Kind::pass && act->kind != StageAction::Kind::look_up_back)
      continue;
    std::vector<bool>::reference task = seen[number(act->step)];
    act->completes = !task;
    task = true;
  }
}

void OrderExpander::run(const ScheduledPass& step) {
  acts_.push_back({StageAction::Kind::pass, step, 0, next_position(step)});
}

void OrderExpander::exchange(std::uint32_t messages, const ScheduledPass& step) {
  if (messages == 0) return;
  const bool back = schedule_.placement != schedule::Placement::round_robin && step.chunk == 1;
  acts_.push_back({StageAction::Kind::exchange, step, messages | (back ? upward : 0u)});
}

void OrderExpander::turn(const ScheduledPass& step) {
  StageChunk to;
  if (!travels(step.pass) || !goes_on(step, to) || to.stage != stage_) return;
  ScheduledPass next = step;
  next.chunk = to.chunk;
  acts_.push_back({.kind = StageAction::Kind::turn, .step = step, .next = next});
}

void OrderExpander::batched() {
  bool fused = false;  // the previous batch already contained this step's receive
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const ScheduledPass& step = order_[i];
    if (!fused) exchange(received(step), step);
    run(step);
    const bool last = i + 1 == order_.size();
    const ScheduledPass& next = last ? step : order_[i + 1];
    fused = next.pass != step.pass;
    exchange(sent(step) | (fused ? received(next) : 0u), next);
    release(step);
  }
}

// Forward passes before the first gradient is received. If an order alternates after its warm-up,
// the last forward pass before the first backward pass belongs to that pair.
std::size_t OrderExpander::warm_up() const {
  std::size_t count = 0;
  while (count < forwards_.size() && !backwards_.empty() && forwards_[count] < backwards_.front())
    ++count;
  return count < forwards_.size() && count > 0 ? count - 1 : count;
}

// A gradient is received after the previous gradient's pass, but not before the forward pass whose
// output it belongs to.
void OrderExpander::ask_for_gradient() {
  if (!asks_ || asked_ == backwards_.size()) return;
  const ScheduledPass& next = order_[backwards_[asked_]];
  if (!forwards_run_[number(next)]) return;
  exchange(received(next), next);
  asks_ = false;
  ++asked_;
}

void OrderExpander::posted() {
  const bool ahead = schedule_.wire.ahead > 0;
  const std::size_t warm_up = this->warm_up();
  std::size_t forward = 0;
  const auto hand_on = [this](const ScheduledPass& step) {
    exchange(sent(step), step);
    turn(step);
  };
  if (ahead) receive_next(forwards_, 0);
  // The first of two paired passes, which other stages see as one pass.
  const ScheduledPass* first = nullptr;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const ScheduledPass& step = order_[i];
    const bool goes_forward = step.pass == Pass::forward;
    share_before(i);
    if (asked_ == 0 && (goes_forward ? forward == warm_up : goes_back(step.pass))) asks_ = ahead;
    ask_for_gradient();
    if (!ahead) exchange(received(step), step);
    run(step);
    behind_output(step);
    if (first != nullptr) hand_on(*first);
    if (!step.paired) hand_on(step);
    if (goes_forward) forwards_run_[number(step)] = true;
    if (ahead && goes_forward) receive_next(forwards_, ++forward);
    if (goes_back(step.pass)) asks_ = ahead;
    ask_for_gradient();
    if (first != nullptr) release(*first);
    if (!step.paired) release(step);
    first = step.paired ? &step : nullptr;
  }
}

}  // namespace

std::vector<StageAction> expand_order(const Schedule& schedule, const PipelineShape& shape,
                                      const schedule::Order& order, int stage) {
  return OrderExpander(schedule, shape, order, stage).acts();
}

}  // namespace sim::program
