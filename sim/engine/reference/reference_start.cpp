// reference_start.cpp — starts the head of a queue: kernels, collectives and exchanges.
#include "sim/engine/reference/reference_engine.h"

namespace sim::engine::reference {

Account Reference::why(const Rank& r, const Entry& e, Account otherwise) const {
  if (agenda_.now() == e.issued) return Account::host;
  if (times_.single_queue && agenda_.now() == r.launches.last_start) return r.launches.last_account;
  return otherwise;
}

void Reference::start_kernel(int c, Rank& r, Stream stream, const Entry& e) {
  const Time now = agenda_.now();
  const auto& durations =
      e.flags & program::overlapped ? r.times.kernel_overlapped : r.times.kernel;
  const Time end = now + durations[e.index];
  const bool main = stream == Stream::compute;
  const Account idle = why(r, e, main ? Account::other : account_of(stream));
  if (e.kernel >= 0 && resource_of(stream) == Resource::sms)
    r.timeline.kernel(now, end, kernel_account(e.flags), idle);
  if (main) r.main_tail = end;
  if (e.launch >= 0) r.launches.last_account = idle;
  agenda_.schedule(end, Event::finish,
                   {Event::finish, c, static_cast<std::uint32_t>(at(stream)), 0});
  if (options_.observer)
    options_.observer->operation(c, stream, r.program.labels[e.label], e.place, now, now, end);
}

// The last rank of the group to arrive starts the transfer for all.
void Reference::start_collective(int c, Rank& r, std::size_t s, Entry& e) {
  const std::vector<int>& who = job_.mesh.members(communicator_of(static_cast<Stream>(s)), c);
  auto& group = meetings_[{s, who.front()}];
  const std::int64_t number = r.stream[s].meetings++;
  Meeting& meeting = group[number];
  meeting.arrived.emplace_back(c, &e);
  if (meeting.arrived.size() < who.size()) return;
  network::SharedLinks::Handle leader = 0;
  for (const auto& [member, entry] : meeting.arrived) {
    const auto of_member = static_cast<std::size_t>(member);
    Rank& m = *ranks_[of_member];
    const auto& durations =
        entry->flags & program::overlapped ? m.times.transfer_overlapped : m.times.transfer;
    m.stream[s].finished[static_cast<std::size_t>(m.stream[s].done)].met = agenda_.now();
    const std::size_t kind = links_ ? options_.coupling->transfer[of_member][entry->index] : 0;
    put_on_wire({Event::finish, member, static_cast<std::uint32_t>(s), 0}, durations[entry->index],
                kind, leader);
  }
  group.erase(number);
}

void Reference::start_exchange(int c, Rank& r, std::size_t s, const Entry& e) {
  const program::Exchange& x = r.program.exchanges[e.index];
  const Time now = agenda_.now();
  exchanging_[{c, s}] = {static_cast<int>(x.messages.size()), now, now, {}, {}};
  for (std::size_t k = 0; k < x.messages.size(); ++k) {
    const program::Message& m = x.messages[k];
    const int other = job_.mesh.peer(c, m.peer_offset);
    const int from = m.send ? c : other, to = m.send ? other : c;
    Channel& ch = channels_[{from * static_cast<int>(ranks_.size()) + to, m.channel}];
    exchanging_[{c, s}].ends.push_back(
        message_end(c, other, m.send, m.channel, m.send ? ch.sent++ : ch.received++));
    const std::size_t kind =
        links_ ? options_.coupling->message[static_cast<std::size_t>(c)][e.index][k] : 0;
    (m.send ? ch.sends : ch.receives)
        .push_back({c, static_cast<Stream>(s), r.times.message[e.index][k], kind});
    meet(ch);
  }
}

// Starts the messages of a channel that both sides have posted. Each side ends after its own
// duration.
void Reference::meet(Channel& ch) {
  while (!ch.sends.empty() && !ch.receives.empty()) {
    network::SharedLinks::Handle leader = 0;
    for (const Post& p : {ch.sends.front(), ch.receives.front()}) {
      Exchanging& open = exchanging_[{p.rank, at(p.stream)}];
      open.met = std::max(open.met, agenda_.now());
      open.longest = std::max(open.longest, p.duration);
      in_flight_[transfers_] = {p, p};
      put_on_wire({Event::message, p.rank, 0, transfers_++}, p.duration, p.kind, leader);
    }
    ch.sends.pop_front();
    ch.receives.pop_front();
  }
}

// A launch has started: its places in the hardware queue are free, and the CPU may continue.
void Reference::leave_launch_queue(int c, Rank& r, Stream stream) {
  const Time now = agenda_.now();
  r.launches.last_start = now;
  ++r.launches.started;
  Rank::Places& places = places_of(r, stream);
  if (places.of.empty()) return;
  places.started += places.of.front();
  places.of.pop_front();
  if (places.wanted == 0 || places.started < places.wanted) return;
  places.wanted = 0;
  r.cpu = now;
  agenda_.schedule(now, Event::cpu, {Event::cpu, c, 0, 0});
}

void Reference::start(int c, Rank& r, std::size_t s, Entry& e) {
  const auto stream = static_cast<Stream>(s);
  e.running = true;
  if (e.kind == EntryKind::kernel) {
    start_kernel(c, r, stream, e);
  } else {
    Finished& f = r.stream[s].finished[static_cast<std::size_t>(r.stream[s].done)];
    f.post = agenda_.now();
    f.account = account_of(stream);
    f.waiting = e.waiting;
    f.late = r.launches.last_account = why(r, e, f.account);
    if (e.kind == EntryKind::collective)
      start_collective(c, r, s, e);
    else
      start_exchange(c, r, s, e);
  }
  if (e.launch >= 0) leave_launch_queue(c, r, stream);
}

}  // namespace sim::engine::reference
