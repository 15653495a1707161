#include "sim/cluster/network/query.h"

#include <algorithm>
#include <cmath>

#include "sim/base/text.h"
#include "sim/cluster/network/words.h"

namespace sim::network {
namespace {

bool positive(double value) {
  return std::isfinite(value) && value > 0;
}

}  // namespace

std::string text(const Query& query) {
  std::string out = "rehearse-network 1\nlinks " + std::to_string(query.capacities.size()) + "\n";
  for (const double capacity : query.capacities) out += shortest(capacity) + "\n";
  out += "flows " + std::to_string(query.flows.size()) + "\n";
  for (const Flow& flow : query.flows) {
    out += shortest(flow.bytes) + " " + std::to_string(flow.uses.size());
    std::vector<Use> ascending = flow.uses;
    std::ranges::sort(ascending);
    for (const Use& use : ascending) {
      out += " " + std::to_string(use.link) + " " + std::to_string(use.weight);
    }
    out += "\n";
  }
  return out;
}

Parsed<Query> parse_query(std::string_view text) {
  if (text.size() > query_text_limit) return "the query is longer than 256 MiB";
  Reader reader(text);
  Query query;
  if (!reader.word("rehearse-network 1") || !reader.word("links")) {
    return "not a query: the first line must be \"rehearse-network 1\" and the second \"links N\"";
  }
  const std::size_t links = reader.count();
  for (std::size_t i = 0; i < links && reader.good(); ++i) {
    query.capacities.push_back(reader.number<double>());
    if (!positive(query.capacities.back())) {
      return "link " + std::to_string(i) + ": the capacity must be a positive number";
    }
  }
  if (!reader.word("flows")) return "expected \"flows N\" after the links";
  const std::size_t flows = reader.count();
  for (std::size_t i = 0; i < flows && reader.good(); ++i) {
    const std::string where = "flow " + std::to_string(i) + ": ";
    Flow& flow = query.flows.emplace_back();
    flow.bytes = reader.number<double>();
    if (!positive(flow.bytes)) return where + "the bytes must be a positive number";
    const std::size_t uses = reader.count();
    if (uses == 0) return where + "uses no link";
    for (std::size_t k = 0; k < uses && reader.good(); ++k) {
      const Use use{reader.number<int>(), reader.number<int>()};
      if (use.link < 0 || static_cast<std::size_t>(use.link) >= links || use.weight < 1 ||
          (k > 0 && use.link <= flow.uses.back().link)) {
        return where + "links must ascend within the platform, with weights from 1";
      }
      flow.uses.push_back(use);
    }
  }
  if (!reader.at_end()) return "the query is cut short or goes on after its last flow";
  return query;
}

std::string text(const Finish& finish) {
  std::string out = "ok " + std::to_string(finish.size()) + "\n";
  for (const double seconds : finish) out += shortest(seconds) + "\n";
  return out;
}

Parsed<Finish> parse_finish(std::string_view text) {
  if (text.starts_with("error ")) return std::string(text.substr(6, 400));
  Reader reader(text);
  if (!reader.word("ok")) return "not an answer";
  Finish finish;
  const std::size_t count = reader.count();
  for (std::size_t i = 0; i < count && reader.good(); ++i) {
    finish.push_back(reader.number<double>());
    if (!positive(finish.back())) return "an answer that is not a positive time";
  }
  if (!reader.at_end()) return "the answer is cut short";
  return finish;
}

}  // namespace sim::network
