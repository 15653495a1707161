#include "sim/program/parallel/ddp/buckets.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace sim::program {
namespace {

void assign_buckets(const ParameterList& parameters, const BufferRules& rules,
                    BufferLayout& layout) {
  const std::int64_t limit = std::max<std::int64_t>(40'000'000, 1'000'000 * rules.data_parallel);
  const std::int64_t end_unit = std::lcm<std::int64_t>(rules.ranks, 128);
  std::int64_t at = 0, start = 0;
  Bucket open;
  const auto close = [&] {
    if (rules.in_shards) at = round_up(at, end_unit);
    open.elements = at - start;
    layout.buckets.push_back(open);
    open = {};
    start = at;
  };
  layout.bucket_of.assign(parameters.size(), -1);
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const Parameter& p = parameters[i];
    if (p.frozen) continue;
    if (rules.in_shards) at = round_up(at, 64);
    const bool alone = rules.in_shards && p.of_two_stages;
    if (alone && open.parameters > 0) close();
    at += p.elements;
    if (p.fp8) open.in_fp8 += p.elements;
    layout.bucket_of[i] = static_cast<int>(layout.buckets.size());
    ++open.parameters;
    if (alone || (!rules.one_bucket && at - start >= limit)) close();
  }
  if (open.parameters > 0) close();
  layout.elements = at;
}

// The pieces of parameters in the first rank's slice of each bucket.
void cut_shards(const ParameterList& parameters, const BufferRules& rules, BufferLayout& layout) {
  std::int64_t at = 0, bucket_end = 0, slice_end = 0;
  int bucket = -1;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    if (parameters[i].frozen) continue;
    if (layout.bucket_of[i] != bucket) {
      bucket = layout.bucket_of[i];
      const std::int64_t elements = layout.buckets[static_cast<std::size_t>(bucket)].elements;
      at = bucket_end;
      slice_end = at + elements / rules.ranks;
      bucket_end += elements;
    }
    at = round_up(at, 64);
    const std::int64_t piece = std::min(at + parameters[i].elements, slice_end) - at;
    if (piece > 0) layout.pieces.push_back(piece);
    at += parameters[i].elements;
  }
}

void deal_out(const ParameterList& parameters, const BufferRules& rules, BufferLayout& layout) {
  std::vector<std::int64_t> sizes;
  for (const Parameter& p : parameters)
    if (!p.frozen) sizes.push_back(p.elements);
  std::stable_sort(sizes.begin(), sizes.end(), std::greater<>());
  const auto ranks = std::min(static_cast<std::size_t>(rules.owners), sizes.size());
  std::vector<std::vector<std::int64_t>> of_rank(ranks);
  layout.updated.assign(ranks, 0);
  for (const std::int64_t size : sizes) {
    const auto least = std::min_element(layout.updated.begin(), layout.updated.end());
    of_rank[static_cast<std::size_t>(least - layout.updated.begin())].push_back(size);
    *least += size;
  }
  const auto most = std::max_element(layout.updated.begin(), layout.updated.end());
  if (ranks > 0) layout.pieces = of_rank[static_cast<std::size_t>(most - layout.updated.begin())];
  std::stable_sort(layout.updated.begin(), layout.updated.end(), std::greater<>());
}

}  // namespace

BufferLayout lay_out(const ParameterList& parameters, const BufferRules& rules) {
  BufferLayout layout;
  assign_buckets(parameters, rules, layout);
  if (rules.in_shards) {
    cut_shards(parameters, rules, layout);
  } else if (rules.owners > 0) {
    deal_out(parameters, rules, layout);
  } else {
    for (const Parameter& p : parameters)
      if (!p.frozen) layout.pieces.push_back(p.elements);
  }
  return layout;
}

std::int64_t BufferLayout::owned() const {
  return std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0});
}

}  // namespace sim::program
