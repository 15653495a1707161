#include "sim/study/tune/place.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <map>

#include "sim/base/random.h"
#include "sim/study/tune/place_model.h"

namespace sim::study {
namespace {

// Anneals the order of all nodes; the job uses the first ones.
class Annealing {
 public:
  Annealing(PlaceModel& model, std::vector<int> order, std::uint64_t seed)
      : model_(model),
        random_(seed),
        order_(std::move(order)),
        now_(model.seconds(order_)),
        best_order_(order_),
        best_(now_) {}

  // Cools geometrically from the size of a typical change; each round starts at the best order so
  // far.
  void run(std::int64_t moves) {
    constexpr int rounds = 3;
    for (int round = 0; round < rounds; ++round) {
      restart();
      const std::int64_t end = moves * (round + 1) / rounds;
      double temperature = usual_change();
      if (temperature == 0) return;
      const double coldest = temperature * 1e-6;
      for (; done_ < end; ++done_) {
        try_move(temperature);
        temperature *= 0.999;
        if (temperature < coldest) temperature = coldest;
      }
    }
    restart();
    descend();
  }

  const std::vector<int>& best() const { return best_order_; }
  double seconds() const { return best_; }
  std::int64_t moves() const { return done_; }

 private:
  std::size_t below(std::size_t count) { return random_.next() % count; }
  auto at(std::size_t place) { return order_.begin() + static_cast<std::ptrdiff_t>(place); }

  void restart() {
    order_ = best_order_;
    now_ = best_;
  }

  // Tries one change: exchange two nodes, one of them the job's; reverse a run of nodes; move a
  // run; exchange two runs; bring in an unused node.
  void change() {
    const auto used = static_cast<std::size_t>(model_.job_nodes());
    const std::size_t all = order_.size();
    const std::size_t a = below(used);
    switch (below(5)) {
      case 0:
        std::swap(order_[a], order_[below(used)]);
        return;
      case 1:
        if (used < all) {
          std::swap(order_[a], order_[used + below(all - used)]);
          return;
        }
        std::swap(order_[a], order_[(a + 1) % used]);
        return;
      case 2: {
        const std::size_t b = below(used);
        std::reverse(at(std::min(a, b)), at(std::max(a, b) + 1));
        return;
      }
      case 3: {
        std::size_t places[3] = {a, below(used), below(used)};
        std::sort(places, places + 3);
        std::rotate(at(places[0]), at(places[1]), at(places[2] + 1));
        return;
      }
      default: {
        const std::size_t length = 1 + below(std::max<std::size_t>(1, used / 2));
        const std::size_t blocks = used / length;
        const std::size_t b = below(blocks) * length, c = below(blocks) * length;
        if (b != c) std::swap_ranges(at(b), at(b + length), at(c));
      }
    }
  }

  void try_move(double temperature) {
    before_ = order_;
    change();
    const double then = model_.seconds(order_);
    const double worse = then - now_;
    if (worse > 0 && random_.uniform() >= std::exp(-worse / temperature)) {
      order_ = before_;
      return;
    }
    now_ = then;
    if (now_ < best_ * (1 - 1e-12)) {
      best_ = now_;
      best_order_ = order_;
    }
  }

  double usual_change() {
    double sum = 0;
    for (int i = 0; i < 64; ++i) {
      before_ = order_;
      change();
      sum += std::abs(model_.seconds(order_) - now_);
      order_ = before_;
    }
    return sum / 64;
  }

  // Exchanges pairs of nodes as long as that helps.
  void descend() {
    const auto used = static_cast<std::size_t>(model_.job_nodes());
    if (used * order_.size() > 4096) return;
    for (bool better = true; better;) {
      better = false;
      for (std::size_t a = 0; a < used; ++a) {
        for (std::size_t b = a + 1; b < order_.size(); ++b) {
          std::swap(order_[a], order_[b]);
          const double then = model_.seconds(order_);
          if (then < now_ * (1 - 1e-12)) {
            now_ = then;
            better = true;
          } else {
            std::swap(order_[a], order_[b]);
          }
        }
      }
    }
    best_ = now_;
    best_order_ = order_;
  }

  PlaceModel& model_;
  Random random_;
  std::vector<int> order_, before_;
  double now_;
  std::vector<int> best_order_;
  double best_;
  std::int64_t done_ = 0;
};

std::vector<int> given_order(const topology::Cluster& cluster) {
  std::vector<int> order;
  for (int node = 0; node < cluster.nodes; ++node)
    order.push_back(topology::host_of(cluster, node));
  return order;
}

}  // namespace

Placement place(const answer::CheckedPlan& plan, const PlaceSettings& settings) {
  const answer::Site& site = plan.site();
  PlaceModel model(plan);
  const std::vector<int> given = given_order(site.machine.cluster);
  Annealing annealing(model, given, settings.seed);
  constexpr std::int64_t work = 2'000'000'000;  // number of visited links
  annealing.run(settings.moves > 0 ? settings.moves
                                   : std::clamp<std::int64_t>(work / model.work(), 300, 30'000));
  Placement result;
  result.before = given;
  // Without a gain the order stays.
  result.after = annealing.seconds() < model.seconds(given) ? annealing.best() : given;
  result.moves = annealing.moves();
  std::map<std::string, std::array<double, 2>> longest_of;  // by communicator: before, after
  for (const PlaceTerm& term : model.terms()) {
    const auto same = [&](const PlacedTraffic& t) { return t.who == term.who; };
    auto at = std::ranges::find_if(result.traffic, same);
    if (at == result.traffic.end()) {
      result.traffic.emplace_back().who = term.who;
      at = result.traffic.end() - 1;
    }
    for (const NodePair& pair : term.pairs)
      at->bytes += pair.bytes * (term.messages ? term.weight * plan->mesh.pp : 1);
    std::array<double, 2>& most = longest_of[term.who];
    const auto add = [&](std::size_t which, const std::vector<int>& order, double& sum,
                         std::string& link) {
      const PlaceModel::Longest longest = model.longest(term, order);
      if (longest.seconds > most[which]) link = model.label_of(longest.link);
      most[which] = std::max(most[which], longest.seconds);
      sum += longest.seconds;
    };
    add(0, result.before, at->seconds_before, at->link_before);
    add(1, result.after, at->seconds_after, at->link_after);
  }
  result.seconds_before = model.seconds(result.before);
  result.seconds_after = model.seconds(result.after);
  const auto used = static_cast<std::size_t>(model.job_nodes());
  result.before.resize(used);
  result.after.resize(used);
  return result;
}

double placement_seconds(const answer::CheckedPlan& plan, const std::vector<int>& order) {
  PlaceModel model(plan);
  return model.seconds(order);
}

}  // namespace sim::study
