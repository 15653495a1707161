#include "sim/answer/run_cost.h"

#include <fmt/format.h>

#include "sim/base/plain_number.h"
#include "sim/base/text.h"

namespace sim::answer {

RunCost run_cost(const CostBasis& basis, double tokens_s_gpu, int gpus) {
  const double gpu_hours_per_token = 1 / tokens_s_gpu / 3600;
  RunCost all;
  all.per_million_tokens = basis.price_per_gpu_hour * gpu_hours_per_token * 1e6;
  all.kwh_per_million_tokens = basis.power_w * gpu_hours_per_token * 1e6 / 1e3;
  all.days = basis.tokens / tokens_s_gpu / gpus / 86400;
  all.cost = all.per_million_tokens * basis.tokens / 1e6;
  all.mwh = all.kwh_per_million_tokens * basis.tokens / 1e6 / 1e3;
  return all;
}

RateRange rate_range(double tokens_s_gpu, double step, double low, double high) {
  const double tokens = tokens_s_gpu * step;
  return {tokens / high, tokens / low};
}

std::string cost_text(const CostBasis& basis, double tokens_s_gpu, int gpus, RateRange range) {
  const RunCost all = run_cost(basis, tokens_s_gpu, gpus);
  // " (37.2-77.1)": a value of the whole run at the range's rates.
  const auto between = [&](double RunCost::*value) {
    if (range.low <= 0) return std::string();
    return fmt::format(" ({}-{})", plain_number(run_cost(basis, range.high, gpus).*value),
                       plain_number(run_cost(basis, range.low, gpus).*value));
  };
  std::string text;
  if (basis.price_per_gpu_hour > 0)
    text += fmt::format("cost: {} per million tokens, at {} per GPU and hour\n",
                        plain_number(all.per_million_tokens), shortest(basis.price_per_gpu_hour));
  if (basis.power_w > 0)
    text += fmt::format(
        "energy: {} kWh per million tokens: boards at {} W, without CPUs, switches and "
        "cooling (PUE)\n",
        plain_number(all.kwh_per_million_tokens), shortest(basis.power_w));
  if (basis.tokens > 0) {
    text += fmt::format("{} tokens: {}{} days on {}", plain_number(basis.tokens),
                        plain_number(all.days), between(&RunCost::days), counted(gpus, "GPU"));
    if (basis.price_per_gpu_hour > 0)
      text += fmt::format(", cost {}{}", plain_number(all.cost), between(&RunCost::cost));
    if (basis.power_w > 0)
      text += fmt::format(", {}{} MWh", plain_number(all.mwh), between(&RunCost::mwh));
    text += fmt::format("; no failures are counted (`campaign`){}\n",
                        range.low > 0 ? "; in brackets: the 90 % interval" : "");
  }
  return text;
}

}  // namespace sim::answer
