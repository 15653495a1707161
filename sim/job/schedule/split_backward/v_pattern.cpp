#include "sim/job/schedule/split_backward/v_pattern.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <tuple>

#include "sim/job/schedule/rules.h"

namespace sim::schedule {
namespace {

constexpr int interval = 6;
constexpr std::int64_t max_pattern_tasks = 1 << 16;

// The kinds of passes, in the order in which a microbatch runs them.
enum Kind : int { down, up, gradient_up, gradient_down, weights, other_weights };

// The slot of each pass of a stage, by kind and number, ascending.
struct Slots {
  std::vector<std::vector<int>> of;
  int last() const {
    int last = 0;
    for (const auto& one : of)
      if (!one.empty()) last = std::max(last, one.back());
    return last;
  }
};
using Planned = std::vector<Slots>;  // by stage

// A pass. Passes are ordered by slot, then stage, kind and number.
struct Entry {
  int slot, stage, kind, number;
};

// Calls `visit` for every pass in ascending order of the slots at the call. `visit` may change
// slots.
template <typename Visit>
void in_order(const Planned& planned, const Visit& visit) {
  std::vector<std::size_t> begin;  // of the passes of each slot
  const auto each = [&](const auto& call) {
    for (std::size_t stage = 0; stage < planned.size(); ++stage)
      for (std::size_t kind = 0; kind < planned[stage].of.size(); ++kind)
        for (std::size_t n = 0; n < planned[stage].of[kind].size(); ++n)
          call(Entry{planned[stage].of[kind][n], static_cast<int>(stage), static_cast<int>(kind),
                     static_cast<int>(n)});
  };
  int last = 0;
  for (const Slots& slots : planned) last = std::max(last, slots.last());
  begin.assign(static_cast<std::size_t>(last) + 2, 0);
  each([&](const Entry& entry) { ++begin[static_cast<std::size_t>(entry.slot) + 1]; });
  for (std::size_t slot = 1; slot < begin.size(); ++slot) begin[slot] += begin[slot - 1];
  std::vector<Entry> entries(begin.back());
  each([&](const Entry& entry) { entries[begin[static_cast<std::size_t>(entry.slot)]++] = entry; });
  for (const Entry& entry : entries) visit(entry);
}

// The passes of a stage by slot; -1: free.
std::vector<int> by_slot(const Slots& slots, std::size_t kinds) {
  std::vector<int> kind_in(static_cast<std::size_t>(slots.last()) + 1, -1);
  for (std::size_t kind = 0; kind < std::min(kinds, slots.of.size()); ++kind)
    for (const int slot : slots.of[kind])
      kind_in[static_cast<std::size_t>(slot)] = static_cast<int>(kind);
  return kind_in;
}

// Element `n` of two ascending sequences merged.
int merged(const std::vector<int>& a, const std::vector<int>& b, std::size_t n) {
  // Binary search for the number of elements that come from `a`.
  std::size_t least = n > b.size() ? n - b.size() : 0, most = std::min(n, a.size());
  while (least < most) {
    const std::size_t of_a = (least + most) / 2;
    if (a[of_a] < b[n - of_a - 1]) {
      least = of_a + 1;
    } else {
      most = of_a;
    }
  }
  const std::size_t of_b = n - least;
  if (least == a.size()) return b[of_b];
  return of_b == b.size() ? a[least] : std::min(a[least], b[of_b]);
}

// Puts weight passes into the first free slots after their gradients. The passes are of one kind,
// or those of each chunk in turn; the chunk whose gradients come first precedes.
void put_weights(Slots& slots, bool apart) {
  const std::vector<int> kind_in = by_slot(slots, 4);
  slots.of.resize(apart ? 6 : 5);
  int waiting[2] = {0, 0};
  for (std::size_t slot = 0; slot < kind_in.size(); ++slot) {
    const int kind = kind_in[slot];
    if (kind == gradient_up || kind == gradient_down) ++waiting[apart ? kind - gradient_up : 0];
    if (kind >= 0) continue;
    const int first = waiting[0] > 0 ? 0 : 1;
    if (waiting[first] == 0) continue;
    slots.of[static_cast<std::size_t>(weights + first)].push_back(static_cast<int>(slot));
    --waiting[first];
  }
  int slot = static_cast<int>(kind_in.size());
  for (const int chunk : {0, 1})
    for (; waiting[chunk] > 0; --waiting[chunk])
      slots.of[static_cast<std::size_t>(weights + chunk)].push_back(slot++);
}

// Live chunk activations of a stage, slot by slot. Free slots run weight passes if none are
// planned.
class Live {
 public:
  explicit Live(const Slots& slots)
      : planned_(slots.of.size() > 4), kind_in_(by_slot(slots, slots.of.size())) {
    before_.resize(kind_in_.size() + 1);
    for (std::size_t slot = 0; slot < kind_in_.size(); ++slot) {
      before_[slot + 1] = after(slot, before_[slot]);
      most_ = std::max(most_, before_[slot + 1].live);
    }
  }

  int most() const { return most_; }

  // Moves a pass to a free earlier slot, unless more than `most` activations were live then.
  bool move(int from, int to, int most) {
    const auto old = static_cast<std::size_t>(from), now = static_cast<std::size_t>(to);
    std::swap(kind_in_[old], kind_in_[now]);
    // Beyond `old`, slots change only until the counts are as before.
    std::vector<Count> counts = {before_[now]};
    std::size_t slot = now;
    for (; slot < kind_in_.size() && (slot <= old || counts.back() != before_[slot]); ++slot) {
      counts.push_back(after(slot, counts.back()));
      if (counts.back().live <= most) continue;
      std::swap(kind_in_[old], kind_in_[now]);
      return false;
    }
    std::ranges::copy(counts, before_.begin() + to);
    return true;
  }

 private:
  struct Count {
    int live = 0, waiting = 0;
    friend bool operator==(const Count&, const Count&) = default;
  };
  Count after(std::size_t slot, Count count) const {
    const int kind = kind_in_[slot];
    if (kind == down || kind == up) ++count.live;
    if (kind == gradient_up || kind == gradient_down) ++count.waiting;
    if (kind == weights || (kind < 0 && !planned_ && count.waiting > 0)) {
      --count.live;
      --count.waiting;
    }
    return count;
  }

  bool planned_;
  std::vector<int> kind_in_;
  std::vector<Count> before_;  // each slot, and after the last one
  int most_ = 0;
};

class Mover {
 public:
  Mover(Planned& planned, bool with_weights) : planned_(planned), with_weights_(with_weights) {}

  // Moves passes ahead, without exceeding the present need of memory.
  void move_ahead();

 private:
  int slot_of(int stage, int kind, int number) const {
    return planned_[static_cast<std::size_t>(stage)]
        .of[static_cast<std::size_t>(kind)][static_cast<std::size_t>(number)];
  }
  void take(const Entry& entry, int slot) {
    taken_[static_cast<std::size_t>(entry.stage)][static_cast<std::size_t>(slot)] = true;
  }
  bool stays(const Entry& entry);
  int inputs(const Entry& entry) const;
  void visit(const Entry& entry);

  Planned& planned_;
  bool with_weights_;
  std::vector<Live> live_;  // by stage
  int most_ = 0;
  int phase_ = 0;  // 0: filling, 1: full blocks, whose passes do not move, 2: draining
  std::vector<std::vector<bool>> taken_;
};

bool Mover::stays(const Entry& entry) {
  if (entry.kind == gradient_down && entry.stage == 0 && phase_ == 0) phase_ = 1;
  if (phase_ == 1) {
    if (entry.kind == down &&
        entry.number == static_cast<int>(planned_.front().of[down].size()) - 1)
      phase_ = 2;
    return true;
  }
  return phase_ == 0 && !with_weights_;
}

// The slot of the latest input of a pass.
int Mover::inputs(const Entry& entry) const {
  const int last_stage = static_cast<int>(planned_.size()) - 1;
  int slot = -1;
  const bool comes_down = entry.kind == down || entry.kind == gradient_up;
  if (comes_down && entry.stage > 0)
    slot = std::max(slot, slot_of(entry.stage - 1, entry.kind, entry.number));
  if ((entry.kind == up || entry.kind == gradient_down) && entry.stage < last_stage)
    slot = std::max(slot, slot_of(entry.stage + 1, entry.kind, entry.number));
  if (entry.kind > down && entry.kind < weights)
    slot = std::max(slot, slot_of(entry.stage, entry.kind - 1, entry.number));
  if (entry.kind == weights) {
    const Slots& own = planned_[static_cast<std::size_t>(entry.stage)];
    slot = std::max(slot, merged(own.of[gradient_up], own.of[gradient_down],
                                 static_cast<std::size_t>(entry.number)));
  }
  if (entry.number > 0) slot = std::max(slot, slot_of(entry.stage, entry.kind, entry.number - 1));
  return slot;
}

void Mover::visit(const Entry& entry) {
  if (stays(entry)) return take(entry, entry.slot);
  Slots& own = planned_[static_cast<std::size_t>(entry.stage)];
  int& slot = own.of[static_cast<std::size_t>(entry.kind)][static_cast<std::size_t>(entry.number)];
  const auto& taken = taken_[static_cast<std::size_t>(entry.stage)];
  for (int earlier = inputs(entry) + 1; earlier < entry.slot; ++earlier) {
    if (taken[static_cast<std::size_t>(earlier)]) continue;
    if (!live_[static_cast<std::size_t>(entry.stage)].move(entry.slot, earlier, most_)) continue;
    slot = earlier;
    break;
  }
  take(entry, slot);
}

void Mover::move_ahead() {
  if (with_weights_)
    for (Slots& slots : planned_) put_weights(slots, false);
  for (const Slots& slots : planned_) {
    live_.emplace_back(slots);
    most_ = std::max(most_, live_.back().most());
    taken_.emplace_back(static_cast<std::size_t>(slots.last()) + 1, false);
  }
  in_order(planned_, [&](const Entry& entry) { visit(entry); });
  if (!with_weights_)
    for (Slots& slots : planned_) put_weights(slots, false);
}

// Runs the passes in their planned order, each as soon as its inputs exist, in slots of length one.
// The resulting slots replace the planned ones.
void squeeze(Planned& planned) {
  Planned out(planned.size());
  std::vector<int> free(planned.size(), 0);
  for (std::size_t stage = 0; stage < planned.size(); ++stage)
    out[stage].of.resize(planned[stage].of.size());
  const int last_stage = static_cast<int>(planned.size()) - 1;
  in_order(planned, [&](const Entry& e) {
    const auto end = [&](int stage, int kind) {
      return out[static_cast<std::size_t>(stage)]
                 .of[static_cast<std::size_t>(kind)][static_cast<std::size_t>(e.number)] +
             1;
    };
    int start = free[static_cast<std::size_t>(e.stage)];
    if ((e.kind == down || e.kind == gradient_up) && e.stage > 0)
      start = std::max(start, end(e.stage - 1, e.kind));
    if ((e.kind == up || e.kind == gradient_down) && e.stage < last_stage)
      start = std::max(start, end(e.stage + 1, e.kind));
    if (e.kind > down && e.kind < weights) start = std::max(start, end(e.stage, e.kind - 1));
    out[static_cast<std::size_t>(e.stage)].of[static_cast<std::size_t>(e.kind)].push_back(start);
    free[static_cast<std::size_t>(e.stage)] = start + 1;
  });
  planned = std::move(out);
}

void drop_weights(Planned& planned) {
  for (Slots& slots : planned) slots.of.resize(4);
}

std::vector<Order> orders_of(const Planned& planned) {
  constexpr Pass pass[] = {Pass::forward, Pass::forward, Pass::input,
                           Pass::input,   Pass::weight,  Pass::weight};
  constexpr int chunk[] = {0, 1, 1, 0, 1, 0};
  std::vector<Order> orders(planned.size());
  in_order(planned, [&](const Entry& e) {
    orders[static_cast<std::size_t>(e.stage)].push_back({pass[e.kind], e.number, chunk[e.kind]});
  });
  return orders;
}

}  // namespace

std::vector<Order> repeated(const std::vector<Block>& blocks, int microbatches) {
  Planned planned(blocks.size());
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    for (const int first : blocks[stage]) {
      planned[stage].of.emplace_back();
      for (int i = 0; i < microbatches; ++i)
        planned[stage].of.back().push_back(first + interval * i);
    }
  }
  for (const bool with_weights : {true, false}) {
    Mover(planned, with_weights).move_ahead();
    squeeze(planned);
    drop_weights(planned);
  }
  for (Slots& slots : planned) put_weights(slots, true);
  return orders_of(planned);
}

std::string v_pattern_rule(const PipelineShape& shape) {
  if (std::string problem = two_chunks(shape); !problem.empty()) return problem;
  const std::int64_t tasks = std::int64_t{shape.stages} * shape.microbatches;
  if (tasks > max_pattern_tasks)
    return "the schedule is searched for; stages x microbatches is " + std::to_string(tasks) +
           " and must be at most " + std::to_string(max_pattern_tasks);
  return "";
}

}  // namespace sim::schedule
