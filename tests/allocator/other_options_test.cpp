// other_options_test.cpp — the requests of a recording under other allocator options, and the
// fragmentation when most memory is reserved.
#include "sim/allocator/recorded/other_options.h"

#include "support.h"

using namespace sim;
using namespace sim::allocator;

namespace {

constexpr std::int64_t mib = 1 << 20;

Options options_of(const char* text) {
  const auto options = parse_options(text);
  REQUIRE(options);
  return *options;
}

SnapshotEntry event(Action action, std::int64_t address_mib, std::int64_t size_mib) {
  return {action, address_mib * mib, size_mib * mib, 0};
}

// Frees a block at once.
void add_free(std::vector<SnapshotEntry>& events, std::int64_t address_mib, std::int64_t size_mib) {
  events.push_back(event(Action::free_requested, address_mib, size_mib));
  events.push_back(event(Action::free_completed, address_mib, size_mib));
}

// 12 MiB come and go, then 14 MiB come.
Recording growing() {
  Recording recording;
  recording.events = {event(Action::segment_alloc, 0, 12), event(Action::alloc, 0, 12)};
  add_free(recording.events, 0, 12);
  recording.events.push_back(event(Action::segment_alloc, 20, 14));
  recording.events.push_back(event(Action::alloc, 20, 14));
  return recording;
}

}  // namespace

TEST_CASE("allocator: recorded requests have the segments of the options that replay them") {
  const RequestsReplay plain = replay_requests(growing(), {}, Rules::newer);
  CHECK(plain.allocations == 2);
  CHECK(plain.at_peak.reserved == 26 * mib);
  CHECK(plain.at_peak.allocated == 14 * mib);
  CHECK(plain.at_peak.largest_free == 12 * mib);
  CHECK(plain.at_peak.free_blocks == 1);
  // Pages of 20 MiB: 14 MiB fit where 12 MiB were.
  const RequestsReplay expandable =
      replay_requests(growing(), options_of("expandable_segments:True"), Rules::newer);
  CHECK(expandable.at_peak.reserved == 20 * mib);
  CHECK(expandable.at_peak.allocated == 12 * mib);
  CHECK(expandable.statistics.all.allocated_bytes.peak == 14 * mib);
}

TEST_CASE("allocator: blocks that were in use at the start are placed first") {
  Recording recording;
  recording.segments = {{0, 20 * mib, 0, 0, false, false}};
  recording.blocks = {{4 * mib, 2 * mib, 2 * mib, false}, {8 * mib, 3 * mib, 3 * mib, true}};
  recording.events = {event(Action::free_completed, 8, 3), event(Action::alloc, 8, 3),
                      event(Action::oom, 0, 90)};
  const RequestsReplay done = replay_requests(recording, {}, Rules::newer);
  CHECK(done.initial_blocks == 2);
  CHECK(done.failed == 1);
  CHECK(done.at_peak.reserved == 20 * mib);
  CHECK(done.statistics.all.allocated_bytes.current == 5 * mib);
}

TEST_CASE("allocator: a block that another stream uses is free at its recorded end") {
  Recording recording;
  recording.events = {event(Action::segment_alloc, 0, 12), event(Action::alloc, 0, 12),
                      event(Action::free_requested, 0, 12), event(Action::alloc, 20, 12)};
  const auto reserved = [&] {
    return replay_requests(recording, {}, Rules::newer).statistics.all.reserved_bytes.current;
  };
  CHECK(reserved() == 24 * mib);
  // The third request takes the block of the first one.
  recording.events.push_back(event(Action::free_completed, 0, 12));
  recording.events.push_back(event(Action::alloc, 40, 12));
  CHECK(reserved() == 24 * mib);
  std::swap(recording.events[3], recording.events[4]);
  recording.events.pop_back();
  CHECK(reserved() == 12 * mib);
}

TEST_CASE("allocator: emptied caches stay emptied, retries are left out") {
  // The process gave 12 MiB back before it took 14 MiB.
  Recording retried = growing();
  retried.events.insert(retried.events.begin() + 4, event(Action::segment_free, 0, 12));
  CHECK(replay_requests(retried, {}, Rules::newer).at_peak.reserved == 26 * mib);
  // It had reserved 40 MiB before, so it had room for both.
  Recording emptied;
  emptied.events = {event(Action::segment_alloc, 60, 40), event(Action::alloc, 60, 40)};
  add_free(emptied.events, 60, 40);
  emptied.events.push_back(event(Action::segment_free, 60, 40));
  emptied.events.insert(emptied.events.end(), retried.events.begin(), retried.events.end());
  const RequestsReplay done = replay_requests(emptied, {}, Rules::newer);
  CHECK(done.at_peak.reserved == 40 * mib);
  CHECK(done.statistics.all.reserved_bytes.current == 14 * mib);
}

TEST_CASE("allocator: options that need the memory of the device are named") {
  CHECK(needs_capacity({}).empty());
  CHECK(needs_capacity(options_of("garbage_collection_threshold:0.8")) ==
        "garbage_collection_threshold");
  CHECK(needs_capacity(options_of("per_process_memory_fraction:0.5")) ==
        "per_process_memory_fraction");
}
