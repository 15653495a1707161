#include "sim/engine/loader.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sim/base/random.h"

namespace sim::engine {
namespace {

// PyTorch's prefetch_factor.
constexpr std::size_t batches_ahead = 2;
// The share of a microbatch that the GPU still has to run when the CPU requests the next batch: the
// backward pass.
constexpr double asked_ahead = 2.0 / 3;
// Number of simulated microbatches: enough for a mean within 1 to 2 %, at a negligible cost.
constexpr std::int64_t fewest_microbatches = 64, most_microbatches = 4096, most_samples = 1 << 16;
constexpr std::size_t warm_up = 16;

// One replica with its loader. Times in seconds.
struct Replica {
  Random random;
  std::vector<double> free;   // time at which each worker is free
  std::vector<double> taken;  // time at which each of the latest batches was taken (ring buffer)
  double ready = 0;           // time at which the GPU has finished its work
};

double sample(const LoaderTimes& loaders, Random& random) {
  const double typical = seconds(loaders.sequence);
  const double kind = random.uniform(), length = random.uniform();
  if (kind >= loaders.many_documents) return typical;
  return typical * (1 - loaders.many_documents_extra * std::log(length));
}

// Start of microbatch `i` on replica `r` if it did not wait for other replicas.
double begin(const LoaderTimes& loaders, Replica& r, std::size_t i, double cycle) {
  double work = 0;
  for (int k = 0; k < loaders.sequences; ++k) work += sample(loaders, r.random);
  double& taken = r.taken[i % r.taken.size()];
  double& free = r.free[i % r.free.size()];
  free = std::max(free, taken) + work;
  taken = std::max(r.ready - asked_ahead * cycle, free);
  return std::max(r.ready, free);
}

}  // namespace

Duration wait_for_data(const LoaderTimes& loaders, Duration step) {
  if (loaders.sequence.ps == 0) return {};
  assert(loaders.workers > 0 && loaders.microbatches > 0 && loaders.replicas > 0);
  const double cycle = seconds(step) / loaders.microbatches;
  const auto workers = static_cast<std::size_t>(loaders.workers);
  const auto ahead = static_cast<std::size_t>(loaders.in_flight);
  const std::int64_t samples_each = std::int64_t{loaders.replicas} * loaders.sequences;
  const auto count = static_cast<std::size_t>(
      std::clamp(most_samples / samples_each, fewest_microbatches, most_microbatches));

  std::vector<Replica> replicas;
  for (int l = 0; l < loaders.replicas; ++l) {
    replicas.push_back({Random(static_cast<std::uint64_t>(l)), std::vector<double>(workers),
                        std::vector<double>(workers * batches_ahead)});
  }
  std::vector<double> all_done;  // time at which all replicas have finished microbatch i
  for (std::size_t i = 0; i < warm_up + count; ++i) {
    const double together = i >= ahead ? all_done[i - ahead] : 0;
    double last = 0;
    for (Replica& r : replicas) {
      r.ready = std::max(begin(loaders, r, i, cycle), together) + cycle;
      last = std::max(last, r.ready);
    }
    all_done.push_back(last);
  }
  const double mean = (all_done.back() - all_done[warm_up - 1]) / static_cast<double>(count);
  return from_seconds(std::max(0.0, mean - cycle) * loaders.microbatches);
}

Duration DataWaits::operator()(Duration step) {
  const std::lock_guard lock(mutex_);
  const auto [place, added] = known_.try_emplace(step);
  if (added) place->second = wait_for_data(loaders_, step);
  return place->second;
}

}  // namespace sim::engine
