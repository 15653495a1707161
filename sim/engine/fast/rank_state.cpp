#include "sim/engine/fast/rank_state.h"

#include <algorithm>

namespace sim::engine {

bool KnownAnswers::next(program::Stream communicator, Time post, Ends& ends) {
  std::size_t& next = next_[static_cast<std::size_t>(communicator)];
  while (next < met_.size() && met_[next].communicator != communicator) ++next;
  if (next == met_.size()) return false;
  const Met& met = met_[next];
  if (at(met.post) != post) missed_ = true;
  if (missed_) return false;
  ends = {at(met.ends.met), at(met.ends.end), met.ends.longest};
  ++next;
  ++used_;
  return true;
}

// Saves everything that decides the times of a class, relative to `origin`. Times before the CPU
// clock decide nothing any more, so they are all saved as equal.
void save_times(const RankState& r, Time origin, std::vector<std::int64_t>& out) {
  const auto put = [&](Time t) { out.push_back(t.ps - origin.ps); };
  out.push_back(r.beyond);
  const Time cpu = r.clock.cpu;
  put(cpu);
  put(r.clock.tail[0]);
  for (std::size_t s = 1; s < program::stream_count; ++s) put(std::max(r.clock.tail[s], cpu));
  for (const Time t : r.free) put(std::max(t, cpu));
  put(std::max(r.queue, cpu));
  out.push_back(r.queue > cpu ? static_cast<std::int64_t>(r.queue_account) : -1);
  for (const HardwareQueue& queue : r.queues) {
    queue.visit_behind(cpu, put);
    out.push_back(queue.waiting());
  }
  const Time past = std::min(cpu, r.clock.tail[0]);
  for (const EventEnd& e : r.events) {
    put(std::max(e.when, past));
    if (e.when <= past) continue;
    out.push_back(e.transfer.ps);
    out.push_back(static_cast<std::int64_t>(e.account) * account_count +
                  static_cast<std::int64_t>(e.waiting));
    if (e.waiting == Account::rank_wait) put(std::max(e.post, past));
  }
  put(r.timeline.front());
  for (const Duration d : r.timeline.lifted()) out.push_back(d.ps);
  out.push_back(static_cast<std::int64_t>(r.pending.size()));
  for (const Pending& p : r.pending) {
    out.push_back(p.exchange);
    out.push_back(p.meeting);
    out.push_back(p.posted);
    put(p.post);
  }
}

// Shifts the times of a class by `times` cycles, `by` in total; its accounts gain `gained` in each.
void move_on(RankTimes& r, const Accounts& gained, Duration by, std::int64_t times) {
  r.clock.cpu = r.clock.cpu + by;
  for (Time& t : r.clock.tail) t = t + by;
  for (Time& t : r.free) t = t + by;
  r.queue = r.queue + by;
  for (HardwareQueue& queue : r.queues) queue.move_on(by);
  for (EventEnd& e : r.events) {
    e.when = e.when + by;
    e.post = e.post + by;
  }
  for (Pending& p : r.pending) p.post = p.post + by;
  r.timeline.skip(gained, times, by);
}

// Updates `live` to the frames in use after the passes up to `end`, oldest first.
void walk_frames(const RankState& r, std::uint32_t end, std::vector<std::uint32_t>& live) {
  for (std::uint32_t p = r.at.pass; p < end; ++p) {
    const program::Pass& pass = (*r.at.passes)[p];
    if (pass.acquires) live.push_back(pass.frame);
    if (pass.releases) std::erase(live, pass.frame);
  }
}

}  // namespace sim::engine
