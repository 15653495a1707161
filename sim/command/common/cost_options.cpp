#include "sim/command/common/cost_options.h"

#include <fmt/format.h>

#include <cstdlib>

#include "sim/base/quantity.h"
#include "sim/base/split.h"

namespace sim::command {

namespace {

double price_of(const std::string& text) {
  char* end = nullptr;
  const double price = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || !(price > 0) || price > 1e6)
    throw Stop{exit_usage,
               fmt::format("--price: '{}' is not a price per GPU and hour; write for example "
                           "--price 2.5, or --price dgx-h100=2.5,gb200-nvl72=4",
                           text)};
  return price;
}

}  // namespace

double Prices::of(const std::string& name) const {
  const auto found = named.find(name);
  return found == named.end() ? each : found->second;
}

Prices prices_of(const Options& options) {
  Prices prices;
  if (!options.has("price")) return prices;
  for (const std::string& one : split(options.text("price"))) {
    // The name of a variant has "=" itself: "cluster=dgx-h100".
    const std::size_t equals = one.rfind('=');
    if (equals == std::string::npos)
      prices.each = price_of(one);
    else
      prices.named[one.substr(0, equals)] = price_of(one.substr(equals + 1));
  }
  return prices;
}

void declare_price(Options& options) {
  options.value("price", "NUMBER", "what a GPU costs per hour (default: the cluster's price)");
}

void declare_prices(Options& options) {
  options.value("price", "NUMBER",
                "what a GPU costs per hour (default: the cluster's price); NAME=NUMBER[,...]: of "
                "each cluster");
}

void declare_tokens(Options& options) {
  options.value("tokens", "NUMBER",
                "of the whole training, such as 15T, 300B or 2e12: its days, and its cost and "
                "energy where the price and the power of the boards are known");
}

double positive(const Options& options, const char* name, double most) {
  if (!options.has(name)) return 0;
  const std::string text = options.text(name);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || !(value > 0) || value > most)
    throw Stop{exit_usage,
               fmt::format("--{}: '{}' is not a number above 0, at most {:g}", name, text, most)};
  return value;
}

double count(const Options& options, const char* name, double most) {
  if (!options.has(name)) return 0;
  const Parsed<double> value = parse_count(options.text(name));
  if (const auto* problem = std::get_if<std::string>(&value))
    throw Stop{exit_usage, fmt::format("--{}: {}", name, *problem)};
  if (std::get<double>(value) > most)
    throw Stop{exit_usage, fmt::format("--{}: '{}' is above the limit of {:g}", name,
                                       options.text(name), most)};
  return std::get<double>(value);
}

double tokens_of(const Options& options) {
  return count(options, "tokens", 1e18);
}

answer::CostBasis cost_basis(const Options& options, double cluster_price, double power_w) {
  const double said = positive(options, "price", 1e6);
  return {said > 0 ? said : cluster_price, power_w, tokens_of(options)};
}

}  // namespace sim::command
