#include "sim/engine/fast/peers.h"

#include "sim/engine/rank/job_view.h"

namespace sim::engine {

Peers::Peers(const program::Job& job) : job_(job), classes_(static_cast<int>(job.classes.size())) {
  for (const program::Program& program : job.classes) {
    channels_of_.emplace_back(program.exchanges.size());
    others_of_.emplace_back(program.exchanges.size());
  }
  meeting_of_.resize(job.classes.size());
  std::map<std::pair<std::size_t, int>, int> known;  // (stream, first member) -> index
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    meeting_of_[c].fill(-1);
    for (const program::Transfer& transfer : job.classes[c].transfers) {
      const auto s = static_cast<std::size_t>(transfer.communicator);
      const std::vector<int>& who =
          job.mesh.members(communicator_of(transfer.communicator), static_cast<int>(c));
      if (who.size() < 2) continue;
      const auto [it, added] =
          known.emplace(std::pair{s, who.front()}, static_cast<int>(meetings_.size()));
      if (added) meetings_.push_back({who, {}, 0});
      meeting_of_[c][s] = it->second;
    }
  }
}

const std::vector<Channel*>& Peers::channels_of(int c, std::uint32_t exchange) {
  std::vector<Channel*>& all = channels_of_[static_cast<std::size_t>(c)][exchange];
  if (!all.empty()) return all;
  for (const program::Message& message :
       job_.classes[static_cast<std::size_t>(c)].exchanges[exchange].messages) {
    const int other = job_.mesh.peer(c, message.peer_offset);
    all.push_back(message.send ? &channel(c, other, message.channel)
                               : &channel(other, c, message.channel));
    others_of_[static_cast<std::size_t>(c)][exchange].push_back(static_cast<std::uint32_t>(other));
  }
  return all;
}

void Peers::save(Time origin, std::vector<std::int64_t>& out) const {
  for (const auto& [key, ch] : channels_) {
    const std::int64_t open = std::min(ch.sends_done, ch.receives_done) - ch.base;
    for (const std::vector<Time>* posts : {&ch.sends, &ch.receives}) {
      out.push_back(static_cast<std::int64_t>(posts->size()) - open);
      for (std::size_t i = static_cast<std::size_t>(open); i < posts->size(); ++i)
        out.push_back((*posts)[i].ps - origin.ps);
    }
    out.push_back(ch.sends_done - ch.receives_done);
  }
  for (const Meetings& m : meetings_)
    for (const Meetings::Meeting& open : m.open) {
      out.push_back(open.posted);
      out.push_back(open.latest.ps - origin.ps);
    }
}

void Peers::shift(Duration by) {
  for (Meetings& m : meetings_)
    for (Meetings::Meeting& open : m.open) open.latest = open.latest + by;
  for (auto& [key, ch] : channels_) {
    for (Time& t : ch.sends) t = t + by;
    for (Time& t : ch.receives) t = t + by;
  }
}

}  // namespace sim::engine
