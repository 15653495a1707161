#include "sim/search/place.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "sim/core/random.h"
#include "sim/search/step_traffic.h"
#include "sim/topology/routes.h"

namespace sim::search {
namespace {

using workload::Stream;

// Bytes from one node of the job to another.
struct Pair {
  int from = 0, to = 0;
  double bytes = 0;
};

// Traffic that shares the links at the same time.
struct Term {
  std::string who;
  bool messages = false;  // else collectives: they lose what rings lose
  double weight = 1;
  std::vector<Pair> pairs;
};

// The job's traffic between its nodes, as the network would route it: a copy of the cluster in
// which each two nodes have a link of their own counts it.
std::vector<Term> terms_of(const workload::Plan& plan, const Site& site, int nodes) {
  topology::Cluster counting = site.machine.cluster;
  counting.nodes = nodes;
  counting.hosts.clear();
  counting.conditions.clear();
  counting.rates = {};
  for (int node = 0; node < nodes; ++node) counting.rates.names.push_back(std::to_string(node));
  counting.rates.bytes_per_second.assign(counting.rates.names.size() * counting.rates.names.size(),
                                         1e15);
  network::Network network(
      counting, std::make_shared<const network::CommunicationProfile>(site.profile.communication));
  const topology::Routes& routes = network.cover(nodes);
  std::map<std::string, std::map<std::pair<int, int>, double>> together;
  std::vector<Term> terms;
  for (const StepTraffic& t : step_traffic(job_of(plan, site), counting)) {
    const bool messages = t.stream == Stream::pp;
    std::map<std::pair<int, int>, double> bytes;
    for (const network::LinkLoad& load : network.loads(t.kind, t.groups, t.bytes)) {
      if (routes.link(load.link).kind != topology::LinkKind::measured) continue;
      bytes[{routes.source(load.link).node, routes.target(load.link).node}] += load.bytes;
    }
    if (bytes.empty()) continue;
    if (messages) {
      Term& term = terms.emplace_back();
      term.who = name(t.stream);
      term.messages = true;
      // The stages work while a microbatch travels; one round trip in pp microbatches is waited
      // for.
      term.weight = static_cast<double>(t.times) / plan.mesh.pp;
      for (const auto& [ends, sum] : bytes) term.pairs.push_back({ends.first, ends.second, sum});
    } else {
      auto& all = together[std::string(name(t.stream))];
      for (const auto& [ends, sum] : bytes) all[ends] += sum * static_cast<double>(t.times);
    }
  }
  for (const auto& [who, bytes] : together) {
    Term& term = terms.emplace_back();
    term.who = who;
    for (const auto& [ends, sum] : bytes) term.pairs.push_back({ends.first, ends.second, sum});
  }
  return terms;
}

class Model {
 public:
  Model(const workload::Plan& plan, const Site& site)
      : cluster_(site.machine.cluster),
        routes_(cluster_),
        achieved_(site.profile.communication.achieved),
        job_nodes_(topology::nodes_of(plan.world(), cluster_.node.gpus)),
        terms_(terms_of(plan, site, job_nodes_)),
        load_(static_cast<std::size_t>(routes_.link_count()), 0) {
    for (int node = 0; node < cluster_.nodes; ++node) {
      std::vector<int>& nics = working_.emplace_back();
      for (int gpu = 0; gpu < cluster_.node.gpus; ++gpu)
        for (const int nic : topology::nics_of_gpu(cluster_, node * cluster_.node.gpus + gpu))
          nics.push_back(nic);
      std::ranges::sort(nics);
    }
  }

  // Seconds of a term with the job's nodes on these, and the link that takes them.
  struct Longest {
    double seconds = 0;
    int link = -1;
  };
  Longest longest(const Term& term, const std::vector<int>& order) {
    Longest most;
    touched_.clear();
    const double efficiency = term.messages ? achieved_.send_network : achieved_.network;
    for (const Pair& pair : term.pairs) {
      for (const Crossed& crossed : way(order[static_cast<std::size_t>(pair.from)],
                                        order[static_cast<std::size_t>(pair.to)])) {
        double& load = load_[static_cast<std::size_t>(crossed.link)];
        if (load == 0) touched_.push_back(crossed.link);
        load += pair.bytes * crossed.share;
      }
    }
    for (const int link : touched_) {
      const topology::Link& facts = routes_.link(link);
      const bool measured = facts.kind == topology::LinkKind::measured;
      const double capacity =
          static_cast<double>(facts.capacity.bytes_per_second) * (measured ? 1 : efficiency);
      double& load = load_[static_cast<std::size_t>(link)];
      if (load / capacity > most.seconds * (1 + 1e-12)) most = {load / capacity, link};
      load = 0;
    }
    most.seconds *= term.weight;
    return most;
  }
  double seconds(const std::vector<int>& order) {
    double sum = 0;
    for (const Term& term : terms_) sum += longest(term, order).seconds;
    return sum;
  }

  const std::vector<Term>& terms() const { return terms_; }
  int job_nodes() const { return job_nodes_; }
  std::string label_of(int link) const {
    if (link < 0) return "";
    return label(routes_.source(link)) + " -> " + label(routes_.target(link));
  }
  // Links that one look at an order touches, about.
  std::int64_t work() const {
    std::size_t pairs = 0;
    for (const Term& term : terms_) pairs += term.pairs.size();
    return static_cast<std::int64_t>(pairs) * (4 * cluster_.node.nics + 1) + 1;
  }

 private:
  struct Crossed {
    int link = 0;
    double share = 0;  // of the bytes from node to node
  };
  using Way = std::vector<Crossed>;

  // Between two nodes traffic takes all rails in equal shares.
  const Way& way(int from, int to) {
    Way& known = ways_[std::int64_t{from} * cluster_.nodes + to];
    if (!known.empty()) return known;
    std::map<int, double> shares;
    const std::vector<int>& out = working_[static_cast<std::size_t>(from)];
    const std::vector<int>& in = working_[static_cast<std::size_t>(to)];
    const std::size_t rails = std::max(out.size(), in.size());
    for (std::size_t rail = 0; rail < rails; ++rail) {
      topology::Path path;
      const int there = in[rail % in.size()];
      // Rails that never meet are crossed by the NIC of the other end.
      const int here = routes_.rails_meet() ? out[rail % out.size()] : there;
      routes_.between_nics(from * cluster_.node.nics + here, to * cluster_.node.nics + there, path);
      for (const int link : path.links) shares[link] += 1.0 / static_cast<double>(rails);
    }
    for (const auto& [link, share] : shares) known.push_back({link, share});
    return known;
  }

  const topology::Cluster& cluster_;
  topology::Routes routes_;
  const network::Achieved& achieved_;
  int job_nodes_;
  std::vector<Term> terms_;
  std::vector<double> load_;  // of each link, bytes; 0 between questions
  std::vector<int> touched_;
  std::unordered_map<std::int64_t, Way> ways_;  // by both nodes; never walked through
  std::vector<std::vector<int>> working_;  // NICs that the GPUs of a node use, one entry for each
};

// The order of all nodes; the job stands on the first of them.
class Annealing {
 public:
  Annealing(Model& model, std::vector<int> order, std::uint64_t seed)
      : model_(model),
        random_(seed),
        order_(std::move(order)),
        now_(model.seconds(order_)),
        best_order_(order_),
        best_(now_) {}

  // Geometric cooling from the size of a usual change, begun anew from the best order found.
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

  // Exchange two nodes, one of them the job's; turn a stretch around; move a stretch; exchange two
  // stretches; bring in a node that the job does not use.
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

  // Exchanges of two nodes as long as one helps.
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

  Model& model_;
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

Placement place(const workload::Plan& plan, const Site& site, const PlaceSettings& settings) {
  assert(problems(plan, site).empty());
  Model model(plan, site);
  const std::vector<int> given = given_order(site.machine.cluster);
  Annealing annealing(model, given, settings.seed);
  constexpr std::int64_t work = 2'000'000'000;  // links looked at
  annealing.run(settings.moves > 0 ? settings.moves
                                   : std::clamp<std::int64_t>(work / model.work(), 300, 30'000));
  Placement result;
  result.before = given;
  // Where nothing was gained the order stays.
  result.after = annealing.seconds() < model.seconds(given) ? annealing.best() : given;
  result.moves = annealing.moves();
  std::map<std::string, std::array<double, 2>> longest_of;  // of each communicator: before, after
  for (const Term& term : model.terms()) {
    const auto same = [&](const PlacedTraffic& t) { return t.who == term.who; };
    auto at = std::ranges::find_if(result.traffic, same);
    if (at == result.traffic.end()) {
      result.traffic.emplace_back().who = term.who;
      at = result.traffic.end() - 1;
    }
    for (const Pair& pair : term.pairs)
      at->bytes += pair.bytes * (term.messages ? term.weight * plan.mesh.pp : 1);
    std::array<double, 2>& most = longest_of[term.who];
    const auto add = [&](std::size_t which, const std::vector<int>& order, double& sum,
                         std::string& link) {
      const Model::Longest longest = model.longest(term, order);
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

double placement_seconds(const workload::Plan& plan, const Site& site,
                         const std::vector<int>& order) {
  Model model(plan, site);
  return model.seconds(order);
}

}  // namespace sim::search
