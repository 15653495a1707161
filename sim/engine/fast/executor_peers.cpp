// executor_peers.cpp — exchanges of messages, and collectives across rank classes. One class issues
// such an operation, and it ends when other classes have arrived.
#include <algorithm>

#include "sim/engine/fast/executor.h"

namespace sim::engine {

using program::Instruction;
using program::Stream;

// The earlier work of the queue is done: posts the messages, or the arrival at a collective.
void Executor::post(int c, RankState& r, Pending& pending) {
  if (pending.posted) return;
  pending.posted = true;
  r.stall.sure_until = {};
  pending.post = std::max(pending.post, r.clock.tail[at(pending.communicator)]);
  if (r.alone) {
    // In a run alone, no other class waits for it.
  } else if (pending.meeting >= 0) {
    come(peers_.meetings(pending.meeting), pending.turn, pending.post);
  } else {
    post_messages(c, r, pending);
  }
  const Account late = why(r, pending.post, pending.account);
  if (pending.joins) lift(r, pending.joined, pending.post, late);
  launched(r, pending.communicator, pending.entries, pending.post);
  r.queue_account = late;
}

void Executor::post_messages(int c, const RankState& r, const Pending& pending) {
  const std::vector<Channel*>& channels = peers_.channels_of(c, pending.exchange);
  const auto& messages = r.program.exchanges[pending.exchange].messages;
  for (std::size_t k = 0; k < messages.size(); ++k)
    (messages[k].send ? channels[k]->sends : channels[k]->receives).push_back(pending.post);
  for (const std::uint32_t other : peers_.others_of(c, pending.exchange)) due_[other] = true;
}

// A class arrives at its n-th collective.
void Executor::come(Meetings& m, std::int64_t turn, Time when) {
  const auto n = static_cast<std::size_t>(turn - m.first);
  if (m.open.size() <= n) m.open.resize(n + 1);
  ++m.open[n].posted;
  m.open[n].latest = std::max(m.open[n].latest, when);
  if (m.open[n].posted == static_cast<int>(m.members.size()))
    for (const int member : m.members) due_[static_cast<std::size_t>(member)] = true;
}

// The begin of the n-th collective, for a class that leaves it; nullopt if a class has not arrived
// yet.
std::optional<Time> Executor::leave(Meetings& m, std::int64_t turn) {
  Meetings::Meeting& meeting = m.open[static_cast<std::size_t>(turn - m.first)];
  if (meeting.posted < static_cast<int>(m.members.size())) return {};
  const Time start = meeting.latest;
  ++meeting.left;
  while (!m.open.empty() && m.open.front().left == static_cast<int>(m.members.size())) {
    m.open.pop_front();
    ++m.first;
  }
  return start;
}

// Whether all classes have arrived at the collective, or all messages of the exchange have their
// partners. `ends`: the times of that, and of the end.
bool Executor::met(int c, RankState& r, const Pending& pending, Ends& ends) {
  if (r.alone) return r.alone->next(pending.communicator, pending.post, ends);
  if (pending.meeting >= 0) {
    const auto start = leave(peers_.meetings(pending.meeting), pending.turn);
    if (!start) return false;
    ends = {*start, *start + pending.duration, pending.duration};
    note_met(r, pending.communicator, pending.post, ends);
    return true;
  }
  const program::Exchange& exchange = r.program.exchanges[pending.exchange];
  const std::vector<Channel*>& channels = peers_.channels_of(c, pending.exchange);
  ends = {pending.post, pending.post, {}};
  for (std::size_t k = 0; k < exchange.messages.size(); ++k) {
    const program::Message& message = exchange.messages[k];
    const Channel& ch = *channels[k];
    if (!ch.met(message.send, pending.numbers[k])) return false;
    const Duration duration = r.times.message[pending.exchange][k];
    const Time start = std::max(pending.post, ch.partner(message.send, pending.numbers[k]));
    ends.met = std::max(ends.met, start);
    ends.end = std::max(ends.end, start + duration);
    ends.longest = std::max(ends.longest, duration);
  }
  for (std::size_t k = 0; k < exchange.messages.size(); ++k) {
    ++(exchange.messages[k].send ? channels[k]->sends_done : channels[k]->receives_done);
    channels[k]->prune();
  }
  note_met(r, pending.communicator, pending.post, ends);
  return true;
}

// Applies the end of an operation, if it is known.
bool Executor::complete(int c, RankState& r, Pending& pending) {
  post(c, r, pending);
  Ends ends;
  if (!met(c, r, pending, ends)) return false;
  const Time end = ends.end;
  r.clock.tail[at(pending.communicator)] = end;
  std::int64_t& open = r.clock.open[at(pending.communicator)];
  if (open == pending.number) open = 0;
  std::erase_if(r.log.later, [&](const auto& place) {
    if (place.second != pending.number) return false;
    r.log.times[place.first] = (end - r.log.origin).ps;
    return true;
  });
  if (const std::int64_t open_events = r.driver.outstanding(); open_events > 0)
    r.driver.set_outstanding(open_events -
                             r.memory.set_events(ClockDriver::later + pending.number, end.ps));
  if (pending.event != 0)
    r.events[pending.event] = {end, ends.longest, pending.account, pending.waiting, pending.post};
  if (pending.joins) {
    const Duration wire = std::min(ends.longest, end - pending.post);
    lift(r, pending.joined, Time{end.ps - wire.ps}, pending.waiting);
    lift(r, pending.joined, end, pending.account);
  }
  if (options_.observer) tell(c, r, pending, ends);
  return true;
}

void Executor::tell(int c, const RankState& r, const Pending& pending, const Ends& ends) const {
  if (pending.meeting < 0) {
    std::vector<MessageEnd> messages;
    const program::Exchange& exchange = r.program.exchanges[pending.exchange];
    for (std::size_t k = 0; k < exchange.messages.size(); ++k) {
      const program::Message& m = exchange.messages[k];
      messages.push_back(
          message_end(c, job_.mesh.peer(c, m.peer_offset), m.send, m.channel, pending.numbers[k]));
    }
    options_.observer->messages(c, messages);
  }
  const std::string_view label = pending.meeting < 0 ? pending.place.label : pending.label;
  options_.observer->operation(c, pending.communicator, label, pending.place, pending.post,
                               ends.met, ends.end);
}

// Completes outstanding operations on any of `streams` in order of issue.
bool Executor::complete_all(int c, RankState& r, program::Streams streams) {
  for (auto it = r.pending.begin(); it != r.pending.end();) {
    if (!(streams & program::bit_of(it->communicator))) {
      ++it;
      continue;
    }
    if (!complete(c, r, *it)) return false;
    it = r.pending.erase(it);
  }
  return true;
}

// Whether the time of an event is known.
bool Executor::event_known(int c, RankState& r, std::uint16_t event) {
  const auto pending = std::ranges::find(r.pending, event, &Pending::event);
  return pending == r.pending.end() || complete_all(c, r, program::bit_of(pending->communicator));
}

// Completes all operations that can be completed, queue by queue, so that other classes learn their
// times. Returns whether it changed anything.
bool Executor::settle(int c, RankState& r) {
  if (times_.single_queue) return false;
  program::Streams busy = 0;
  bool any = false;
  for (auto it = r.pending.begin(); it != r.pending.end();) {
    const program::Streams bit = program::bit_of(it->communicator);
    const bool posted = it->posted;
    if (!(busy & bit) && complete(c, r, *it)) {
      it = r.pending.erase(it);
      any = true;
      continue;
    }
    any |= it->posted != posted;
    busy |= bit;
    ++it;
  }
  return any;
}

// Issues an operation. False: the time at which its queue has room is unknown.
bool Executor::issue(int c, RankState& r, const Instruction& i, Stream q, Duration launch,
                     Pending pending) {
  if (!(i.flags & program::graphed)) {
    pending.entries = times_.queue_entries_per_collective;
    if (!r.queue_of(q).knows_room_for(pending.entries)) settle(c, r);
    if (!r.queue_of(q).knows_room_for(pending.entries)) return false;
    r.clock.cpu = r.clock.cpu + launch;
    admit(r, q, pending.entries);
  }
  pending.number = ++r.clock.exchanges;
  pending.communicator = q;
  pending.joined = i.stream;
  pending.event = i.event;
  pending.joins = i.flags & program::joins;
  pending.post = std::max(r.clock.cpu, r.clock.tail[at(i.stream)]);
  if (times_.single_queue) pending.post = std::max(pending.post, r.queue);
  if (options_.observer) pending.place = resolve(r.program, position(r));
  r.clock.open[at(q)] = pending.number;
  r.stall.sure_until = {};
  r.pending.push_back(std::move(pending));
  return true;
}

// Joins the stream to the queue: false until the end of every operation in the queue is known.
bool Executor::join(int c, RankState& r, const Instruction& i, Stream q) {
  r.stall.posted = i.flags & program::joins;
  if (!r.stall.posted) return true;
  if (!complete_all(c, r, program::bit_of(q))) return false;
  r.stall.posted = false;
  return true;
}

bool Executor::exchange(int c, RankState& r, const Instruction& i) {
  const program::Exchange& exchange = r.program.exchanges[i.index];
  const Stream q = exchange.communicator;
  if (r.stall.posted) return join(c, r, i, q);
  // In a single hardware queue, later work starts after this exchange, so its start must be known.
  // With several queues, the start of earlier work in its own queue may still be unknown.
  if (times_.single_queue && !complete_all(c, r, program::bit_of(q))) return false;
  Pending pending;
  pending.exchange = i.index;
  pending.account = Account::pp_transfer;
  pending.waiting = waiting_account((*r.at.passes)[r.at.pass]);
  const auto messages = static_cast<std::int64_t>(exchange.messages.size());
  if (!issue(c, r, i, q, messages * times_.launch_exchange, std::move(pending))) return false;
  Pending& own = r.pending.back();
  if (!r.alone) {
    const std::vector<Channel*>& channels = peers_.channels_of(c, i.index);
    for (std::size_t k = 0; k < exchange.messages.size(); ++k)
      own.numbers.push_back(exchange.messages[k].send ? channels[k]->sends_posted++
                                                      : channels[k]->receives_posted++);
  }
  if (times_.single_queue) post(c, r, own);
  return join(c, r, i, q);
}

// A collective across rank classes, with a queue for each stream: the CPU continues before all
// classes have arrived.
bool Executor::meet_later(int c, RankState& r, const Instruction& i, int group) {
  const Stream q = r.program.transfers[i.index].communicator;
  if (r.stall.posted) return join(c, r, i, q);
  const auto& durations =
      i.flags & program::overlapped ? r.times.transfer_overlapped : r.times.transfer;
  Pending pending;
  pending.exchange = i.index;
  pending.meeting = group;
  pending.turn = r.meetings[at(q)];
  pending.duration = durations[i.index];
  pending.account = account_of(q);
  pending.waiting = waiting_account(q);
  pending.label = r.program.labels[i.label];
  if (!issue(c, r, i, q, times_.launch_collective, std::move(pending))) return false;
  ++r.meetings[at(q)];
  return join(c, r, i, q);
}

}  // namespace sim::engine
