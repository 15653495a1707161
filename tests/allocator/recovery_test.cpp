// recovery_test.cpp — the start of a recorded history, from its end and what happened: segments
// come and go, blocks return, and histories that cannot lead to their end are refused.
#include <fmt/format.h>

#include "sim/allocator/recorded/recording.h"
#include "sim/allocator/recorded/snapshot.h"
#include "support.h"

using namespace sim;
using namespace sim::allocator;

namespace {

constexpr std::int64_t mib = 1 << 20;

SnapshotSegment segment(std::int64_t address, std::int64_t total,
                        std::vector<SnapshotBlock> blocks = {}, bool expandable = false) {
  SnapshotSegment one;
  one.address = address;
  one.total = total;
  one.small = total == 2 * mib;
  one.expandable = expandable;
  one.blocks = std::move(blocks);
  return one;
}

SnapshotBlock used(std::int64_t address, std::int64_t size, std::int64_t requested = -1) {
  return {address, size, requested < 0 ? size : requested, BlockState::active_allocated};
}

// The start, in words, or what is wrong with the history.
std::string start(std::vector<SnapshotSegment> segments, std::vector<SnapshotEntry> entries,
                  const Options& options = {}) {
  DeviceSnapshot device;
  device.segments = std::move(segments);
  device.entries = std::move(entries);
  const auto recording = recover(device, options, "r");
  if (!recording) return recording.errors()[0].where + ": " + recording.errors()[0].message;
  std::string text;
  for (const Recording::Segment& s : recording->segments)
    text += fmt::format("[{}+{}{}{}{}{}]", s.address / mib, s.total / mib, s.small ? " small" : "",
                        s.expandable ? " expandable" : "",
                        s.stream != 0 ? fmt::format(" stream {}", s.stream) : "",
                        s.pool != 0 ? fmt::format(" pool {}", s.pool) : "");
  for (const InitialBlock& b : recording->blocks)
    text += fmt::format(" {}+{}/{}{}", b.address, b.size, b.requested, b.pending ? " pending" : "");
  return text;
}

}  // namespace

TEST_CASE("allocator: what the driver gave was not there before, and what it took back was") {
  const std::vector<SnapshotSegment> end = {segment(0, 20 * mib), segment(40 * mib, 2 * mib)};
  CHECK(start(end, {}) == "[0+20][40+2 small]");
  CHECK(start(end, {{Action::segment_alloc, 40 * mib, 2 * mib, 0}}) == "[0+20]");
  CHECK(start(end, {{Action::segment_free, 60 * mib, 2 * mib, 7}}) ==
        "[0+20][40+2 small][60+2 small stream 7]");
  CHECK(start(end, {{Action::segment_free, 60 * mib, 4 * mib, 0}}) == "[0+20][40+2 small][60+4]");
  CHECK(start(end, {{Action::segment_free, 20 * mib, 20 * mib, 0}}) == "[0+20][20+20][40+2 small]");
  // Given and taken back within the history: nothing of it at either end.
  CHECK(start(end, {{Action::segment_alloc, 60 * mib, 2 * mib, 0},
                    {Action::segment_free, 60 * mib, 2 * mib, 0}}) == "[0+20][40+2 small]");
  for (const auto& [address, size] : {std::pair<std::int64_t, std::int64_t>{10 * mib, 2 * mib},
                                      {19 * mib, 20 * mib},
                                      {38 * mib, 3 * mib},
                                      {41 * mib, 20 * mib},
                                      {70 * mib, 0}})
    CHECK(start(end, {{Action::segment_free, address, size, 0}}) ==
          fmt::format("r:entry 0: the {} bytes at {} are given back but still there after it", size,
                      address));
  for (const auto& [address, size] : {std::pair<std::int64_t, std::int64_t>{0, 19 * mib},
                                      {1 * mib, 19 * mib},
                                      {40 * mib, 3 * mib},
                                      {39 * mib, 2 * mib},
                                      {60 * mib, 2 * mib},
                                      {0, 0}})
    CHECK(start(end, {{Action::segment_alloc, address, size, 0}}) ==
          fmt::format("r:entry 0: the {} bytes at {} are not one segment after it", size, address));
}

TEST_CASE(
    "allocator: parts of an expandable segment are mapped and unmapped, and touching runs join") {
  const auto end = [] { return std::vector{segment(20 * mib, 60 * mib, {}, true)}; };
  CHECK(start(end(), {{Action::segment_map, 20 * mib, 20 * mib, 0}}) == "[40+40 expandable]");
  CHECK(start(end(), {{Action::segment_map, 60 * mib, 20 * mib, 0}}) == "[20+40 expandable]");
  CHECK(start(end(), {{Action::segment_map, 40 * mib, 20 * mib, 0}}) ==
        "[20+20 expandable][60+20 expandable]");
  CHECK(start(end(), {{Action::segment_map, 20 * mib, 60 * mib, 0}}) == "");
  CHECK(start(end(), {{Action::segment_map, 60 * mib, 21 * mib, 0}}) ==
        fmt::format("r:entry 0: the {} bytes at {} are not one segment after it", 21 * mib,
                    60 * mib));
  CHECK(start(end(), {{Action::segment_unmap, 0, 20 * mib, 0}}) == "[0+80 expandable]");
  CHECK(start(end(), {{Action::segment_unmap, 80 * mib, 20 * mib, 0}}) == "[20+80 expandable]");
  CHECK(start(end(), {{Action::segment_unmap, 100 * mib, 20 * mib, 0}}) ==
        "[20+60 expandable][100+20 expandable]");
  // Of another stream, or not expandable: they only touch.
  CHECK(start(end(), {{Action::segment_unmap, 0, 20 * mib, 3}}) ==
        "[0+20 expandable stream 3][20+60 expandable]");
  CHECK(start({segment(20 * mib, 60 * mib)}, {{Action::segment_unmap, 0, 20 * mib, 0}}) ==
        "[0+20 expandable][20+60]");
  // Between two runs it joins both.
  CHECK(start({segment(0, 20 * mib, {}, true), segment(40 * mib, 20 * mib, {}, true)},
              {{Action::segment_unmap, 20 * mib, 20 * mib, 0}}) == "[0+60 expandable]");
}

TEST_CASE(
    "allocator: pages of 2 MiB that were unmapped are of the small pool, or of their neighbours'") {
  const auto alone = [](std::int64_t size) {
    return start({}, {{Action::segment_unmap, 0, size, 0}});
  };
  CHECK(alone(2 * mib) == "[0+2 small expandable]");
  CHECK(alone(20 * mib) == "[0+20 expandable]");
  CHECK(alone(40 * mib) == "[0+40 expandable]");
  CHECK(alone(22 * mib) == "[0+22 small expandable]");
  // 20 MiB that touch pages of the small pool are ten of them; those of a private pool its own.
  SnapshotSegment small = segment(20 * mib, 4 * mib, {}, true);
  small.small = true;
  CHECK(start({small}, {{Action::segment_unmap, 0, 20 * mib, 0}}) == "[0+24 small expandable]");
  SnapshotSegment own = segment(20 * mib, 20 * mib, {}, true);
  own.pool_second = 5;
  CHECK(start({own}, {{Action::segment_unmap, 0, 20 * mib, 0}}) == "[0+40 expandable pool 1]");
  CHECK(start({own}, {{Action::segment_unmap, 40 * mib, 20 * mib, 0}}) ==
        "[20+40 expandable pool 1]");
  SnapshotSegment other = segment(60 * mib, 20 * mib, {}, true);
  other.pool_first = 1;
  CHECK(start({own, other}, {}) == "[20+20 expandable pool 1][60+20 expandable pool 2]");
}

TEST_CASE("allocator: blocks that were freed were there, and those that were allocated were not") {
  const std::vector<SnapshotSegment> end = {segment(0, 2 * mib, {used(0, 512), used(512, 1024)})};
  CHECK(start(end, {}) == "[0+2 small] 0+512/512 512+1024/1024");
  CHECK(start(end, {{Action::alloc, 512, 1024, 0}}) == "[0+2 small] 0+512/512");
  CHECK(start(end,
              {{Action::free_requested, 2048, 700, 0}, {Action::free_completed, 2048, 700, 0}}) ==
        "[0+2 small] 0+512/512 512+1024/1024 2048+1024/700");
  // The end of a free whose request lies before the history.
  CHECK(start(end, {{Action::free_completed, 2048, 700, 0}}) ==
        "[0+2 small] 0+512/512 512+1024/1024 2048+1024/700 pending");
  CHECK(start(end, {{Action::alloc, 4096, 512, 0}}) ==
        "r:entry 0: allocates address 4096, but no block is in use there after it");
  CHECK(start(end, {{Action::free_completed, 4096, 512, 0}, {Action::alloc, 4096, 512, 0}}) ==
        "r:entry 1: allocates address 4096, but no block is in use there after it");
  CHECK(start(end, {{Action::free_completed, 512, 512, 0}}) ==
        "r:entry 0: frees address 512, which is in use right after");
  CHECK(start(end, {{Action::free_requested, 512, 512, 0}}) ==
        "r:entry 0: frees address 512, which never returns to the cache");
  CHECK(start(end, {{Action::free_requested, 4096, 512, 0}}) ==
        "r:entry 0: frees address 4096, which never returns to the cache");
  CHECK(start(end, {{Action::oom, 4096, 512, 0}}) == start(end, {}));
  CHECK(start(end, {{Action::segment_alloc, 0, 2 * mib, 0}}) ==
        "r:entry 0: memory at 0 is in use before the driver gave it");
  CHECK(start({segment(0, 2 * mib, {used(1536, 512)})}, {{Action::segment_alloc, 0, 2 * mib, 0}}) ==
        "r:entry 0: memory at 1536 is in use before the driver gave it");
}

TEST_CASE("allocator: blocks must fit where they lie at the start") {
  const auto freed = [](std::int64_t address, std::int64_t size) {
    return std::vector<SnapshotEntry>{{Action::free_requested, address, size, 0},
                                      {Action::free_completed, address, size, 0}};
  };
  const std::vector<SnapshotSegment> end = {segment(0, 2 * mib), segment(4 * mib, 2 * mib)};
  const std::string nowhere = "lies in no segment at the start";
  const std::string large = "does not fit where it lies";
  CHECK(start(end, freed(2 * mib, 512)) ==
        fmt::format("r:entry 0: the block at {} {}", 2 * mib, nowhere));
  CHECK(start(end, freed(2 * mib - 512, 512)) == "[0+2 small][4+2 small] 2096640+512/512");
  CHECK(start(end, freed(6 * mib, 512)) ==
        fmt::format("r:entry 0: the block at {} {}", 6 * mib, nowhere));
  CHECK(start(end, freed(2 * mib - 512, 513)) ==
        fmt::format("r:entry 0: the block at {} {}", 2 * mib - 512, large));
  CHECK(start(end, freed(0, 0)) == "r:entry 0: the block at 0 " + large);
  CHECK(start({segment(20 * mib, 20 * mib)}, freed(0, 512)) ==
        "r:entry 0: the block at 0 " + nowhere);
  // Into the next block it does not reach.
  CHECK(start({segment(0, 2 * mib, {used(1024, 512)})}, freed(0, 1024)) ==
        "[0+2 small] 0+1024/1024 1024+512/512");
  CHECK(start({segment(0, 2 * mib, {used(1024, 512)})}, freed(0, 1025)) ==
        "r:entry 0: the block at 0 " + large);
  // More was asked for than the block has.
  CHECK(start({segment(0, 2 * mib, {used(0, 512, 513)})}, {}) ==
        "r:entry 0: the block at 0 " + large);
  CHECK(start({segment(0, 2 * mib, {used(0, 512, 512)})}, {}) == "[0+2 small] 0+512/512");
  CHECK(start({segment(0, 2 * mib, {used(0, 512, 0)})}, {}) ==
        "r:entry 0: the block at 0 " + large);
}

TEST_CASE("allocator: how much of a freed block was slack depends on what may be split") {
  const auto block = [](std::int64_t total, std::int64_t size, bool expandable,
                        const Options& options = {}) {
    return start({segment(0, total, {}, expandable)},
                 {{Action::free_requested, 0, size, 0}, {Action::free_completed, 0, size, 0}},
                 options);
  };
  // The small pool and expandable segments split everything.
  CHECK(block(2 * mib, 2 * mib - 1024, false) == "[0+2 small] 0+2096128/2096128");
  CHECK(block(20 * mib, 20 * mib - 512, true) == "[0+20 expandable] 0+20971008/20971008");
  CHECK(block(20 * mib, 19 * mib, false) == "[0+20] 0+20971520/19922944");
  CHECK(block(20 * mib, 19 * mib - 512, false) == "[0+20] 0+19922432/19922432");
  // From the size on that is never split, up to a segment less a byte is left over.
  Options options;
  options.max_split_size = 30 * mib;
  CHECK(block(50 * mib, 30 * mib, false, options) == "[0+50] 0+31457280/31457280");
  CHECK(block(50 * mib, 30 * mib + 512, false, options) == "[0+50] 0+52428800/31457792");
  CHECK(block(50 * mib, 30 * mib - 512, false, options) == "[0+50] 0+31456768/31456768");
  options.max_non_split_rounding = 4 * mib;
  CHECK(block(50 * mib, 46 * mib, false, options) == "[0+50] 0+48234496/48234496");
  CHECK(block(50 * mib, 46 * mib + 512, false, options) == "[0+50] 0+52428800/48235008");
}
