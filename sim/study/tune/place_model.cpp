#include "sim/study/tune/place_model.h"

#include <algorithm>
#include <map>
#include <memory>

#include "sim/study/tune/step_traffic.h"

namespace sim::study {
namespace {

using program::Stream;

// The job's traffic between its nodes as the network model routes it, counted in a copy of the
// cluster with a private link per pair of nodes.
std::vector<PlaceTerm> terms_of(const answer::CheckedPlan& plan, int nodes) {
  const answer::Site& site = plan.site();
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
  std::vector<PlaceTerm> terms;
  for (const StepTraffic& t : step_traffic(plan.job(), counting)) {
    const bool messages = t.stream == Stream::pp;
    std::map<std::pair<int, int>, double> bytes;
    for (const network::LinkLoad& load : network.loads(t.kind, t.groups, t.bytes)) {
      if (routes.link(load.link).kind != topology::LinkKind::measured) continue;
      bytes[{routes.source(load.link).node, routes.target(load.link).node}] += load.bytes;
    }
    if (bytes.empty()) continue;
    if (messages) {
      PlaceTerm& term = terms.emplace_back();
      term.who = name(t.stream);
      term.messages = true;
      // Stages compute while a microbatch travels; of pp microbatches one round trip delays them.
      term.weight = static_cast<double>(t.times) / plan->mesh.pp;
      for (const auto& [ends, sum] : bytes) term.pairs.push_back({ends.first, ends.second, sum});
    } else {
      auto& all = together[std::string(name(t.stream))];
      for (const auto& [ends, sum] : bytes) all[ends] += sum * static_cast<double>(t.times);
    }
  }
  for (const auto& [who, bytes] : together) {
    PlaceTerm& term = terms.emplace_back();
    term.who = who;
    for (const auto& [ends, sum] : bytes) term.pairs.push_back({ends.first, ends.second, sum});
  }
  return terms;
}

}  // namespace

PlaceModel::PlaceModel(const answer::CheckedPlan& plan)
    : cluster_(plan.site().machine.cluster),
      routes_(cluster_),
      achieved_(plan.site().profile.communication.achieved),
      job_nodes_(topology::nodes_of(plan->world(), cluster_.node.gpus)),
      terms_(terms_of(plan, job_nodes_)),
      load_(static_cast<std::size_t>(routes_.link_count()), 0) {
  for (int node = 0; node < cluster_.nodes; ++node) {
    std::vector<int>& nics = working_.emplace_back();
    for (int gpu = 0; gpu < cluster_.node.gpus; ++gpu)
      for (const int nic : topology::nics_of_gpu(cluster_, node * cluster_.node.gpus + gpu))
        nics.push_back(nic);
    std::ranges::sort(nics);
  }
  for (PlaceTerm& term : terms_) {
    term.sent.resize(static_cast<std::size_t>(job_nodes_), 0);
    term.received.resize(static_cast<std::size_t>(job_nodes_), 0);
    for (const NodePair& pair : term.pairs) {
      term.sent[static_cast<std::size_t>(pair.from)] += pair.bytes;
      term.received[static_cast<std::size_t>(pair.to)] += pair.bytes;
    }
  }
  leaves_ = leaves_of_nodes();
}

double PlaceModel::efficiency(const PlaceTerm& term) const {
  return term.messages ? achieved_.send_network : achieved_.network;
}

// Bytes per second.
double PlaceModel::capacity(int link, double efficiency) const {
  const topology::Link& facts = routes_.link(link);
  const bool measured = facts.kind == topology::LinkKind::measured;
  return static_cast<double>(facts.capacity.bytes_per_second) * (measured ? 1 : efficiency);
}

inline void PlaceModel::load(int link, double bytes) {
  double& load = load_[static_cast<std::size_t>(link)];
  if (load == 0) touched_.push_back(link);
  load += bytes;
}

// Clears the load of every link and calls visit(link, seconds for its load).
template <class Visit>
void PlaceModel::unload(double efficiency, const Visit& visit) {
  for (const int link : touched_) {
    double& load = load_[static_cast<std::size_t>(link)];
    visit(link, load / capacity(link, efficiency));
    load = 0;
  }
  touched_.clear();
}

PlaceModel::Longest PlaceModel::longest(const PlaceTerm& term, const std::vector<int>& order) {
  Longest most;
  for (const NodePair& pair : term.pairs)
    for (const Crossed& crossed :
         way(order[static_cast<std::size_t>(pair.from)], order[static_cast<std::size_t>(pair.to)]))
      load(crossed.link, pair.bytes * crossed.share);
  unload(efficiency(term), [&](int link, double seconds) {
    if (seconds > most.seconds * (1 + 1e-12)) most = {seconds, link};
  });
  most.seconds *= term.weight;
  return most;
}

double PlaceModel::seconds(const std::vector<int>& order) {
  double sum = 0;
  for (const PlaceTerm& term : terms_)
    sum += leaves_ ? seconds_by_leaves(term, order) : longest(term, order).seconds;
  return sum;
}

// The time of longest(), without the link.
double PlaceModel::seconds_by_leaves(const PlaceTerm& term, const std::vector<int>& order) {
  const double efficient = efficiency(term);
  double most = 0;
  for (std::size_t n = 0; n < term.sent.size(); ++n) {
    const auto node = static_cast<std::size_t>(order[n]);
    most = std::max({most, term.sent[n] * leaves_->slowest_up[node],
                     term.received[n] * leaves_->slowest_down[node]});
  }
  most /= efficient;
  for (const NodePair& pair : term.pairs) {
    const auto from = static_cast<std::size_t>(order[static_cast<std::size_t>(pair.from)]);
    const auto to = static_cast<std::size_t>(order[static_cast<std::size_t>(pair.to)]);
    for (const Rails& rails : leaves_->rails)
      routes_.between_leaves(rails.leaf_of[from], rails.leaf_of[to],
                             [&](int link) { load(link, pair.bytes * rails.share); });
  }
  unload(efficient, [&](int, double seconds) { most = std::max(most, seconds); });
  return most * term.weight;
}

std::string PlaceModel::label_of(int link) const {
  if (link < 0) return "";
  return label(routes_.source(link)) + " -> " + label(routes_.target(link));
}

std::int64_t PlaceModel::work() const {
  std::size_t pairs = 0;
  for (const PlaceTerm& term : terms_) pairs += term.pairs.size();
  return static_cast<std::int64_t>(pairs) * (4 * cluster_.node.nics + 1) + 1;
}

// Traffic between two nodes uses all rails equally.
const PlaceModel::CrossedLinks& PlaceModel::way(int from, int to) {
  CrossedLinks& known = ways_[std::int64_t{from} * cluster_.nodes + to];
  if (!known.empty()) return known;
  std::map<int, double> shares;
  const std::vector<int>& out = working_[static_cast<std::size_t>(from)];
  const std::vector<int>& in = working_[static_cast<std::size_t>(to)];
  const std::size_t rails = std::max(out.size(), in.size());
  for (std::size_t rail = 0; rail < rails; ++rail) {
    topology::Path path;
    const int there = in[rail % in.size()];
    // If rails do not meet, the sender uses the NIC of the receiver's rail.
    const int here = routes_.rails_meet() ? out[rail % out.size()] : there;
    routes_.between_nics(from * cluster_.node.nics + here, to * cluster_.node.nics + there, path);
    for (const int link : path.links) shares[link] += 1.0 / static_cast<double>(rails);
  }
  for (const auto& [link, share] : shares) known.push_back({link, share});
  return known;
}

// std::nullopt if pairs of nodes have private links, if each pair of NICs draws its spine, or if
// nodes use different NICs.
std::optional<PlaceModel::Leaves> PlaceModel::leaves_of_nodes() const {
  const std::vector<int>& nics = working_.front();
  const auto unlike = [&](const auto& other) { return other != nics; };
  if (!cluster_.rates.empty() || routes_.draws_spines() || std::ranges::any_of(working_, unlike))
    return std::nullopt;
  Leaves out;
  out.slowest_up.resize(working_.size(), 0);
  out.slowest_down.resize(working_.size(), 0);
  std::map<std::vector<int>, double> shares;  // share of rails by the leaves of all nodes
  const double one = 1.0 / static_cast<double>(nics.size());
  for (auto nic = nics.begin(); nic != nics.end();) {
    const auto next = std::upper_bound(nic, nics.end(), *nic);
    const double share = one * static_cast<double>(next - nic);
    std::vector<int> leaf_of;
    for (std::size_t node = 0; node < working_.size(); ++node) {
      const topology::Routes::NicLinks at =
          routes_.links_of_nic(static_cast<int>(node) * cluster_.node.nics + *nic);
      leaf_of.push_back(at.leaf);
      out.slowest_up[node] = std::max(out.slowest_up[node], share / capacity(at.up, 1));
      out.slowest_down[node] = std::max(out.slowest_down[node], share / capacity(at.down, 1));
    }
    shares[std::move(leaf_of)] += share;
    nic = next;
  }
  for (auto& [leaf_of, share] : shares) out.rails.push_back({share, leaf_of});
  return out;
}

}  // namespace sim::study
