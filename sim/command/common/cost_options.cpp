#include "sim/command/common/cost_options.h"

#include <fmt/format.h>

#include <cstdlib>

namespace sim::command {

void declare_price(Options& options) {
  options.value("price", "NUMBER", "what a GPU costs per hour (default: the cluster's price)");
}

void declare_tokens(Options& options) {
  options.value("tokens", "NUMBER",
                "of the whole training, such as 1e12: its days, and its cost and energy where the "
                "price and gpu.power_w are known");
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

answer::CostBasis cost_basis(const Options& options, double cluster_price, double power_w) {
  const double said = positive(options, "price", 1e6);
  return {said > 0 ? said : cluster_price, power_w, positive(options, "tokens", 1e18)};
}

}  // namespace sim::command
