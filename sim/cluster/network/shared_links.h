// shared_links.h — transfers that come and go on links they share: who progresses how fast, as
// time goes on.
//
// A transfer has a duration that it takes alone; that is its full speed, and it never goes faster.
// At full speed it keeps each link that it crosses busy for a share of the time. When the shares of
// the transfers on a link sum to more than 1, rates are max-min fair among the flows: the rate of
// every flow rises at one pace until its transfer is at full speed or a link that it crosses is
// full.
//
// Invariants
//  (1) A transfer that never met a full link ends after its own duration, to the picosecond.
//  (2) No transfer ends earlier than after its own duration.
//  (3) The shares on a link never sum to more than 1 (within 1e-9).
//
// Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2; the same equations as SimGrid's
// CM02 with rate limits, which a test asks for comparison.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/base/units.h"

namespace sim::network {

// One kind of transfer: how long it keeps each link busy, and how fast one of its flows is.
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
  // Links that all kinds use alike become one.
  explicit SharedLinks(const std::vector<SharedKind>& kinds);

  using Handle = std::int64_t;  // from 1

  // A transfer starts; `follows` is another one whose pace it takes instead of loading links (the
  // other end of the same message), 0: none. Times never go back.
  Handle start(Time now, std::size_t kind, Duration alone, Handle follows = 0);
  void finish(Time now, Handle transfer);

  // When the transfer ends at the present rates.
  Time end(Handle transfer) const { return active_.at(transfer).end; }
  bool active(Handle transfer) const { return active_.contains(transfer); }
  // Transfers whose end has changed since the last call, in order of their start.
  std::vector<Handle> take_changed();

  std::size_t constraints() const { return rows_.size(); }
  // Largest sum of shares ever on a link; never above 1 + 1e-9.
  double fullest() const { return fullest_; }

 private:
  struct Active {
    std::size_t kind = 0;
    Handle follows = 0;
    Time since{};         // `left` is of this time
    double left_ps = 0;   // at full speed
    double alone = 0;     // seconds
    double speed = 1;     // share of full speed, (0, 1]
    bool slowed = false;  // ever below full speed
    Time begin{}, end{};
    Duration duration{};
  };
  struct Entry {
    std::size_t row = 0;
    double busy_seconds = 0;
  };

  void share(Time now);
  void set_speed(Time now, Handle handle, Active& transfer, double speed);

  std::vector<std::vector<Entry>> uses_;  // of a kind: rows
  std::vector<double> flow_bytes_;        // of a kind
  std::vector<int> rows_;                 // links that stand for each row
  std::map<Handle, Active> active_;
  std::vector<Handle> changed_;
  Handle last_ = 0;
  double fullest_ = 0;
};

}  // namespace sim::network
