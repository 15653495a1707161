// codec.cpp — compressed messages: the work of kernels on both sides, counted step by step, and its
// duration.
#include "sim/cluster/collective/codec.h"

#include <catch2/catch.hpp>

using namespace sim;
using namespace sim::collective;

namespace {

// Chunks that one rank compresses and decompresses in the rounds of a ring. A chunk that is
// forwarded unchanged is not compressed again.
CodecWork counted(bool reduces, int ranks) {
  CodecWork work;
  for (int step = 0; step + 1 < ranks; ++step) {
    if (reduces || step == 0) ++work.compressed, ++work.kernels;
    ++work.decompressed, ++work.kernels;
  }
  return work;
}

Codec sample() {
  return {.name = "half",
          .ratio = 0.5,
          .kernel = Duration{1000},
          .least = Bytes{1000},
          .rates = {{{1'000'000}, {10'000}, {20'000}}, {{4'000'000}, {80'000}, {80'000}}}};
}

}  // namespace

TEST_CASE("collective: a codec works on each chunk that a step of a ring sends and receives") {
  for (int n = 2; n <= 17; ++n) {
    CAPTURE(n);
    const Bytes bytes{5040LL * n};  // chunks of 5040
    const CodecWork scatter = counted(true, n), gather = counted(false, n);
    const auto same = [&](Kind kind, std::int64_t in, std::int64_t out, std::int64_t kernels) {
      const CodecWork work = codec_work(kind, n, bytes);
      CHECK(work.compressed == in * 5040);
      CHECK(work.decompressed == out * 5040);
      CHECK(work.kernels == kernels);
    };
    same(Kind::reduce_scatter, scatter.compressed, scatter.decompressed, scatter.kernels);
    same(Kind::all_gather, gather.compressed, gather.decompressed, gather.kernels);
    same(Kind::all_reduce, scatter.compressed + gather.compressed,
         scatter.decompressed + gather.decompressed, scatter.kernels + gather.kernels);
    same(Kind::all_to_all, n - 1, n - 1, 2 * (n - 1));
    same(Kind::send_receive, n, n, 2);
  }
}

TEST_CASE("collective: a codec's time is its bytes over its rates and its kernels") {
  const Codec codec = sample();
  // 10 kB at 10 kB/s, 40 kB at 20 kB/s, three kernels of a nanosecond.
  CHECK(codec_time(codec, {10'000, 40'000, 3}, {1'000'000}).ps == 3'000'000'003'000);
  // Rates grow with memory bandwidth; near four times the bandwidth the second rates apply.
  CHECK(codec_time(codec, {10'000, 40'000, 0}, {1'999'999}).ps > 1'500'000'000'000);
  CHECK(codec_time(codec, {10'000, 40'000, 0}, {4'000'000}).ps == 625'000'000'000);
}

TEST_CASE("collective: the wire carries a codec's share of a message, and short ones whole") {
  const Codec codec = sample();
  CHECK(coded(codec, Bytes{1001}) == Bytes{501});
  CHECK(coded(codec, Bytes{999}) == Bytes{999});
}
