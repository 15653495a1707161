#include "sim/input/resolve/plan_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "sim/input/tables/codec.h"
#include "sim/program/plan/layer_choices.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;
using Problems = Diagnostics;

constexpr std::int64_t most_slices = 4096;
constexpr std::int64_t most_replicas = 1 << 20, most_microbatches = 1 << 24;

// The word as a whole number; 0 if it is none.
std::int64_t number(std::string_view word) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  return error == std::errc{} && end == word.data() + word.size() ? n : 0;
}

// Takes the word up to the next comma. `more`: true if there was a comma.
std::string_view take_word(std::string_view& rest, bool& more) {
  const std::size_t comma = rest.find(',');
  more = comma != rest.npos;
  const std::string_view word = rest.substr(0, comma);
  rest = more ? rest.substr(comma + 1) : "";
  return word;
}

// One number is a count of even slices. Several numbers are the tokens of each slice.
void slices(const v1::Plan& from, program::Plan& to, Problems& problems) {
  if (!from.has_slices()) return;
  program::PipelinePlan& pipeline = to.pipeline;
  std::string_view rest = from.slices();
  if (rest == "balanced") {
    pipeline.balances_slices = true;
    return;
  }
  std::vector<std::int64_t> numbers;
  for (bool more = true; more;) {
    const std::string_view word = take_word(rest, more);
    const std::int64_t n = number(word);
    const bool counts = !more && numbers.empty();
    if (n < 1 || numbers.size() == most_slices || n > (counts ? most_slices : from.sequence()))
      return problems.push_back(
          {"slices", fmt::format("'{}' is neither a number of slices (1 to {}) nor tokens of one; "
                                 "write balanced, 4, or 512,512,1024",
                                 word.substr(0, 40), most_slices)});
    numbers.push_back(n);
  }
  if (numbers.size() != 1) {
    pipeline.slice_lengths = std::move(numbers);
    return;
  }
  const std::int64_t count = numbers.front();
  if (from.sequence() % count != 0)
    return problems.push_back(
        {"slices", fmt::format("{} tokens do not split into {} slices; write another number, or "
                               "the tokens of each",
                               from.sequence(), count)});
  pipeline.slice_lengths.assign(static_cast<std::size_t>(count), from.sequence() / count);
}

// "12,12,4" or "2x12,4": one number for each replica.
void replica_microbatches(const v1::Plan& from, program::Plan& to, Problems& problems) {
  if (!from.has_replica_microbatches()) return;
  std::string_view rest = from.replica_microbatches();
  if (rest == "balanced") {
    to.batch.balances_microbatches = true;
    return;
  }
  std::vector<int>& counts = to.batch.replica_microbatches;
  for (bool more = true; more;) {
    const std::string_view word = take_word(rest, more);
    const std::size_t x = word.find('x');
    const std::int64_t replicas = x == word.npos ? 1 : number(word.substr(0, x));
    const std::int64_t count = number(x == word.npos ? word : word.substr(x + 1));
    if (count < 1 || count > most_microbatches || replicas < 1 ||
        replicas > most_replicas - std::ssize(counts)) {
      counts.clear();
      return problems.push_back(
          {"replica_microbatches",
           fmt::format("'{}' is no number of microbatches of a replica; write balanced, 12,12,4, "
                       "or 2x12,4",
                       word.substr(0, 40))});
    }
    counts.insert(counts.end(), static_cast<std::size_t>(replicas), static_cast<int>(count));
  }
}

void layer_choices(const v1::Plan& from, program::Plan& to, Problems& problems) {
  if (!from.has_layer_choices()) return;
  if (from.layer_choices() == "planned") {
    to.policy.plans_choices = true;
    return;
  }
  program::LayerChoices read = program::read_layer_choices(from.layer_choices());
  if (!read.problem.empty()) problems.push_back({"layer_choices", read.problem + "; or planned"});
  to.policy.choices = std::move(read.choices);
}

// `none` and a missing name are the same: no codec.
void codec(const char* field, std::string& name, std::optional<collective::Codec>& to,
           Problems& problems) {
  if (name == "none") name.clear();
  if (name.empty()) return;
  Result<collective::Codec> found = load_codec(name);
  if (found) {
    to = std::move(*found);
    return;
  }
  for (const Diagnostic& problem : found.errors())
    problems.push_back({field, problem.where.empty()
                                   ? problem.message
                                   : fmt::format("{}: {}", problem.where, problem.message)});
}

}  // namespace

void read_lists(const v1::Plan& from, program::Plan& to, Problems& problems) {
  slices(from, to, problems);
  replica_microbatches(from, to, problems);
  layer_choices(from, to, problems);
  codec("codec", to.codec.tensor, to.codec.found.tensor, problems);
  codec("codec", to.codec.data, to.codec.found.data, problems);
  codec("codec", to.codec.pipeline, to.codec.found.pipeline, problems);
  // The field `parameters` distinguishes `none` from a missing name. A missing name takes the codec
  // of `data`.
  std::string parameters = to.codec.parameters;
  codec("codec", parameters, to.codec.found.parameters, problems);
  if (to.codec.parameters.empty()) to.codec.found.parameters = to.codec.found.data;
}

}  // namespace sim::input
