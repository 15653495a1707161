#include "sim/cluster/collective/codec.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace sim::collective {

CodecWork codec_work(Kind kind, int ranks, Bytes bytes) {
  assert(ranks > 1);
  const std::int64_t n = ranks;
  const std::int64_t part = bytes.n / n, others = bytes.n - part;
  switch (kind) {
    case Kind::reduce_scatter:
    case Kind::all_to_all:
      return {others, others, 2 * (n - 1)};
    case Kind::all_gather:
      return {part, others, n};
    case Kind::all_reduce:
      return {others + part, 2 * others, 2 * (n - 1) + n};
    case Kind::broadcast:
    case Kind::send_receive:
    case Kind::ring_exchange:
      return {bytes.n, bytes.n, 2};
  }
  return {};
}

Bytes coded(const Codec& codec, Bytes bytes) {
  return bytes < codec.least ? bytes
                             : Bytes{static_cast<std::int64_t>(
                                   std::ceil(static_cast<double>(bytes.n) * codec.ratio))};
}

Duration codec_time(const Codec& codec, const CodecWork& work, Bandwidth memory) {
  assert(!codec.rates.empty());
  const auto apart = [&](const CodecRate& rate) {
    return std::abs(std::log(static_cast<double>(rate.memory.bytes_per_second) /
                             static_cast<double>(memory.bytes_per_second)));
  };
  const CodecRate& rate = *std::ranges::min_element(codec.rates, {}, apart);
  const double faster = static_cast<double>(memory.bytes_per_second) /
                        static_cast<double>(rate.memory.bytes_per_second);
  const auto lasts = [&](std::int64_t bytes, Bandwidth at) {
    return static_cast<double>(bytes) / (static_cast<double>(at.bytes_per_second) * faster);
  };
  return work.kernels * codec.kernel + from_seconds(lasts(work.compressed, rate.compress) +
                                                    lasts(work.decompressed, rate.decompress));
}

}  // namespace sim::collective
