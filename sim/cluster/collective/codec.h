// codec.h — messages that the communication library compresses on the GPU: the bytes on the wire,
// and the bytes that kernels compress and decompress.
//
// A ring of n ranks compresses what it sends in each step and decompresses what it receives. A
// reduction needs the plain numbers; a gather forwards compressed data unchanged. Bytes of messages
// before compression, with B as in network.h:
//
//                     compressed       decompressed     kernels of each
//     reduce-scatter  (n-1)/n B        (n-1)/n B        n - 1
//     all-gather      B / n            (n-1)/n B        1, n - 1
//     all-reduce      both in turn
//     all-to-all      (n-1)/n B        (n-1)/n B        n - 1
//     a message, a broadcast, a step around a ring: B and B, 1
//
// A step compresses, sends and decompresses one after the other; nothing hides the kernels of the
// codec.
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

// The speed of a codec's kernels on a GPU with this memory bandwidth, in bytes before compression.
struct CodecRate {
  Bandwidth memory{}, compress{}, decompress{};
};

struct Codec {
  std::string name;              // calibration/codecs/<name>.textproto
  double ratio = 1;              // bytes after / bytes before, (0, 1]
  Duration kernel{};             // fixed time of each kernel
  Bytes least{};                 // shorter messages are sent uncompressed
  std::vector<CodecRate> rates;  // at least one
};

// The codecs of each group of communicators.
struct Codecs {
  std::optional<Codec> tensor, data, pipeline;
  std::optional<Codec> parameters;  // parameters that data-parallel ranks gather
};

struct CodecWork {
  std::int64_t compressed = 0, decompressed = 0;  // bytes before compression
  std::int64_t kernels = 0;
};
// The work of one rank. REQUIRES: ranks > 1.
CodecWork codec_work(Kind kind, int ranks, Bytes bytes);

// Bytes on the wire for a message or collective of `bytes`.
Bytes coded(const Codec& codec, Bytes bytes);

// Duration of the codec's kernels on a GPU with this memory bandwidth. The rate measured at the
// nearest memory bandwidth is scaled in proportion.
Duration codec_time(const Codec& codec, const CodecWork& work, Bandwidth memory);

}  // namespace sim::collective
