// nodes.h — the state of each node of a pool: used by the job, spare, under repair, or absent.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <vector>

namespace sim::campaign {

class Nodes {
 public:
  enum class State : std::uint8_t { absent, repair, spare, used };

  // `all` is the size of the largest pool; the first `present` nodes exist.
  Nodes(int all, int present) : states_(static_cast<std::size_t>(all), State::absent) {
    resize(present);
  }

  int up() const { return up_; }
  int used() const { return used_; }
  bool is_up(int node) const { return at(node) == State::spare || at(node) == State::used; }
  bool is_used(int node) const { return at(node) == State::used; }

  // Sets the size of the pool. Nodes join and leave at the end of the list.
  void resize(int present) {
    for (int node = 0; node < static_cast<int>(states_.size()); ++node) {
      if (node >= present) set(node, State::absent);
      if (node < present && at(node) == State::absent) set(node, State::spare);
    }
  }
  // REQUIRES: is_up(node).
  void take(int node) {
    assert(is_up(node));
    set(node, State::repair);
  }
  // Returns a node from repair. A node that left the pool meanwhile stays absent.
  void give_back(int node) {
    if (at(node) == State::repair) set(node, State::spare);
  }
  // Gives the job `count` of the first `limit` nodes. It keeps those that it has. REQUIRES: `count`
  // of them are up.
  void assign(int count, int limit) {
    if (used_ == count && limit == static_cast<int>(states_.size())) return;
    for (int node = static_cast<int>(states_.size()); node-- > 0;) {
      if (is_used(node) && (node >= limit || used_ > count)) set(node, State::spare);
    }
    for (int node = 0; node < limit && used_ < count; ++node) {
      if (at(node) == State::spare) set(node, State::used);
    }
    assert(used_ == count);
  }
  int up_below(int limit) const {
    if (limit >= static_cast<int>(states_.size())) return up_;
    int count = 0;
    for (int node = 0; node < limit; ++node) count += is_up(node) ? 1 : 0;
    return count;
  }

 private:
  State at(int node) const { return states_[static_cast<std::size_t>(node)]; }
  void set(int node, State state) {
    State& now = states_[static_cast<std::size_t>(node)];
    up_ -= now >= State::spare ? 1 : 0;
    used_ -= now == State::used ? 1 : 0;
    now = state;
    up_ += now >= State::spare ? 1 : 0;
    used_ += now == State::used ? 1 : 0;
  }

  std::vector<State> states_;
  int up_ = 0, used_ = 0;
};

}  // namespace sim::campaign
