#include "sim/input/plan/whatif.h"

#include <fmt/format.h>

#include <set>

#include "sim/input/schema/whatif.pb.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;

Diagnostics too_many(std::size_t count) {
  return {
      {"", fmt::format("more than {} variants ({}); vary fewer settings", max_variants, count)}};
}

}  // namespace

Result<Vary> parse_vary(const std::string& text) {
  const std::string where = fmt::format("command line, {}", text.substr(0, 80));
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return Diagnostics{{where,
                        "a setting to vary is key=value,value...; write for example "
                        "fabric.oversubscription=1,2,4"}};
  Vary vary{text.substr(0, equals), {""}};
  int depth = 0;
  bool quoted = false;
  for (const char c : text.substr(equals + 1)) {
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '{' || c == '[')) ++depth;
    if (!quoted && (c == '}' || c == ']')) --depth;
    if (c == ',' && depth == 0 && !quoted) {
      vary.values.emplace_back();
    } else {
      vary.values.back() += c;
    }
  }
  for (std::string& value : vary.values) {
    // A quoted value may contain commas; remove its quotes.
    if (value.size() > 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    if (value.empty())
      return Diagnostics{{where, fmt::format("'{}' has an empty value", vary.key.substr(0, 80))}};
  }
  return vary;
}

Result<Variant> parse_variant(const std::string& text) {
  Variant variant{"", {""}};
  int depth = 0;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (!quoted) depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (c != ' ' || depth != 0 || quoted)
      variant.settings.back() += c;
    else if (!variant.settings.back().empty())
      variant.settings.emplace_back();
  }
  if (variant.settings.back().empty()) variant.settings.pop_back();
  for (const std::string& setting : variant.settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == setting.size())
      return Diagnostics{{fmt::format("command line, {}", text.substr(0, 80)),
                          fmt::format("'{}' is not a setting; a variant is key=value key=value",
                                      setting.substr(0, 80))}};
    variant.name += (variant.name.empty() ? "" : " ") + setting;
  }
  if (variant.settings.empty())
    return Diagnostics{
        {"command line, --variant", "a variant is key=value key=value; it is empty"}};
  return variant;
}

Result<std::vector<Variant>> combinations(const std::vector<Vary>& varies) {
  std::size_t count = varies.empty() ? 0 : 1;
  for (const Vary& vary : varies) {
    count *= vary.values.size();
    if (count > max_variants) return too_many(count);
  }
  std::vector<Variant> all;
  for (std::size_t i = 0; i < count; ++i) {
    Variant& variant = all.emplace_back();
    std::size_t rest = i, below = count;
    for (const Vary& vary : varies) {
      below /= vary.values.size();
      variant.settings.push_back(vary.key + "=" + vary.values[rest / below]);
      rest %= below;
      variant.name += (variant.name.empty() ? "" : " ") + variant.settings.back();
    }
  }
  return all;
}

Result<WhatifFile> load_whatif(const std::string& path) {
  v1::Whatif from;
  Source source(path);
  Diagnostics problems = load(source, from);
  if (!problems.empty()) return problems;
  WhatifFile file;
  file.plan = from.plan();
  file.settings = {from.set().begin(), from.set().end()};
  for (const v1::Variant& variant : from.variant())
    file.variants.push_back({variant.name(), {variant.set().begin(), variant.set().end()}});
  std::vector<Vary> varies;
  for (const v1::VaryOne& vary : from.vary())
    varies.push_back({vary.key(), {vary.value().begin(), vary.value().end()}});
  const Result<std::vector<Variant>> more = combinations(varies);
  if (!more) {
    problems = more.errors();
    problems.front().where = source.where(from, "vary");
    return problems;
  }
  file.variants.insert(file.variants.end(), more->begin(), more->end());
  std::set<std::string> names;
  for (const Variant& variant : file.variants) {
    if (!names.insert(variant.name).second)
      problems.push_back({path, fmt::format("two variants are named '{}'", variant.name)});
  }
  if (file.variants.size() > max_variants) problems = too_many(file.variants.size());
  if (!problems.empty()) return problems;
  return file;
}

}  // namespace sim::input
