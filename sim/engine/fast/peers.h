// peers.h — the communication of rank classes: messages between two classes, and collectives of
// several.
//
// The executor posts and completes operations here. SteadyState shifts all times by whole cycles.
// The n-th send of a channel always meets the n-th receive, as in NCCL.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "sim/base/units.h"
#include "sim/program/build/build.h"

namespace sim::engine {

// One direction between two classes: the n-th send meets the n-th receive.
struct Channel {
  std::vector<Time> sends, receives;  // posts that a side may still need
  std::int64_t base = 0;              // number of the first of them
  std::int64_t sends_posted = 0, receives_posted = 0;
  std::int64_t sends_done = 0, receives_done = 0;  // number of complete exchanges

  // Whether the partner of the n-th send (or receive) is posted.
  bool met(bool send, std::int64_t n) const {
    return n - base < static_cast<std::int64_t>((send ? receives : sends).size());
  }
  // The time of that post. REQUIRES: met(send, n).
  Time partner(bool send, std::int64_t n) const {
    return (send ? receives : sends)[static_cast<std::size_t>(n - base)];
  }
  void prune() {
    const std::int64_t gone = std::min(sends_done, receives_done) - base;
    if (gone < 64) return;
    sends.erase(sends.begin(), sends.begin() + gone);
    receives.erase(receives.begin(), receives.begin() + gone);
    base += gone;
  }
};

// The collectives of one group of rank classes. `open` holds those that some class has not left
// yet, in order of issue; `first` is the number of its front.
struct Meetings {
  std::vector<int> members;
  struct Meeting {
    int posted = 0, left = 0;
    Time latest{};
  };
  std::deque<Meeting> open;
  std::int64_t first = 0;
};

// All channels and collectives of a job, and the ones that each class uses.
class Peers {
 public:
  explicit Peers(const program::Job& job);

  // The channels of the messages of an exchange of class `c`, in message order.
  const std::vector<Channel*>& channels_of(int c, std::uint32_t exchange);
  // The other classes of those messages. REQUIRES: channels_of() was called before.
  const std::vector<std::uint32_t>& others_of(int c, std::uint32_t exchange) const {
    return others_of_[static_cast<std::size_t>(c)][exchange];
  }
  // The group of class `c` on a communicator's stream; -1: no other class takes part.
  int meeting_of(int c, std::size_t stream) const {
    return meeting_of_[static_cast<std::size_t>(c)][stream];
  }
  Meetings& meetings(int group) { return meetings_[static_cast<std::size_t>(group)]; }
  const Meetings& meetings(int group) const { return meetings_[static_cast<std::size_t>(group)]; }

  // Appends all open posts, relative to `origin`, to a state for comparison.
  void save(Time origin, std::vector<std::int64_t>& out) const;
  // Shifts all times by whole cycles.
  void shift(Duration by);

 private:
  Channel& channel(int from, int to, std::uint8_t number) {
    return channels_[{from * classes_ + to, number}];
  }

  const program::Job& job_;
  int classes_ = 0;
  std::map<std::pair<int, std::uint8_t>, Channel> channels_;
  std::vector<std::vector<std::vector<Channel*>>> channels_of_;     // [class][exchange][message]
  std::vector<std::vector<std::vector<std::uint32_t>>> others_of_;  // [class][exchange]
  std::vector<Meetings> meetings_;
  std::vector<std::array<int, program::stream_count>> meeting_of_;  // [class][stream]
};

}  // namespace sim::engine
