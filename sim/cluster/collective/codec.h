// codec.h — messages that the communication library compresses on the GPU: what goes over the wire,
// and what is written and read by kernels on both sides.
//
// A ring of n ranks compresses what it sends in each of its steps, and decompresses what it gets:
// a reduction needs the numbers, while a gather passes on what it was sent as it is. In bytes of
// the messages before compression, B as in network.h:
//
//                     compressed       decompressed     kernels of each
//     reduce-scatter  (n-1)/n B        (n-1)/n B        n - 1
//     all-gather      B / n            (n-1)/n B        1, n - 1
//     all-reduce      both in turn
//     all-to-all      (n-1)/n B        (n-1)/n B        n - 1
//     a message, a broadcast, a step around a ring: B and B, 1
//
// Nothing hides a kernel of the codec: a step is compress, send, decompress, one behind the other.
//
// Zhou et al., "Designing High-Performance MPI Libraries with On-the-fly Compression for Modern GPU
// Clusters", IPDPS 2021; Xu et al., arXiv:2409.02423.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster/collective/collective.h"

namespace sim::collective {

// How fast a codec's kernels are on a GPU of this memory bandwidth, in bytes before compression.
struct CodecRate {
  Bandwidth memory{}, compress{}, decompress{};
};

struct Codec {
  std::string name;              // calibration/codecs/<name>.textproto
  double ratio = 1;              // bytes after / bytes before, (0, 1]
  Duration kernel{};             // start and end of each kernel beyond its bytes
  Bytes least{};                 // shorter messages go as they are
  std::vector<CodecRate> rates;  // at least one
};

// Of each group of communicators.
struct Codecs {
  std::optional<Codec> tensor, data, pipeline;
  std::optional<Codec> parameters;  // what data-parallel ranks gather
};

struct CodecWork {
  std::int64_t compressed = 0, decompressed = 0;  // bytes before compression
  std::int64_t kernels = 0;
};
// Of one rank. REQUIRES: ranks > 1.
CodecWork codec_work(Kind kind, int ranks, Bytes bytes);

// What the wire carries of a message or collective of `bytes`.
Bytes coded(const Codec& codec, Bytes bytes);

// How long a GPU of this memory bandwidth works: by the rate that was measured at the nearest
// memory bandwidth, in proportion to it.
Duration codec_time(const Codec& codec, const CodecWork& work, Bandwidth memory);

}  // namespace sim::collective
