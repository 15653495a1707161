#include "sim/search/link_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/replay/job_groups.h"

namespace sim::search {
namespace {

using topology::Dimension;
using workload::Op;
using workload::Stream;

// How often each collective and exchange of a program runs in a step.
struct Counts {
  std::vector<std::int64_t> transfers, exchanges;
};

Counts counts_of(const workload::Program& program) {
  Counts all{std::vector<std::int64_t>(program.transfers.size(), 0),
             std::vector<std::int64_t>(program.exchanges.size(), 0)};
  std::vector<std::int64_t> runs(program.templates.size(), 0);
  for (const workload::Pass& pass : program.step) ++runs[pass.pattern];
  for (std::size_t t = 0; t < program.templates.size(); ++t) {
    if (runs[t] == 0) continue;
    for (const workload::Call& call : program.templates[t].calls) {
      for (const workload::Instruction& i : program.blocks[call.block].code) {
        if (i.op == Op::collective) all.transfers[i.index] += runs[t];
        if (i.op == Op::exchange) all.exchanges[i.index] += runs[t];
      }
    }
  }
  return all;
}

class Tally {
 public:
  Tally(const workload::Job& job, Site& site)
      : job_(job), network_(*site.network), groups_(job), routes_(cover(site)) {}

  void add(const workload::Program& program) {
    const Counts counts = counts_of(program);
    for (std::size_t t = 0; t < counts.transfers.size(); ++t) {
      const workload::Transfer& transfer = program.transfers[t];
      if (counts.transfers[t] == 0 || !counts_here(transfer.communicator, program)) continue;
      put(transfer.communicator, transfer.kind, of_class(transfer.communicator, program),
          transfer.bytes, counts.transfers[t]);
    }
    for (std::size_t e = 0; e < counts.exchanges.size(); ++e) {
      for (const workload::Message& message : program.exchanges[e].messages) {
        if (counts.exchanges[e] == 0 || !message.send) continue;
        const int other = (program.stage + message.peer_offset + job_.pp) % job_.pp;
        network::Groups pairs;
        for (const std::vector<int>& pair : groups_.pairs(program.stage, other).ranks) {
          if (groups_.place(pair.front(), Dimension::cp) == program.cp_rank)
            pairs.ranks.push_back(pair);
        }
        put(Stream::pp, collective::Kind::send_receive, pairs, message.bytes, counts.exchanges[e]);
      }
    }
  }

  std::vector<LinkUse> result(Duration step) const {
    std::vector<LinkUse> all;
    for (const auto& [link, use] : uses_) {
      all.push_back(use);
      all.back().busy /= std::max(seconds(step), 1e-12);
    }
    return all;
  }

 private:
  const topology::Routes& cover(Site& site) const {
    const topology::Cluster& cluster = site.machine.cluster;
    const int world = job_.tp * job_.cp * job_.dp * job_.pp;
    return network_.cover(std::min(cluster.nodes, (world - 1) / cluster.node.gpus + 1));
  }

  // Communicators over several classes are counted with the first of them.
  static bool counts_here(Stream s, const workload::Program& program) {
    if (s == Stream::world || s == Stream::embedding)
      return program.stage == 0 && program.cp_rank == 0;
    if (s == Stream::tp || s == Stream::dp) return true;
    return program.cp_rank == 0;
  }

  network::Groups of_class(Stream s, const workload::Program& program) {
    const network::Groups& all = groups_.of(s);
    if (s == Stream::world || s == Stream::embedding) return all;
    network::Groups mine;
    for (const std::vector<int>& ranks : all.ranks) {
      if (groups_.place(ranks.front(), Dimension::pp) != program.stage) continue;
      const bool own = groups_.place(ranks.front(), Dimension::cp) == program.cp_rank;
      if (own || (s != Stream::tp && s != Stream::dp)) mine.ranks.push_back(ranks);
    }
    return mine;
  }

  void put(Stream s, collective::Kind kind, const network::Groups& groups, Bytes bytes,
           std::int64_t times) {
    const std::string who(name(s));
    for (const network::LinkLoad& load : network_.loads(kind, groups, bytes)) {
      LinkUse& use = uses_[load.link];
      use.link = load.link;
      use.bytes += load.bytes * static_cast<double>(times);
      use.busy += load.busy_seconds * static_cast<double>(times);
      use.bytes_of[who] += load.bytes * static_cast<double>(times);
    }
  }

  const workload::Job& job_;
  network::Network& network_;
  replay::JobGroups groups_;
  const topology::Routes& routes_;
  std::map<int, LinkUse> uses_;
};

std::string kind_name(const topology::Routes& routes, int link) {
  constexpr std::array<std::string_view, 8> names = {"GPU", "NVSwitch", "PCIe switch", "host",
                                                     "NIC", "leaf",     "spine",       "core"};
  const auto of = [&](const topology::Vertex& v) {
    return names[static_cast<std::size_t>(v.kind)];
  };
  topology::Vertex a = routes.source(link), b = routes.target(link);
  if (b.kind < a.kind) std::swap(a, b);  // both directions are one kind
  return fmt::format("{} - {}", of(a), of(b));
}

}  // namespace

std::vector<LinkUse> link_use(const workload::Plan& plan, Site& site, Duration step) {
  const workload::Job job = job_of(plan, site);
  Tally tally(job, site);
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    // Replicas do the same; their groups are counted once.
    if (job.coordinates(static_cast<int>(c)).dp_rank == 0) tally.add(job.classes[c]);
  }
  return tally.result(step);
}

std::vector<LinkKindUse> by_kind(const std::vector<LinkUse>& uses, const topology::Routes& routes) {
  std::map<std::string, std::pair<LinkKindUse, const LinkUse*>> kinds;
  for (const LinkUse& use : uses) {
    auto& [kind, most] = kinds[kind_name(routes, use.link)];
    ++kind.links;
    kind.mean += use.busy;
    if (most == nullptr || use.busy > most->busy) most = &use;
  }
  std::vector<LinkKindUse> all;
  for (auto& [key, entry] : kinds) {
    auto& [kind, most] = entry;
    kind.kind = key;
    kind.mean /= kind.links;
    kind.busy = most->busy;
    kind.fabric = routes.link(most->link).kind == topology::LinkKind::network;
    kind.busiest = label(routes.source(most->link)) + " -> " + label(routes.target(most->link));
    std::vector<std::pair<double, std::string>> shares;
    for (const auto& [who, bytes] : most->bytes_of) shares.emplace_back(bytes / most->bytes, who);
    std::ranges::stable_sort(shares, [](auto& a, auto& b) { return a.first > b.first; });
    for (const auto& [share, who] : shares) {
      if (share < 0.005) continue;
      kind.traffic +=
          fmt::format("{}{} {:.0f} %", kind.traffic.empty() ? "" : ", ", who, 100 * share);
    }
    all.push_back(kind);
  }
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.busy > b.busy; });
  return all;
}

}  // namespace sim::search
