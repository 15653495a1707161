#include "sim/replay/dataflow_rank.h"

namespace sim::replay {

memory::Event ClockDriver::record_event(int stream) {
  events_.push_back({clock_.tail[static_cast<std::size_t>(stream)], false});
  return {stream, first_ticket_ + static_cast<std::int64_t>(events_.size()) - 1};
}

bool ClockDriver::event_reached(const memory::Event& event) {
  Outstanding& outstanding = at(event);
  if (outstanding.when > clock_.cpu) return false;
  outstanding.reached = true;
  while (!events_.empty() && events_.front().reached) {
    events_.pop_front();
    ++first_ticket_;
  }
  return true;
}

void ClockDriver::wait(const memory::Event& event) {
  clock_.cpu = std::max(clock_.cpu, at(event).when);
  (void)event_reached(event);
}

void ClockDriver::save_state(std::vector<std::int64_t>& out, Time origin) const {
  out.push_back(static_cast<std::int64_t>(events_.size()));
  for (const Outstanding& e : events_)
    out.push_back(e.reached ? -1 : std::max(e.when, clock_.cpu).ps - origin.ps);
}

void ClockDriver::shift(Duration by) {
  for (Outstanding& e : events_) e.when = e.when + by;
}

}  // namespace sim::replay
