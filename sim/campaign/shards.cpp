#include "sim/campaign/shards.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "sim/config/textproto.h"
#include "sim/report/json.h"

namespace sim::campaign {
namespace {

using report::Json;

std::string words(const Lifetime& life) {
  return fmt::format("{} {} {} {} {};", life.law != nullptr ? life.law->name : "never", life.mean,
                     life.shape, life.early, life.burn_in);
}

// Everything that an outcome depends on, as a number (FNV-1a).
std::uint64_t fingerprint(const Spec& spec) {
  std::string text = fmt::format("{} {};", spec.nodes, spec.length.ns);
  for (const FailureKind& k : spec.kinds)
    text += words(k.life) + words(k.repair) + words(k.found) +
            fmt::format("{} {} {} {} {} {} {};", k.name, k.parts, static_cast<int>(k.takes),
                        k.group, k.detection.ns, k.straggler, k.at_save);
  for (const TracedFailure& t : spec.trace)
    text += fmt::format("{} {} {} {};", t.when.ns, t.kind, t.node, t.repair.ns);
  for (const Tier& t : spec.tiers)
    text += fmt::format("{} {} {} {} {};", t.interval.ns, t.blocking.ns, t.background.ns, t.load.ns,
                        t.survives);
  for (const PoolChange& p : spec.pools)
    text += fmt::format("{} {} {};", p.when.ns, p.notice.ns, p.nodes);
  for (const Phase& phase : spec.phases) {
    text += fmt::format("{} {};", phase.steps, phase.seamless);
    for (const std::vector<Shape>& shapes : phase.shapes) {
      text += "pool;";
      for (const Shape& s : shapes) {
        text +=
            fmt::format("{} {} {} {} {};", s.nodes, s.step.ns, s.tokens, s.restart.ns, s.change.ns);
        for (const Span slowed : s.slowed) text += fmt::format("{},", slowed.ns);
      }
    }
  }
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// The numbers of an outcome in a fixed order; the same list reads and writes them.
template <class Visit>
void each_number(Outcome& o, Visit visit) {
  for (std::int64_t* number :
       {&o.wall.ns, &o.kept.steps, &o.kept.tokens, &o.kept.wall.ns, &o.kept.ideal.ns, &o.saving.ns,
        &o.lost.ns, &o.detecting.ns, &o.waiting.ns, &o.restarting.ns, &o.interruptions, &o.saves,
        &o.changes, &o.spares_least, &o.finished})
    visit(*number);
  for (CauseOutcome& cause : o.causes)
    for (std::int64_t* number :
         {&cause.events, &cause.interruptions, &cause.lost.ns, &cause.down.ns})
      visit(*number);
}

Diagnostics refused(const std::string& path, std::size_t line, std::string rule) {
  return {{fmt::format("{}:{}", path, line), std::move(rule)}};
}

std::optional<Json> parsed(const std::string& line) {
  Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return std::nullopt;
  return json;
}

bool read(const Json& json, std::size_t causes, Outcome& outcome) {
  outcome.causes.resize(causes);
  if (!json.contains("seed") || !json["seed"].is_number_unsigned()) return false;
  if (!json.contains("outcome") || !json["outcome"].is_array()) return false;
  const Json& numbers = json["outcome"];
  if (numbers.size() != 15 + 4 * causes) return false;
  for (const Json& number : numbers)
    if (!number.is_number_integer()) return false;
  std::size_t at = 0;
  each_number(outcome, [&](std::int64_t& number) { number = numbers[at++].get<std::int64_t>(); });
  return true;
}

}  // namespace

SeedRange shard(SeedRange all, int number, int of) {
  const auto from = [&](int n) { return static_cast<int>(std::int64_t{all.count} * n / of); };
  return {all.first + static_cast<std::uint64_t>(from(number - 1)),
          from(number) - from(number - 1)};
}

std::string lines_of(const Spec& spec, SeedRange seeds, const std::vector<Outcome>& outcomes) {
  std::string text = report::line({{"campaign", fmt::format("{:016x}", fingerprint(spec))}}) + "\n";
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    Outcome outcome = outcomes[i];
    Json numbers = Json::array();
    each_number(outcome, [&](std::int64_t& number) { numbers.push_back(number); });
    text += report::line({{"seed", seeds.first + i}, {"outcome", numbers}}) + "\n";
  }
  return text;
}

Result<std::vector<Outcome>> merged(const Spec& spec, SeedRange all,
                                    const std::vector<std::string>& paths) {
  std::vector<std::optional<Outcome>> found(static_cast<std::size_t>(all.count));
  const std::string name = fmt::format("{:016x}", fingerprint(spec));
  for (const std::string& path : paths) {
    const Result<std::string> text = config::read_file(path, std::int64_t{1} << 30);
    if (!text) return text.errors();
    std::istringstream lines(*text);
    std::size_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      const std::optional<Json> json = parsed(line);
      if (++number == 1) {
        if (!json || !json->contains("campaign") || (*json)["campaign"] != name)
          return refused(path, 1, "these outcomes are of another campaign, or of other settings");
        continue;
      }
      Outcome outcome;
      if (!json || !read(*json, spec.kinds.size(), outcome))
        return refused(path, number, "this is no outcome of a seed");
      const std::uint64_t seed = (*json)["seed"].get<std::uint64_t>();
      if (seed < all.first || seed - all.first >= found.size())
        return refused(path, number, fmt::format("seed {} is none of this campaign's", seed));
      std::optional<Outcome>& place = found[static_cast<std::size_t>(seed - all.first)];
      if (place) return refused(path, number, fmt::format("seed {} is there twice", seed));
      place = outcome;
    }
  }
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i])
      return Diagnostics{{fmt::format("{}", fmt::join(paths, ", ")),
                          fmt::format("seed {} is in none of the files", all.first + i)}};
    outcomes.push_back(*found[i]);
  }
  return outcomes;
}

}  // namespace sim::campaign
