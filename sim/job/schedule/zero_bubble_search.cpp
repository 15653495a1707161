#include "sim/job/schedule/zero_bubble_search.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <limits>

#include "sim/job/schedule/rules.h"

namespace sim::schedule {
namespace {

struct Choices {
  bool delays_first_input = false;  // a forward may delay the first B
  bool prefers_inputs = false;      // a B that is due soon precedes another forward
  bool fills_small_gaps = false;    // a W may fill a gap shorter than itself
};

// One try with fixed choices. Stages are numbered from the first; f, b and w count a stage's
// passes.
class Try {
 public:
  Try(const PipelineShape& shape, int cap, Choices choices)
      : shape_(shape),
        times_(shape.times),
        p_(shape.stages),
        m_(shape.microbatches),
        cap_(cap),
        choices_(choices),
        stages_(static_cast<std::size_t>(p_)),
        wanted_(stages_.size(), 0) {}

  void search();
  double longest_stage() const;
  std::vector<Order> orders() const;

 private:
  struct Stage {
    int f = 0, b = 0, w = 0;
    double now = 0;      // end of its last pass
    double waited = 0;   // since its first pass
    double started = 0;  // of its first pass
    std::vector<double> forward_end, input_end;
    Order order;
    // Microbatches that are whole in memory, and the share that pending weight passes keep of the
    // others.
    double live(double kept) const { return f - b + kept * (b - w); }
  };
  Stage& at(int stage) { return stages_[static_cast<std::size_t>(stage)]; }
  int& wanted(int stage) { return wanted_[static_cast<std::size_t>(stage)]; }

  void forward(int stage);
  void input(int stage);
  void weight(int stage);
  void put(Stage& s, Pass pass, int microbatch, double inputs, double time);

  double forward_due(int stage) {
    return at(stage - 1).forward_end[static_cast<std::size_t>(at(stage).f)] + times_.transfer;
  }
  double input_due(int stage) {
    return at(stage + 1).input_end[static_cast<std::size_t>(at(stage).b)] + times_.transfer;
  }
  double most_waited() const;
  // Whether `forwards` more forwards fit in memory after `weights` more weight passes.
  bool fits(const Stage& s, int forwards, int weights = 0) const {
    return s.live(times_.kept) + forwards - times_.kept * weights <= cap_ + 1e-9;
  }

  void warm_up();
  void decide_forwards();
  bool puts_forward_off(int stage);
  void make_room(int stage, int more);
  void fill_until(int stage, double due);
  void run_forwards();
  void run_inputs();

  const PipelineShape& shape_;
  const Times& times_;
  int p_, m_, cap_;
  Choices choices_;
  std::vector<Stage> stages_;
  std::vector<int> wanted_;  // forwards to run next, by stage
};

void Try::put(Stage& s, Pass pass, int microbatch, double inputs, double time) {
  const double start = std::max(s.now, inputs);
  if (s.f > 0) s.waited += start - s.now;
  if (s.order.empty()) s.started = start;
  s.now = start + time;
  s.order.push_back({pass, microbatch});
}

void Try::forward(int stage) {
  Stage& s = at(stage);
  put(s, Pass::forward, s.f, stage > 0 ? forward_due(stage) : 0, times_.forward);
  s.forward_end.push_back(s.now);
  ++s.f;
}

void Try::input(int stage) {
  Stage& s = at(stage);
  put(s, Pass::input, s.b, stage + 1 < p_ ? input_due(stage) : 0, times_.backward);
  s.input_end.push_back(s.now);
  ++s.b;
}

void Try::weight(int stage) {
  Stage& s = at(stage);
  put(s, Pass::weight, s.w, 0, times_.weight);
  ++s.w;
}

double Try::most_waited() const {
  double most = 0;
  for (const Stage& s : stages_) most = std::max(most, s.waited);
  return most;
}

// Runs the first forward of every stage. Runs more forwards while three conditions hold: its first
// B is not due, memory suffices, and the stage before can feed them. Then runs the first B of every
// stage.
void Try::warm_up() {
  for (int stage = 0; stage < p_; ++stage) forward(stage);
  double due = at(p_ - 1).now + times_.backward;
  for (int stage = p_ - 2; stage >= 0; --stage) {
    const Stage& s = at(stage);
    double now = s.now;
    while (s.f + wanted(stage) < m_ && fits(s, wanted(stage) + 1)) {
      const double earliest = due + times_.transfer;
      const bool late =
          choices_.delays_first_input ? now + times_.forward > earliest : now >= earliest;
      if (late) break;
      now += times_.forward;
      ++wanted(stage);
    }
    due = std::max(now, due + times_.transfer) + times_.backward;
  }
  for (int stage = 1; stage < p_; ++stage)
    while (wanted(stage) > 0 && wanted(stage) >= wanted(stage - 1) &&
           at(stage).f + wanted(stage) < m_)
      --wanted(stage);
  for (int stage = 0; stage < p_; ++stage)
    for (int i = 0; i < wanted(stage); ++i) forward(stage);
  for (int stage = p_ - 1; stage >= 0; --stage) input(stage);
}

// Whether the stage should postpone its next forward, so that its next B is not late.
bool Try::puts_forward_off(int stage) {
  if (!choices_.prefers_inputs || stage + 1 == p_) return false;
  const Stage& s = at(stage);
  const Stage& next = at(stage + 1);
  if (s.f < next.f + 2) return false;
  const double due = next.now + times_.forward + times_.backward + times_.transfer;
  if (s.now >= due) return true;
  int room = 0;  // weight passes that must precede the forward
  while (!fits(s, 1, room) && s.w + room < s.b) ++room;
  if (s.now + times_.forward + room * times_.weight <= due) return false;
  return due - s.now <= most_waited() - s.waited;
}

void Try::decide_forwards() {
  for (int stage = 0; stage < p_; ++stage)
    wanted(stage) = at(stage).f < m_ && !puts_forward_off(stage) ? 1 : 0;
  for (int stage = p_ - 2; stage >= 0; --stage)
    wanted(stage) = std::min(wanted(stage), wanted(stage + 1));
}

void Try::make_room(int stage, int more) {
  const Stage& s = at(stage);
  while (!fits(s, more)) {
    assert(s.w < s.b);
    weight(stage);
  }
}

// Runs weight passes until the next input arrives. One more may fill a gap that is too short, if
// the stage has waited longest or this try allows it.
void Try::fill_until(int stage, double due) {
  const Stage& s = at(stage);
  while (s.w < s.b && s.now + times_.weight <= due) weight(stage);
  if (s.w >= s.b || s.now >= due) return;
  if (due - s.now > most_waited() - s.waited || choices_.fills_small_gaps) weight(stage);
}

void Try::run_forwards() {
  for (int stage = 0; stage < p_; ++stage) {
    if (wanted(stage) == 0) continue;
    make_room(stage, 1);
    if (stage > 0) fill_until(stage, forward_due(stage));
    forward(stage);
  }
}

void Try::run_inputs() {
  for (int stage = p_ - 1; stage >= 0; --stage) {
    if (stage + 1 < p_) fill_until(stage, input_due(stage));
    // Once its forwards are done, the first stage waits for nothing else.
    if (stage == 0 && at(0).f == m_)
      while (at(0).w < at(0).b) weight(0);
    input(stage);
  }
}

void Try::search() {
  warm_up();
  for (int i = 1; i < m_; ++i) {
    decide_forwards();
    run_forwards();
    run_inputs();
  }
  for (int stage = 0; stage < p_; ++stage)
    while (at(stage).w < m_) weight(stage);
}

double Try::longest_stage() const {
  double longest = 0;
  for (const Stage& s : stages_) longest = std::max(longest, s.now - s.started);
  return longest;
}

std::vector<Order> Try::orders() const {
  std::vector<Order> orders;
  for (const Stage& s : stages_) orders.push_back(s.order);
  return orders;
}

}  // namespace

std::vector<Order> zero_bubble_search(const PipelineShape& shape, int cap) {
  double shortest = std::numeric_limits<double>::infinity();
  std::vector<Order> best;
  for (const bool delays : {true, false})
    for (const bool prefers : {true, false})
      for (const bool fills : {true, false}) {
        Try one(shape, cap, {delays, prefers, fills});
        one.search();
        if (one.longest_stage() >= shortest) continue;
        shortest = one.longest_stage();
        best = one.orders();
      }
  return best;
}

std::string zero_bubble_rule(const PipelineShape& shape) {
  if (std::string problem = one_chunk(shape); !problem.empty()) return problem;
  return microbatches_from(shape, shape.stages, "one per stage");
}

}  // namespace sim::schedule
