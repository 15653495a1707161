#include "sim/input/tables/router_load.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "sim/input/text/textproto.h"

namespace sim::input {

namespace {

constexpr std::int64_t most_bytes = 64 << 20;
constexpr double slack = 1e-3;

// Appends the numbers of a line. Returns the problem of a word that is no share, or "".
std::string numbers(std::string_view line, std::vector<double>& into) {
  line = line.substr(0, line.find('#'));
  const auto between = [](char c) { return c == ',' || c == ' ' || c == '\t' || c == '\r'; };
  for (std::size_t at = 0; at < line.size();) {
    if (between(line[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < line.size() && !between(line[end])) ++end;
    const std::string word(line.substr(at, end - at));
    char* stop = nullptr;
    const double share = std::strtod(word.c_str(), &stop);
    if (*stop != '\0' || !std::isfinite(share) || share < 0)
      return fmt::format("'{}' is no share; write a number of 0 or more", word.substr(0, 40));
    into.push_back(share);
    at = end;
  }
  return "";
}

}  // namespace

Parsed<std::vector<std::vector<double>>> read_router_load(const std::string& path,
                                                          const model::Architecture& a) {
  const Result<std::string> text = read_file(path, most_bytes);
  if (!text) return fmt::format("{}: {}", path, text.errors().front().message);
  std::vector<std::vector<double>> rows;
  std::size_t line = 0;
  for (std::size_t at = 0; at < text->size(); ++line) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    std::vector<double> row;
    const auto wrong = [&](const std::string& what) {
      return fmt::format("{}:{}: {}", path, line + 1, what);
    };
    if (const std::string what = numbers(std::string_view(*text).substr(at, end - at), row);
        !what.empty())
      return wrong(what);
    at = end + 1;
    if (row.empty()) continue;
    if (static_cast<std::int64_t>(row.size()) != a.experts.count)
      return wrong(
          fmt::format("{} shares; {} has {} experts", row.size(), a.name, a.experts.count));
    double sum = 0;
    for (const double share : row) sum += share;
    if (std::abs(sum - 1) > slack)
      return wrong(fmt::format("the shares sum to {:.6g}; they must sum to 1", sum));
    for (double& share : row) share /= sum;
    rows.push_back(std::move(row));
  }
  const std::int64_t layers = model::mixture_count(a);
  if (rows.size() != 1 && static_cast<std::int64_t>(rows.size()) != layers)
    return fmt::format(
        "{}: {} lines of shares; write one for all layers, or one for each of the {} "
        "layers with experts",
        path, rows.size(), layers);
  return rows;
}

}  // namespace sim::input
