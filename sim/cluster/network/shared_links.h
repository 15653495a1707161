// shared_links.h — the speed over time of transfers that come and go on shared links.
//
// A transfer has a duration that it takes alone. This is its full speed, and it never goes faster.
// At full speed it keeps each of its links busy for a share of the time. If the shares on a link
// sum to more than 1, rates are max-min fair among the flows. The rates of all flows rise at one
// pace until a flow's transfer is at full speed or one of its links is full.
//
// Invariants
// (1) A transfer that never met a full link ends after its own duration, to the picosecond.
// (2) No transfer ends earlier than after its own duration.
// (3) The shares on a link never sum to more than 1 (within 1e-9).
//
// Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2; the same equations as SimGrid's
// CM02 with rate limits. A test compares the two.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/base/units.h"

namespace sim::network {

// One kind of transfer: how long it keeps each link busy, and the bytes of one of its flows.
struct SharedKind {
  struct Use {
    int link = 0;
    double busy_seconds = 0;
  };
  std::vector<Use> uses;
  double flow_bytes = 1;  // of one flow
};

class SharedLinks {
 public:
  // Links with the same use by all kinds are merged.
  explicit SharedLinks(const std::vector<SharedKind>& kinds);

  using Handle = std::int64_t;  // from 1

  // Starts a transfer. `follows`: a transfer whose pace it takes instead of loading links (the
  // other end of the same message); 0: none. Times never go back.
  Handle start(Time now, std::size_t kind, Duration alone, Handle follows = 0);
  void finish(Time now, Handle transfer);

  // The end of the transfer at the present rates.
  Time end(Handle transfer) const { return active_.at(transfer).end; }
  bool active(Handle transfer) const { return active_.contains(transfer); }
  // Transfers whose end has changed since the last call, in the order in which they started.
  std::vector<Handle> take_changed();

  std::size_t constraints() const { return rows_.size(); }
  // The largest sum of shares ever seen on a link; never above 1 + 1e-9.
  double fullest() const { return fullest_; }

 private:
  struct Active {
    std::size_t kind = 0;
    Handle follows = 0;
    Time since{};         // time at which `left_ps` was computed
    double left_ps = 0;   // remaining time at full speed
    double alone = 0;     // seconds
    double speed = 1;     // share of full speed, (0, 1]
    bool slowed = false;  // was ever below full speed
    Time begin{}, end{};
    Duration duration{};
  };
  struct Entry {
    std::size_t row = 0;
    double busy_seconds = 0;
  };

  void share(Time now);
  void set_speed(Time now, Handle handle, Active& transfer, double speed);

  std::vector<std::vector<Entry>> uses_;  // by kind: rows
  std::vector<double> flow_bytes_;        // by kind
  std::vector<int> rows_;                 // number of links merged into each row
  std::map<Handle, Active> active_;
  std::vector<Handle> changed_;
  Handle last_ = 0;
  double fullest_ = 0;
};

}  // namespace sim::network
