// measured_prices.cpp — measured times of a trace in the form of the replay's times, and as samples
// for a fit.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "sim/base/median.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/calibrate/trace/compare_step.h"
#include "sim/engine/rank/queues.h"

namespace sim::calibrate {

namespace {

using program::Op;

// Measured times of all operations with one price: index 0 alone, index 1 beside other work.
struct Seen {
  double sum[2] = {0, 0};
  std::int64_t count[2] = {0, 0};
  double least[2] = {1e300, 1e300};

  void add(bool overlapped, const OperationTime& time) {
    sum[overlapped] += time.sum_s;
    count[overlapped] += time.steps;
    least[overlapped] = std::min(least[overlapped], time.least_s);
  }
  // Measured / predicted. Falls back to the other kind if this one was not measured, to 1 if
  // neither was.
  double ratio(bool overlapped, bool shortest, const Duration predicted[2]) const {
    for (const bool kind : {overlapped, !overlapped}) {
      const double own = seconds(predicted[kind]);
      if (count[kind] == 0 || !(own > 0)) continue;
      return (shortest ? least[kind] : sum[kind] / static_cast<double>(count[kind])) / own;
    }
    return 1;
  }
};

Duration scaled(Duration d, double ratio) {
  return from_seconds(seconds(d) * ratio);
}

using TransferKey = std::tuple<program::Stream, collective::Kind, std::int64_t>;

TransferKey key_of(const program::Transfer& t) {
  return {t.communicator, t.kind, t.bytes.n};
}

std::string group_of(const model::Operation& o) {
  switch (family_of(o)) {
    case KernelFamily::gemm:
      return o.role == model::GemmRole::forward          ? "gemm forward"
             : o.role == model::GemmRole::input_gradient ? "gemm input gradient"
                                                         : "gemm weight gradient";
    default:
      return std::string(name(family_of(o)));
  }
}

}  // namespace

engine::Times measured_prices(const ExpectedStep& expected,
                              const std::vector<OperationTime>& times) {
  std::map<model::Operation, Seen> kernels;
  std::map<TransferKey, Seen> transfers;
  std::map<std::uint32_t, double> messages;  // exchange -> measured / predicted
  const program::Program& program = expected.program();
  const auto own = static_cast<std::size_t>(expected.rank_class);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const ExpectedOperation& o = expected.operations[i];
    if (times[i].steps == 0) continue;
    if (o.op == Op::kernel) {
      kernels[program.operations[o.index]].add(o.overlapped, times[i]);
    } else if (o.op == Op::collective) {
      transfers[key_of(program.transfers[o.index])].add(o.overlapped, times[i]);
    } else if (o.own().ps > 0) {
      const auto [at, first] = messages.try_emplace(o.index, 1e300);
      at->second = std::min(at->second, times[i].least_s / seconds(o.own()));
    }
  }
  engine::Times out = expected.times;
  for (std::size_t c = 0; c < expected.job.classes.size(); ++c) {
    const program::Program& p = expected.job.classes[c];
    engine::ClassTimes& prices = out.classes[c];
    for (std::size_t i = 0; i < p.operations.size(); ++i) {
      const auto found = kernels.find(p.operations[i]);
      if (found == kernels.end()) continue;
      const Duration was[2] = {prices.kernel[i], prices.kernel_overlapped[i]};
      prices.kernel[i] = scaled(was[0], found->second.ratio(false, false, was));
      prices.kernel_overlapped[i] = scaled(was[1], found->second.ratio(true, false, was));
    }
    for (std::size_t i = 0; i < p.transfers.size(); ++i) {
      const auto found = transfers.find(key_of(p.transfers[i]));
      if (found == transfers.end()) continue;
      const Duration was[2] = {prices.transfer[i], prices.transfer_overlapped[i]};
      prices.transfer[i] = scaled(was[0], found->second.ratio(false, true, was));
      prices.transfer_overlapped[i] = scaled(was[1], found->second.ratio(true, true, was));
    }
  }
  for (const auto& [exchange, ratio] : messages)
    for (Duration& message : out.classes[own].message[exchange]) message = scaled(message, ratio);
  return out;
}

namespace {

// The shortest times of equal collectives, one for each operation, and how often they were seen.
struct ShortestSeen {
  std::vector<double> seconds;
  std::int64_t count = 0;
};
// The times of a kernel, and how often it was seen.
struct KernelSeen {
  std::vector<double> seconds;
  std::int64_t count = 0;
};

// Gathers the operations of a step by shape. The replay's slowdown beside other work is divided
// out.
class Samples {
 public:
  Samples(const ExpectedStep& expected, Duration arrival)
      : expected_(expected),
        program_(expected.program()),
        prices_(expected.times.classes[static_cast<std::size_t>(expected.rank_class)]),
        arrival_(arrival) {}

  // `in_pieces`: another operation with this label was split into several passes.
  void add_kernel(const ExpectedOperation& o, const OperationTime& time, bool in_pieces) {
    if (!time.own_family) {
      ++out_.passed["operations whose kernels are of another family (fused passes)"];
      return;
    }
    if (in_pieces) {
      ++out_.passed["operations that are several passes over memory here, one in the plan"];
      return;
    }
    const double alone = seconds(prices_.kernel[o.index]);
    const double now =
        seconds(o.overlapped ? prices_.kernel_overlapped[o.index] : prices_.kernel[o.index]);
    model::Operation shape = program_.operations[o.index];
    shape.name = {};
    KernelSeen& seen = kernels_[shape];
    seen.seconds.push_back(time.own_median_s * alone / now);
    seen.count += time.steps;
  }

  void add_collective(const ExpectedOperation& o, const OperationTime& time) {
    if (time.stand_in) {
      ++out_.passed["collectives of a fake process group (copies on one GPU)"];
      return;
    }
    if (program_.transfers[o.index].pieces != 1) return;
    const double alone = seconds(prices_.transfer[o.index]);
    const double now =
        seconds(o.overlapped ? prices_.transfer_overlapped[o.index] : prices_.transfer[o.index]);
    ShortestSeen& seen = transfers_[key_of(program_.transfers[o.index])];
    for (const double measured : time.all_s) {
      const double own = measured * alone / now - seconds(arrival_);
      if (own > 0) seen.seconds.push_back(own);
    }
    seen.count += time.steps;
  }

  Measurements take(const std::string& source, const std::string& gpu) {
    out_.device = gpu;
    for (auto& [shape, seen] : kernels_) {
      KernelSample sample;
      sample.group = group_of(shape);
      sample.source = source;
      sample.gpu = gpu;
      sample.operations = {shape};
      sample.count = seen.count;
      sample.in_run = true;
      sample.seconds = median(std::move(seen.seconds));
      out_.kernels.push_back(std::move(sample));
    }
    for (auto& [key, seen] : transfers_) {
      const auto& [queue, kind, bytes] = key;
      if (seen.seconds.empty()) continue;
      CollectiveSample sample;
      sample.kind = kind;
      sample.source = source;
      sample.gpu = gpu;
      sample.groups = expected_.job.mesh.groups(engine::communicator_of(queue));
      sample.ranks = static_cast<int>(sample.groups->ranks.front().size());
      sample.bytes = {bytes};
      sample.seconds = std::ranges::min(seen.seconds);
      sample.waits = waits_for_peers(std::move(seen.seconds));
      sample.count = seen.count;
      out_.collectives.push_back(std::move(sample));
    }
    return std::move(out_);
  }

 private:
  const ExpectedStep& expected_;
  const program::Program& program_;
  const engine::ClassTimes& prices_;
  Duration arrival_;
  std::map<model::Operation, KernelSeen> kernels_;
  std::map<TransferKey, ShortestSeen> transfers_;
  Measurements out_;
};

}  // namespace

Measurements measurements_of(const ExpectedStep& expected, const std::vector<OperationTime>& times,
                             Duration arrival, const std::string& source, const std::string& gpu) {
  // If one operation with this label was split into several passes, pieces of others may be matched
  // wrongly too.
  std::set<std::string_view> in_pieces;
  for (std::size_t i = 0; i < times.size(); ++i)
    if (times[i].in_pieces) in_pieces.insert(expected.operations[i].label);
  Samples samples(expected, arrival);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const ExpectedOperation& o = expected.operations[i];
    if (times[i].steps == 0) continue;
    if (o.op == Op::kernel) samples.add_kernel(o, times[i], in_pieces.contains(o.label));
    if (o.op == Op::collective) samples.add_collective(o, times[i]);
  }
  return samples.take(source, gpu);
}

}  // namespace sim::calibrate
