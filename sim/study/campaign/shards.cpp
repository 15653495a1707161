#include "sim/study/campaign/shards.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "sim/input/text/textproto.h"
#include "sim/output/json.h"
#include "sim/study/sweep/records.h"

namespace sim::campaign {
namespace {

using output::Json;

constexpr std::size_t most_problems = 20;

std::string words(const Lifetime& life) {
  return fmt::format("{} {} {} {} {};", life.law != nullptr ? life.law->name : "never", life.mean,
                     life.shape, life.early, life.burn_in);
}

// Hash (FNV-1a) of everything that an outcome depends on.
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
    for (const std::vector<JobShape>& shapes : phase.shapes) {
      text += "pool;";
      for (const JobShape& s : shapes) {
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

// Calls `visit` for each number of an outcome in a fixed order, for reading and for writing.
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

// Collects the outcomes in the files, and their problems.
class Merge {
 public:
  Merge(const Spec& spec, SeedRange all)
      : name_(fmt::format("{:016x}", fingerprint(spec))),
        causes_(spec.kinds.size()),
        first_(all.first),
        found_(static_cast<std::size_t>(all.count)) {}

  void read_shard(const std::string& path) {
    const Result<std::string> text = input::read_file(path, std::int64_t{1} << 30);
    if (!text) {
      problems_.insert(problems_.end(), text.errors().begin(), text.errors().end());
      return;
    }
    std::istringstream lines(*text);
    std::size_t number = 0;
    for (std::string line; problems_.size() <= most_problems && std::getline(lines, line);) {
      const std::string problem = ++number == 1 ? name_problem(line) : take(line);
      if (problem.empty()) continue;
      problems_.push_back({fmt::format("{}:{}", path, number), problem});
      if (number == 1) return;
    }
  }

  Result<std::vector<Outcome>> outcomes(const std::vector<std::string>& paths) {
    if (problems_.size() > most_problems)
      problems_.back().message = fmt::format("and more; these are the first {}", most_problems);
    std::vector<Outcome> outcomes;
    for (std::size_t i = 0; problems_.empty() && i < found_.size(); ++i) {
      if (found_[i])
        outcomes.push_back(*found_[i]);
      else
        problems_.push_back({fmt::format("{}", fmt::join(paths, ", ")),
                             fmt::format("seed {} is in none of the files", first_ + i)});
    }
    if (!problems_.empty()) return std::move(problems_);
    return outcomes;
  }

 private:
  static constexpr const char* changed =
      "is not as `campaign --shard` wrote it; make this shard anew";

  std::string name_problem(const std::string& line) const {
    const std::optional<Json> json = parsed(line);
    if (!json || !json->contains("campaign") || (*json)["campaign"] != name_)
      return "these outcomes are of another campaign, or of other settings";
    return study::is_sound(line) ? "" : changed;
  }

  std::string take(const std::string& line) {
    if (!study::is_sound(line)) return changed;
    const std::optional<Json> json = parsed(line);
    Outcome outcome;
    if (!json || !read(*json, causes_, outcome)) return "this is no outcome of a seed";
    const std::uint64_t seed = (*json)["seed"].get<std::uint64_t>();
    if (seed < first_ || seed - first_ >= found_.size())
      return fmt::format("seed {} is none of this campaign's", seed);
    std::optional<Outcome>& place = found_[static_cast<std::size_t>(seed - first_)];
    if (place) return fmt::format("seed {} is there twice", seed);
    place = outcome;
    return "";
  }

  std::string name_;
  std::size_t causes_;
  std::uint64_t first_;
  std::vector<std::optional<Outcome>> found_;
  Diagnostics problems_;
};

}  // namespace

SeedRange shard(SeedRange all, int number, int of) {
  const auto from = [&](int n) { return static_cast<int>(std::int64_t{all.count} * n / of); };
  return {all.first + static_cast<std::uint64_t>(from(number - 1)),
          from(number) - from(number - 1)};
}

std::string lines_of(const Spec& spec, SeedRange seeds, const std::vector<Outcome>& outcomes) {
  const auto line = [](const Json& json) { return study::sealed(output::line(json)) + "\n"; };
  std::string text = line({{"campaign", fmt::format("{:016x}", fingerprint(spec))}});
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    Outcome outcome = outcomes[i];
    Json numbers = Json::array();
    each_number(outcome, [&](std::int64_t& number) { numbers.push_back(number); });
    text += line({{"seed", seeds.first + i}, {"outcome", numbers}});
  }
  return text;
}

Result<std::vector<Outcome>> merged(const Spec& spec, SeedRange all,
                                    const std::vector<std::string>& paths) {
  Merge merge(spec, all);
  for (const std::string& path : paths) merge.read_shard(path);
  return merge.outcomes(paths);
}

}  // namespace sim::campaign
