#include "sim/calibrate/trace/match.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "sim/calibrate/trace/align.h"
#include "sim/engine/rank/queues.h"

namespace sim::calibrate {

namespace {

// Groups of families that count as one when streams are compared.
int group_of(KernelFamily family) {
  if (passes_over_memory(family)) return static_cast<int>(KernelFamily::elementwise);
  if (family == KernelFamily::gemm_part) return static_cast<int>(KernelFamily::gemm);
  return static_cast<int>(family);
}

struct Histogram {
  std::array<double, kernel_family_count> count{};
  std::map<int, double> ranks;  // group size -> number of collectives with a known size
  void add(KernelFamily family, double weight) {
    count[static_cast<std::size_t>(group_of(family))] += weight;
  }
  double sum() const { return std::accumulate(count.begin(), count.end(), 0.0); }
  double shared(const Histogram& other) const {
    double both = 0;
    for (std::size_t f = 0; f < count.size(); ++f) both += std::min(count[f], other.count[f]);
    return both;
  }
};

struct Queues {
  std::map<int, Histogram> ours, theirs;  // by queue; by stream of the trace
  std::map<int, int> group_size;          // group sizes of the program's network queues
};

Queues histograms(const ExpectedStep& expected, const MeasuredTrace& trace,
                  const std::vector<Calls>& calls) {
  Queues q;
  for (const ExpectedOperation& o : expected.operations)
    q.ours[static_cast<int>(o.queue)].add(o.family, 1);
  const double weight = 1.0 / static_cast<double>(std::max<std::size_t>(1, trace.steps.size()));
  for (std::size_t s = 0; s < calls.size(); ++s) {
    for (const Call& call : calls[s].all) q.theirs[call.stream].add(call.item.family, weight);
    for (const std::uint32_t k : trace.steps[s].kernels)
      if (const MeasuredKernel& kernel = trace.kernels[k]; kernel.ranks > 0)
        q.theirs[kernel.stream].ranks[kernel.ranks] += weight;
  }
  for (const auto& [queue, histogram] : q.ours) {
    const auto stream = static_cast<program::Stream>(queue);
    if (!engine::row(stream).communicator) continue;
    const auto& groups = expected.job.mesh.groups(engine::communicator_of(stream));
    if (!groups.ranks.empty()) q.group_size[queue] = static_cast<int>(groups.ranks.front().size());
  }
  return q;
}

// A stream whose collectives have another group size cannot belong to the queue. Sends are exempt:
// a pair may use a communicator of two ranks or of the whole pipeline.
bool sizes_agree(const Queues& q, int queue, const Histogram& theirs) {
  const auto size = q.group_size.find(queue);
  if (size == q.group_size.end() || theirs.ranks.empty()) return true;
  const Histogram& ours = q.ours.at(queue);
  if (ours.count[static_cast<std::size_t>(KernelFamily::send_receive)] > 0) return true;
  return theirs.ranks.count(size->second) > 0;
}

std::vector<StreamQueue> queues_of(const ExpectedStep& expected, const MeasuredTrace& trace,
                                   const std::vector<Calls>& calls) {
  const Queues q = histograms(expected, trace, calls);
  struct Pair {
    double likeness;
    int queue, stream;
  };
  std::vector<Pair> pairs;
  for (const auto& [queue, ours] : q.ours)
    for (const auto& [stream, theirs] : q.theirs) {
      const double both = ours.shared(theirs);
      if (both > 0 && sizes_agree(q, queue, theirs))
        pairs.push_back({both / std::max(ours.sum(), theirs.sum()), queue, stream});
    }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.likeness > b.likeness; });
  std::map<int, std::vector<int>> streams_of;
  std::map<int, Histogram> lacks = q.ours;
  std::map<int, bool> taken;
  const auto give = [&](const Pair& p) {
    streams_of[p.queue].push_back(p.stream);
    taken[p.stream] = true;
    Histogram& rest = lacks[p.queue];
    for (std::size_t f = 0; f < rest.count.size(); ++f)
      rest.count[f] = std::max(0.0, rest.count[f] - q.theirs.at(p.stream).count[f]);
  };
  for (const Pair& p : pairs)
    if (!taken[p.stream] && streams_of.count(p.queue) == 0) give(p);
  for (const Pair& p : pairs)
    if (!taken[p.stream] &&
        2 * lacks[p.queue].shared(q.theirs.at(p.stream)) >= q.theirs.at(p.stream).sum())
      give(p);
  std::vector<StreamQueue> out;
  for (auto& [queue, streams] : streams_of)
    out.push_back({static_cast<program::Stream>(queue), std::move(streams)});
  return out;
}

void match_queue(const StreamQueue& of, const ExpectedStep& expected, const Calls& calls,
                 std::vector<std::int32_t>& owners) {
  std::vector<AlignItem> ours, theirs;
  std::vector<std::size_t> index;  // indices of the expected operations
  for (std::size_t i = 0; i < expected.operations.size(); ++i) {
    const ExpectedOperation& o = expected.operations[i];
    if (o.queue != of.queue) continue;
    ours.push_back({o.family, o.own().ps / 1000, purposes_of_label(o.label)});
    index.push_back(i);
  }
  std::vector<std::size_t> of_queue;  // indices of the calls
  for (std::size_t c = 0; c < calls.all.size(); ++c) {
    const int stream = calls.all[c].stream;
    if (std::find(of.streams.begin(), of.streams.end(), stream) == of.streams.end()) continue;
    theirs.push_back(calls.all[c].item);
    of_queue.push_back(c);
  }
  const std::vector<std::int32_t> found = align(ours, theirs);
  for (std::size_t t = 0; t < found.size(); ++t)
    if (found[t] >= 0)
      owners[of_queue[t]] = static_cast<std::int32_t>(index[static_cast<std::size_t>(found[t])]);
}

double part(double some, double all) {
  return all > 0 ? some / all : 0;
}

}  // namespace

TraceMatch match(const ExpectedStep& expected, const MeasuredTrace& trace) {
  TraceMatch out;
  for (const MeasuredStep& step : trace.steps) out.calls.push_back(calls_of(trace, step));
  out.queues = queues_of(expected, trace, out.calls);
  for (const Calls& calls : out.calls) {
    std::vector<std::int32_t> owners(calls.all.size(), -1);
    for (const StreamQueue& of : out.queues) match_queue(of, expected, calls, owners);
    auto& of_kernels = out.owners.emplace_back();
    for (const std::uint32_t call : calls.of_kernel) of_kernels.push_back(owners[call]);
  }
  return out;
}

double MatchShare::by_count() const {
  return part(static_cast<double>(matched), static_cast<double>(kernels));
}
double MatchShare::by_time() const {
  return part(static_cast<double>(matched_nanoseconds), static_cast<double>(nanoseconds));
}

double MatchShare::near_by_time() const {
  return part(static_cast<double>(near_nanoseconds), static_cast<double>(matched_nanoseconds));
}

MatchShare share(const ExpectedStep& expected, const MeasuredTrace& trace,
                 const TraceMatch& match) {
  MatchShare out;
  for (std::size_t s = 0; s < trace.steps.size(); ++s) {
    std::vector<bool> used(expected.operations.size());
    std::vector<std::int64_t> took(expected.operations.size());
    for (std::size_t k = 0; k < match.owners[s].size(); ++k) {
      const std::int64_t ns = trace.kernels[trace.steps[s].kernels[k]].duration_ns;
      ++out.kernels;
      out.nanoseconds += ns;
      if (match.owners[s][k] < 0) continue;
      ++out.matched;
      out.matched_nanoseconds += ns;
      used[static_cast<std::size_t>(match.owners[s][k])] = true;
      took[static_cast<std::size_t>(match.owners[s][k])] += ns;
    }
    for (std::size_t i = 0; i < took.size(); ++i) {
      const ExpectedOperation& o = expected.operations[i];
      const std::int64_t said = (o.end - (communicates(o.family) ? o.start : o.met)).ps / 1000;
      if (took[i] <= 2 * said && said <= 2 * took[i]) out.near_nanoseconds += took[i];
    }
    out.operations += used.size();
    out.operations_matched += static_cast<std::size_t>(std::count(used.begin(), used.end(), true));
  }
  return out;
}

}  // namespace sim::calibrate
