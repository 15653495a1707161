#include "sim/program/ir/routes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/random.h"

namespace sim::program {
namespace {

// Distinct seeds for these purposes, far apart.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  Random random(seed * 0x9e3779b97f4a7c15 + a);
  random = Random(random.next() + b);
  random = Random(random.next() + c);
  return random.next();
}

// The index of a layer among the layers with experts.
std::size_t place_of(const Plan& plan, int layer) {
  const std::vector<std::uint8_t> mixture = model::mixture_layers(plan.architecture);
  return static_cast<std::size_t>(std::count(mixture.begin(), mixture.begin() + layer, 1));
}

// Shares of the experts of a layer, in their order on the ranks.
std::vector<double> popularity(const Plan& plan, int layer) {
  const auto count = static_cast<std::size_t>(plan.architecture.experts.count);
  std::vector<double> shares(count, 1.0 / static_cast<double>(count));
  if (plan.experts.routing != Routing::skewed) return shares;
  if (const auto& given = plan.experts.shares; !given.empty())
    return given.size() == 1 ? given.front() : given[place_of(plan, layer)];
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i)
    sum += shares[i] = std::pow(static_cast<double>(i + 1), -plan.experts.skew);
  for (double& share : shares) share /= sum;
  Random random(mixed(static_cast<std::uint64_t>(plan.experts.seed), 1,
                      static_cast<std::uint64_t>(layer), 0));
  for (std::size_t i = count; i > 1; --i) std::swap(shares[i - 1], shares[random.next() % i]);
  return shares;
}

// Draws how many of `left` choices fall into a share of the remaining shares.
std::int64_t binomial(Random& random, std::int64_t left, double share) {
  const double n = static_cast<double>(left);
  const double p = std::clamp(share, 0.0, 1.0);
  const double drawn = n * p + std::sqrt(n * p * (1 - p)) * random.normal();
  return std::clamp<std::int64_t>(std::llround(drawn), 0, left);
}

}  // namespace

std::int64_t capacity(const Plan& plan, std::int64_t tokens) {
  const model::Experts& e = plan.architecture.experts;
  if (plan.experts.capacity_factor <= 0) return 0;
  return static_cast<std::int64_t>(
      std::ceil(static_cast<double>(tokens * e.top_k) * plan.experts.capacity_factor /
                static_cast<double>(e.count)));
}

Load balanced_load(const Plan& plan, std::int64_t tokens) {
  const model::Experts& e = plan.architecture.experts;
  Load load;
  load.sent = tokens * e.top_k;
  if (const std::int64_t most = capacity(plan, tokens); most > 0)
    load.sent =
        plan.experts.pads_to_capacity ? most * e.count : std::min(load.sent, most * e.count);
  load.arriving = load.busiest = load.sent;
  load.rows = load.arriving * plan.expert_tp();
  return load;
}

Routes drawn_routes(const Plan& plan, std::int64_t tokens, const RouteKey& key) {
  const model::Experts& e = plan.architecture.experts;
  const auto ranks = static_cast<std::size_t>(plan.mesh.ep);
  const auto local = static_cast<std::size_t>(e.count) / ranks;
  const std::vector<double> shares = popularity(plan, key.layer);
  const std::int64_t most = capacity(plan, tokens);
  Routes routes{ranks, std::vector<std::int64_t>(ranks * ranks, 0)};
  Random random(mixed(static_cast<std::uint64_t>(plan.experts.seed), 2,
                      static_cast<std::uint64_t>(key.layer),
                      2 * static_cast<std::uint64_t>(key.microbatch) + key.first_step));
  for (std::size_t source = 0; source < ranks; ++source) {
    std::int64_t left = tokens * e.top_k;
    double rest = 1;
    for (std::size_t expert = 0; expert < shares.size(); ++expert) {
      // A token chooses an expert at most once.
      std::int64_t count = std::min(binomial(random, left, shares[expert] / rest), tokens);
      if (expert + 1 == shares.size()) count = std::min(left, tokens);
      left -= count;
      rest = std::max(rest - shares[expert], 1e-12);
      if (most > 0) count = plan.experts.pads_to_capacity ? most : std::min(count, most);
      routes.rows[source * ranks + expert / local] += count;
    }
  }
  return routes;
}

Load drawn_load(const Plan& plan, std::int64_t tokens, const RouteKey& key,
                const std::vector<int>& places) {
  const Routes routes = drawn_routes(plan, tokens, key);
  std::vector<std::int64_t> arriving(routes.ranks, 0), sent(routes.ranks, 0);
  for (std::size_t i = 0; i < routes.rows.size(); ++i) {
    sent[i / routes.ranks] += routes.rows[i];
    arriving[i % routes.ranks] += routes.rows[i];
  }
  Load load;
  for (const int place : places) {
    const auto at = static_cast<std::size_t>(place);
    load.sent = std::max(load.sent, sent[at]);
    load.arriving = std::max(load.arriving, arriving[at]);
  }
  load.rows = load.arriving * plan.expert_tp();
  load.busiest = std::max(*std::ranges::max_element(arriving), *std::ranges::max_element(sent));
  return load;
}

}  // namespace sim::program
