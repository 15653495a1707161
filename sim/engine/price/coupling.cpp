#include "sim/engine/price/coupling.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/engine/rank/queues.h"

namespace sim::engine {
namespace {

class Coupler {
 public:
  Coupler(const program::Job& job, network::Network& network)
      : mesh_(job.mesh), codecs_(job.codecs), network_(network) {
    const int gpus = network.cluster().node.gpus;
    network.cover(std::min(network.cluster().nodes, topology::nodes_of(mesh_.world(), gpus)));
  }

  std::size_t transfer(int rank_class, const program::Transfer& t) {
    const network::Groups groups = mesh_.groups_of(communicator_of(t.communicator), rank_class);
    return kind(t.kind, groups,
                on_wire(t.communicator, t.kind, sent(t, groups, network_.cluster())));
  }

  std::size_t message(int rank_class, program::Stream queue, const program::Message& m) {
    const int own = mesh_.coordinates(rank_class).stage;
    const int other = mesh_.stage_at(own, m.peer_offset);
    const network::Groups pairs =
        m.send ? mesh_.pairs_of(rank_class, own, other) : mesh_.pairs_of(rank_class, other, own);
    constexpr auto sends = collective::Kind::send_receive;
    return kind(sends, pairs, on_wire(queue, sends, m.bytes));
  }

  std::vector<network::SharedKind> take() { return std::move(kinds_); }

 private:
  Bytes on_wire(program::Stream queue, collective::Kind kind, Bytes bytes) const {
    const collective::Codec* codec = codec_of(codecs_, queue, kind);
    return codec ? coded(*codec, bytes) : bytes;
  }

  std::size_t kind(collective::Kind kind, const network::Groups& groups, Bytes bytes) {
    const auto key =
        std::tuple{kind, static_cast<std::uint32_t>(network_.remember(groups)), bytes.n};
    const auto [entry, added] = numbers_.try_emplace(key, kinds_.size());
    if (!added) return entry->second;
    network::SharedKind& made = kinds_.emplace_back();
    made.flow_bytes = 0;
    for (const network::LinkLoad& load : network_.loads(kind, groups, bytes)) {
      made.uses.push_back({load.link, load.busy_seconds});
      made.flow_bytes = std::max(made.flow_bytes, load.bytes / std::max(1, load.flows));
    }
    return entry->second;
  }

  const mesh::Mesh& mesh_;
  const collective::Codecs& codecs_;
  network::Network& network_;
  std::vector<network::SharedKind> kinds_;
  std::map<std::tuple<collective::Kind, std::uint32_t, std::int64_t>, std::size_t> numbers_;
};

}  // namespace

Coupling couple(const program::Job& job, network::Network& network) {
  Coupler coupler(job, network);
  Coupling coupling;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const program::Program& program = job.classes[c];
    const int rank_class = static_cast<int>(c);
    auto& transfers = coupling.transfer.emplace_back();
    for (const program::Transfer& t : program.transfers) {
      transfers.push_back(coupler.transfer(rank_class, t));
    }
    auto& exchanges = coupling.message.emplace_back();
    for (const program::Exchange& e : program.exchanges) {
      auto& messages = exchanges.emplace_back();
      for (const program::Message& m : e.messages)
        messages.push_back(coupler.message(rank_class, e.communicator, m));
    }
  }
  coupling.kinds = coupler.take();
  return coupling;
}

}  // namespace sim::engine
