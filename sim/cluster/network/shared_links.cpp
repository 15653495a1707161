#include "sim/cluster/network/shared_links.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <compare>
#include <numeric>
#include <span>
#include <utility>

namespace sim::network {

namespace {

struct LinkUser {
  std::size_t kind = 0;
  double busy_seconds = 0;
  friend auto operator<=>(const LinkUser&, const LinkUser&) = default;
};
using LinkUsers = std::span<const LinkUser>;

// The users of all links in one array: those of link l are users[first[l]] to users[first[l + 1]],
// in the order of kinds.
struct AllUsers {
  std::vector<std::size_t> first;
  std::vector<LinkUser> users;

  LinkUsers of(std::size_t link) const {
    return LinkUsers(users).subspan(first[link], first[link + 1] - first[link]);
  }
};

AllUsers users_of_links(const std::vector<SharedKind>& kinds) {
  AllUsers all;
  int highest = -1;
  for (const SharedKind& kind : kinds)
    for (const SharedKind::Use& use : kind.uses) highest = std::max(highest, use.link);
  all.first.assign(static_cast<std::size_t>(highest) + 2, 0);
  for (const SharedKind& kind : kinds)
    for (const SharedKind::Use& use : kind.uses)
      ++all.first[static_cast<std::size_t>(use.link) + 1];
  std::partial_sum(all.first.begin(), all.first.end(), all.first.begin());
  all.users.resize(all.first.back());
  std::vector<std::size_t> next(all.first.begin(), all.first.end() - 1);
  for (std::size_t kind = 0; kind < kinds.size(); ++kind)
    for (const SharedKind::Use& use : kinds[kind].uses)
      all.users[next[static_cast<std::size_t>(use.link)]++] = {kind, use.busy_seconds};
  return all;
}

struct Lexicographic {
  bool operator()(LinkUsers a, LinkUsers b) const {
    return std::ranges::lexicographical_compare(a, b);
  }
};

}  // namespace

SharedLinks::SharedLinks(const std::vector<SharedKind>& kinds) : uses_(kinds.size()) {
  for (const SharedKind& kind : kinds) flow_bytes_.push_back(std::max(1.0, kind.flow_bytes));
  const AllUsers links = users_of_links(kinds);
  // Symmetric fabrics have only a few different links, and equal ones mostly follow each other.
  std::map<LinkUsers, std::size_t, Lexicographic> distinct;
  LinkUsers before;
  for (std::size_t link = 0; link + 1 < links.first.size(); ++link) {
    const LinkUsers users = links.of(link);
    if (users.empty() || std::ranges::equal(users, before)) continue;
    distinct.try_emplace(users, link);
    before = users;
  }
  for (const auto& [users, link] : distinct) {
    for (const LinkUser& user : users)
      uses_[user.kind].push_back({rows_.size(), user.busy_seconds});
    rows_.push_back(static_cast<int>(link));
  }
}

SharedLinks::Handle SharedLinks::start(Time now, std::size_t kind, Duration alone, Handle follows) {
  assert(kind < uses_.size());
  const Handle handle = ++last_;
  Active& transfer = active_[handle];
  transfer.kind = kind;
  transfer.follows = follows;
  transfer.since = transfer.begin = now;
  transfer.duration = alone;
  transfer.left_ps = static_cast<double>(alone.ps);
  transfer.alone = std::max(seconds(alone), 1e-12);
  transfer.end = now + alone;
  if (follows != 0) {
    set_speed(now, handle, transfer, active_.at(follows).speed);
  } else {
    share(now);
  }
  return handle;
}

void SharedLinks::finish(Time now, Handle handle) {
  const auto found = active_.find(handle);
  assert(found != active_.end());
  assert(now >= found->second.begin + found->second.duration);
  const bool loads = found->second.follows == 0;
  active_.erase(found);
  if (loads) share(now);
}

std::vector<SharedLinks::Handle> SharedLinks::take_changed() {
  std::ranges::sort(changed_);
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  return std::exchange(changed_, {});
}

void SharedLinks::set_speed(Time now, Handle handle, Active& transfer, double speed) {
  if (speed == transfer.speed) return;
  transfer.left_ps -= transfer.speed * static_cast<double>((now - transfer.since).ps);
  transfer.left_ps = std::max(0.0, transfer.left_ps);
  transfer.since = now;
  transfer.speed = speed;
  transfer.slowed = true;
  const Time earliest = transfer.begin + transfer.duration;
  const Duration rest{static_cast<std::int64_t>(std::ceil(transfer.left_ps / speed))};
  transfer.end = std::max({now + rest, earliest, now});
  changed_.push_back(handle);
}

namespace {

// Water-filling of one moment: `level` is the rate of every flow that is not yet limited.
struct Load {
  double held = 0;    // share used by transfers with a final speed
  double rising = 0;  // share per unit of level of the other transfers
};

constexpr double slack = 1e-12;

// The level at which the first flow is at full speed or the first link is full. `next`: the level
// of the first flow at full speed.
double next_level(const std::map<std::size_t, Load>& loads, double next) {
  double level = next;
  for (const auto& [row, load] : loads) {
    if (load.rising <= slack / next) continue;
    if (load.held + load.rising * level > 1 + 1e-9)
      level = std::min(level, std::max(0.0, 1 - load.held) / load.rising);
  }
  return level;
}

}  // namespace

void SharedLinks::share(Time now) {
  std::map<std::size_t, Load> loads;
  struct Rising {
    Handle handle;
    Active* transfer;
    double full;  // level at which it reaches full speed
  };
  std::vector<Rising> rising;
  for (auto& [handle, transfer] : active_) {
    if (transfer.follows != 0) continue;
    const double full = flow_bytes_[transfer.kind] / transfer.alone;
    rising.push_back({handle, &transfer, full});
    for (const Entry& use : uses_[transfer.kind]) {
      loads[use.row].rising += use.busy_seconds / transfer.alone / full;
    }
  }
  std::map<Handle, double> speeds;
  const auto settle = [&](const Rising& r, double speed) {
    for (const Entry& use : uses_[r.transfer->kind]) {
      Load& load = loads[use.row];
      const double alone = use.busy_seconds / r.transfer->alone;
      load.rising -= alone / r.full;
      load.held += alone * speed;
    }
    speeds[r.handle] = speed;
  };
  while (!rising.empty()) {
    double next = rising.front().full;
    for (const Rising& r : rising) next = std::min(next, r.full);
    const double level = next_level(loads, next);
    // Transfers at full speed, and transfers that cross a link that is full now, are final.
    std::vector<Rising> still, done;
    for (const Rising& r : rising) {
      const bool full = level >= r.full * (1 - slack);
      const bool held = std::ranges::any_of(uses_[r.transfer->kind], [&](const Entry& use) {
        const Load& load = loads[use.row];
        return level < next && load.held + load.rising * level >= 1 - 1e-9;
      });
      (full || held ? done : still).push_back(r);
    }
    assert(!done.empty());
    // A transfer whose speed rounds to zero still moves.
    for (const Rising& r : done) settle(r, std::clamp(level / r.full, 1e-9, 1.0));
    rising = std::move(still);
  }
  for (const auto& [row, load] : loads) fullest_ = std::max(fullest_, load.held);
  for (auto& [handle, transfer] : active_) {
    const Handle leader = transfer.follows == 0 ? handle : transfer.follows;
    const auto speed = speeds.find(leader);
    // If its leader has ended, a follower runs at full speed.
    set_speed(now, handle, transfer, speed == speeds.end() ? 1.0 : speed->second);
  }
}

}  // namespace sim::network
