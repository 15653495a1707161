// reference_wire.cpp — transfers on links, and the accounts of waits for them.
#include "sim/engine/reference/reference_engine.h"

namespace sim::engine::reference {

// Starts a transfer and schedules its end. On shared links the first member of a transfer loads the
// links; the others follow it at the same pace.
void Reference::put_on_wire(Event event, Duration alone, std::size_t kind,
                            network::SharedLinks::Handle& leader) {
  const Time now = agenda_.now();
  if (!links_) {
    agenda_.schedule(now + alone, event.kind, event);
    return;
  }
  event.wire = links_->start(now, kind, alone, leader);
  if (leader == 0) leader = event.wire;
  on_the_wire_[event.wire] = event;
  agenda_.schedule(links_->end(event.wire), event.kind, event);
  reschedule();
}

// Ends a transfer. False: its end has moved since, and a later event will end it.
bool Reference::off_the_wire(const Event& event) {
  if (event.wire == 0) return true;
  if (!links_->active(event.wire) || links_->end(event.wire) != agenda_.now()) return false;
  links_->finish(agenda_.now(), event.wire);
  on_the_wire_.erase(event.wire);
  reschedule();
  return true;
}

void Reference::reschedule() {
  for (const network::SharedLinks::Handle wire : links_->take_changed()) {
    const auto found = on_the_wire_.find(wire);
    if (found != on_the_wire_.end())
      agenda_.schedule(links_->end(wire), found->second.kind, found->second);
  }
}

// Attributes the wait of the main stream for a collective or exchange to accounts.
void Reference::settle_wait(Rank& r, std::size_t s, const Entry& e) {
  if (e.after.count == 0) return;
  const Finished& f =
      r.stream[e.after.stream].finished[static_cast<std::size_t>(e.after.count) - 1];
  // A wait for an event in the past occupies no stream, however late it is issued.
  r.stream[s].last_end = std::max(r.stream[s].last_end, f.end);
  if (s != at(Stream::compute)) return;
  if (f.end <= r.main_tail) return;
  const auto lift = [&](Time until, Account account) {
    if (until <= r.main_tail) return;
    r.timeline.lift(account, until - r.main_tail);
    r.main_tail = until;
  };
  if (e.flags & program::joins)
    lift(f.post, f.late);
  else if (f.waiting == Account::rank_wait)
    lift(f.post, f.account);
  lift(f.met, f.waiting);
  lift(f.end, f.account);
}

}  // namespace sim::engine::reference
