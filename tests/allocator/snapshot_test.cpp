#include "sim/allocator/recorded/snapshot.h"

#include <algorithm>
#include <filesystem>

#include "sim/allocator/recorded/pickle.h"
#include "sim/allocator/recorded/recording.h"
#include "sim/allocator/recorded/replay.h"
#include "support.h"

using namespace sim;
using namespace sim::allocator;

namespace {

std::string corpus(const std::string& name) {
  return std::string(REHEARSE_SOURCE_DIR) + "/tests/fuzz/corpus/" + name;
}

// The first diagnostic of a snapshot that must be refused, or of its replay.
std::string refusal(const std::string& name) {
  const std::string bytes = read_file(corpus("memory_pickle/" + name + ".pickle"));
  const auto snapshot = read_snapshot(bytes, "p");
  if (!snapshot) return snapshot.errors()[0].where + ": " + snapshot.errors()[0].message;
  const auto replay = replay_snapshot(*snapshot, Rules::newer, "p");
  if (!replay) return replay.errors()[0].where + ": " + replay.errors()[0].message;
  return "accepted";
}

// Of a pickle of protocol 2: X a text, J a number, } a dictionary that the pairs between ( and u go
// to, ] a list that the values between ( and e go to, \x85 \x86 \x87 a tuple of one, two, three.
std::string four(std::int32_t n) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(n >> 8 * i & 255);
  return bytes;
}
std::string text(const std::string& s) {
  return "X" + four(static_cast<std::int32_t>(s.size())) + s;
}
std::string number(std::int32_t n) {
  return "J" + four(n);
}

RecordingReplay replayed(const std::string& path) {
  const std::string bytes = read_file(path);
  const auto snapshot = read_snapshot(bytes, "p");
  REQUIRE(snapshot);
  const auto replay = replay_snapshot(*snapshot, Rules::newer, "p");
  REQUIRE(replay);
  return *replay;
}

}  // namespace

TEST_CASE("allocator: a recorded training step replays at every real address") {
  const auto replay = replayed(memory_test_path("data/magma27_cs336_memory_snapshot.pickle"));
  // 5,163 events: 1,721 allocations with their two free events, no driver call in steady state.
  CHECK(replay.allocations == 1721);
  CHECK(replay.allocations_at_recorded_address == 1721);
  CHECK(replay.segment_events == 0);
  CHECK(replay.final_map_identical);
  CHECK(replay.exact());
  CHECK(replay.first_difference.empty());
}

TEST_CASE("allocator: two recorded steps on an H100 replay, driver calls and all") {
  const auto replay = replayed(memory_test_path("data/h100_8b_stage.pickle"));
  CHECK(replay.allocations == 2127);
  CHECK(replay.allocations_at_recorded_address == 2127);
  CHECK(replay.segment_events == 29);
  CHECK(replay.segment_events_matched == 29);
  CHECK(replay.exact());
}

TEST_CASE("allocator: the start of a recording is recovered and no block is out of place") {
  const std::string bytes =
      read_file(memory_test_path("data/magma27_cs336_memory_snapshot.pickle"));
  const auto snapshot = read_snapshot(bytes, "p");
  REQUIRE(snapshot);
  REQUIRE(snapshot->devices.size() == 1);
  const auto recording = recover(snapshot->devices[0], snapshot->options, "p");
  REQUIRE(recording);
  CHECK(recording->segments.size() == 216);  // as many as at the end: none came or went
  CHECK(recording->blocks.size() == 229);
  for (std::size_t i = 1; i < recording->blocks.size(); ++i) {
    CHECK(recording->blocks[i - 1].address + recording->blocks[i - 1].size <=
          recording->blocks[i].address);
  }
}

TEST_CASE("allocator: a block freed during the recording gets back the slack it was given") {
  constexpr std::int64_t mib = 1 << 20;
  // 25 MiB were asked for and are freed; at the end all of the segment is free.
  const auto size_at_start = [&](std::int64_t segment, std::int64_t lands) {
    DeviceSnapshot device;
    SnapshotSegment end;
    end.total = segment;
    end.blocks.push_back({0, segment, 0, BlockState::inactive});
    device.segments.push_back(end);
    if (lands > 0) {
      device.entries.push_back({Action::alloc, lands, 2 * mib, 0});
      device.entries.push_back({Action::free_requested, lands, 2 * mib, 0});
      device.entries.push_back({Action::free_completed, lands, 2 * mib, 0});
    }
    device.entries.push_back({Action::free_requested, 0, 25 * mib, 0});
    device.entries.push_back({Action::free_completed, 0, 25 * mib, 0});
    const auto recording = recover(device, {}, "r");
    REQUIRE(recording);
    REQUIRE(recording->blocks.size() == 1);
    CHECK(replay_recording(*recording).exact());
    return recording->blocks[0].size;
  };
  // Up to 1 MiB behind it is not worth splitting: it was part of the block.
  CHECK(size_at_start(26 * mib, 0) == 26 * mib);
  CHECK(size_at_start(26 * mib + 512, 0) == 25 * mib);
  // With more behind it, the first allocation there shows where the block ended.
  CHECK(size_at_start(40 * mib, 25 * mib + 512) == 25 * mib + 512);
  CHECK(size_at_start(40 * mib, 25 * mib) == 25 * mib);
  CHECK(size_at_start(40 * mib, 0) == 25 * mib);
}

TEST_CASE("allocator: an expandable segment goes on behind the pages that it began with") {
  constexpr std::int64_t mib = 1 << 20;
  const auto block = [](std::int64_t address, std::int64_t size) {
    return SnapshotBlock{address, size, size, BlockState::active_allocated};
  };
  // Two runs with a hole, in use from the start on; then the hole and what lies behind is mapped.
  DeviceSnapshot device;
  SnapshotSegment end;
  end.total = 80 * mib;
  end.expandable = true;
  for (const std::int64_t at : {0, 20, 40, 60}) end.blocks.push_back(block(at * mib, 20 * mib));
  device.segments.push_back(end);
  for (const std::int64_t at : {20, 60}) {
    device.entries.push_back({Action::segment_map, at * mib, 20 * mib, 0});
    device.entries.push_back({Action::alloc, at * mib, 20 * mib, 0});
  }
  Options options;
  options.expandable_segments = true;
  const auto recording = recover(device, options, "r");
  REQUIRE(recording);
  REQUIRE(recording->segments.size() == 2);
  CHECK(recording->segments[0].total == 20 * mib);
  CHECK(recording->segments[1].address == 40 * mib);
  const RecordingReplay replay = replay_recording(*recording);
  INFO(replay.first_difference);
  CHECK(replay.allocations_at_recorded_address == 2);
  CHECK(replay.segment_events_matched == 2);
  CHECK(replay.exact());
}

TEST_CASE("allocator: a changed recording is not called exact") {
  const std::string bytes =
      read_file(memory_test_path("data/magma27_cs336_memory_snapshot.pickle"));
  auto snapshot = read_snapshot(bytes, "p");
  REQUIRE(snapshot);
  Snapshot changed = *snapshot;
  // The last segment of the final map becomes a stream's that never allocated.
  changed.devices[0].segments.back().stream = 77;
  const auto replay = replay_snapshot(changed, Rules::newer, "p");
  REQUIRE(replay);
  CHECK_FALSE(replay->exact());
  CHECK_FALSE(replay->first_difference.empty());
}

TEST_CASE("allocator: small snapshots replay exactly in every pickle protocol") {
  for (const int protocol : {2, 3, 4, 5}) {
    const auto replay =
        replayed(corpus("memory_pickle/tiny_protocol_" + std::to_string(protocol) + ".pickle"));
    CHECK(replay.allocations == 2);
    CHECK(replay.segment_events_matched == 1);
    CHECK(replay.exact());
  }
}

TEST_CASE("allocator: a snapshot's settings are those of its process, and wrong ones are refused") {
  const auto read = [&](const std::string& split, const std::string& divisions) {
    return read_snapshot("\x80\x02}(" + text("allocator_settings") + "}(" +
                             text("PYTORCH_CUDA_ALLOC_CONF") + text("max_split_size_mb:64") +
                             split + text("expandable_segments") + number(1) +
                             text("roundup_power2_divisions") + "}(" + divisions + "uu" +
                             text("segments") + "]" + text("device_traces") + "]u.",
                         "p");
  };
  const auto right = read(text("max_split_size") + number(32 << 20),
                          text("1") + number(0) + text("4") + number(8));
  INFO((right ? "" : right.errors()[0].message));
  REQUIRE(right);
  CHECK(right->options.expandable_segments);
  CHECK(right->options.max_split_size == 32 << 20);
  CHECK(right->options.roundup_divisions[0] == 0);
  CHECK(right->options.roundup_divisions[2] == 8);
  const auto by_text = read("", "");
  REQUIRE(by_text);
  CHECK(by_text->options.max_split_size == 64 << 20);
  const auto wrong = read("", text("4") + number(3));
  REQUIRE_FALSE(wrong);
  CHECK(wrong.errors()[0].message.find("3 is not a power of two") != std::string::npos);
  CHECK_FALSE(read("", text("4") + number(-1)));
}

TEST_CASE("allocator: a snapshot has at most one entry for sixteen of its bytes") {
  // One dictionary, stored in the memo, is every entry: two bytes each.
  const auto read = [](std::size_t entries, std::size_t bytes) {
    const std::string one = "}(" + text("action") + text("alloc") + text("addr") + number(512) +
                            text("size") + number(512) + text("stream") + number(0) + "u";
    std::string all = "\x80\x02}(" + text("segments") + "]" + text("device_traces") + "](](" + one +
                      "q" + std::string(1, '\1');
    for (std::size_t i = 1; i < entries; ++i) all += "h\1";
    all += "ee" + text("pad");
    const std::size_t rest = all.size() + text("").size() + 2;
    REQUIRE(rest <= bytes);
    all += text(std::string(bytes - rest, ' ')) + "u.";
    REQUIRE(all.size() == bytes);
    return read_snapshot(all, "p");
  };
  const auto exact = read(100, 1600);
  INFO((exact ? "" : exact.errors()[0].where + ": " + exact.errors()[0].message));
  REQUIRE(exact);
  CHECK(exact->devices.at(0).entries.size() == 100);
  const auto beyond = read(100, 1599);
  REQUIRE_FALSE(beyond);
  CHECK(beyond.errors()[0].where == "p:device_traces[0][99]");
  CHECK(beyond.errors()[0].message == "more entries than its bytes can describe");
}

TEST_CASE("allocator: a segment's pool is two numbers, its blocks are a list") {
  const std::string block =
      "}(" + text("size") + number(2 << 20) + text("state") + text("inactive") + "u";
  const auto read = [&](const std::string& pool, const std::string& blocks, int device = 0) {
    return read_snapshot("\x80\x02}(" + text("segments") + "](}(" + text("device") +
                             number(device) + text("address") + number(1 << 25) +
                             text("total_size") + number(2 << 20) + text("stream") + number(0) +
                             text("segment_type") + text("small") + pool + text("blocks") + blocks +
                             "ue" + text("device_traces") + "]u.",
                         "p");
  };
  const auto pool_of = [&](const std::string& pool) {
    const auto snapshot = read(pool, "](" + block + "e");
    if (!snapshot) return snapshot.errors()[0].where + ": " + snapshot.errors()[0].message;
    const SnapshotSegment& segment = snapshot->devices.at(0).segments.at(0);
    return std::to_string(segment.pool_first) + ", " + std::to_string(segment.pool_second);
  };
  const std::string id = text("segment_pool_id");
  CHECK(pool_of("") == "0, 0");
  CHECK(pool_of(id + number(5) + number(3) + "\x86") == "5, 3");
  CHECK(pool_of(id + "](" + number(5) + number(3) + "e") == "5, 3");
  for (const std::string& wrong :
       {number(5), text("5"), std::string("}"), number(5) + "\x85",
        number(5) + number(3) + number(1) + "\x87", "](" + number(5) + "e",
        text("5") + number(3) + "\x86", number(5) + text("3") + "\x86"}) {
    CAPTURE(wrong);
    CHECK(pool_of(id + wrong) == "p:segments[0].segment_pool_id: must be two ints");
  }
  REQUIRE(read("", "](" + block + "e", 255));
  const auto beyond = read("", "](" + block + "e", 256);
  REQUIRE_FALSE(beyond);
  CHECK(beyond.errors()[0].where == "p:segments[0].device");
  CHECK(beyond.errors()[0].message == "256 is not from 0 to 255");
  const auto no_list = read("", number(1));
  REQUIRE_FALSE(no_list);
  CHECK(no_list.errors()[0].where == "p:segments[0].blocks");
  CHECK(no_list.errors()[0].message == "must be a list, not int");
}

TEST_CASE("allocator: slack and pending blocks and expandable segments are recovered") {
  // 25 MiB lay in a 26 MiB segment: the slack shows only in the segment that is given back.
  const auto slack = replayed(corpus("memory_pickle/slack_pending_oom.pickle"));
  CHECK(slack.allocations == 1);
  CHECK(slack.segment_events == 2);
  CHECK(slack.exact());
  const auto expandable = replayed(corpus("memory_pickle/expandable.pickle"));
  CHECK(expandable.allocations == 2);
  CHECK(expandable.segment_events == 3);
  CHECK(expandable.exact());
}

TEST_CASE("allocator: what settings made of the memory of the machine is in the events already") {
  // The recording says what its process reserved, could take and gave back: shares of the memory of
  // whatever the recording is replayed on say nothing more.
  const auto snapshot = read_snapshot(read_file(corpus("memory_pickle/expandable.pickle")), "p");
  REQUIRE(snapshot);
  for (const char* setting :
       {"expandable_segments_reserve:0.000001", "expandable_segments_reserve:1M",
        "per_process_memory_fraction:0.000001", "garbage_collection_threshold:0.000001"}) {
    CAPTURE(setting);
    const auto read = parse_options(setting, Rules::newer, snapshot->options);
    REQUIRE(read);
    auto recording = recover(snapshot->devices[0], *read, "p");
    REQUIRE(recording);
    CHECK(recording->options.expandable_segments);
    CHECK(replay_recording(*recording).exact());
  }
}

TEST_CASE("allocator: pickles that would run code are refused by name and offset") {
  CHECK(refusal("global") ==
        "p:2: refused opcode GLOBAL (imports code); a memory snapshot holds "
        "plain data only");
  CHECK(refusal("stack_global").find("p:14: refused opcode STACK_GLOBAL") == 0);
  CHECK(refusal("reduce_2").find("p:2: refused opcode GLOBAL") == 0);
  CHECK(refusal("reduce_4").find("refused opcode STACK_GLOBAL") != std::string::npos);
  CHECK(refusal("build").find("p:4: refused opcode BUILD") == 0);
  CHECK(refusal("inst").find("p:3: refused opcode INST") == 0);
  CHECK(refusal("obj").find("p:5: refused opcode OBJ") == 0);
  CHECK(refusal("newobj").find("p:4: refused opcode NEWOBJ") == 0);
  CHECK(refusal("ext").find("p:2: refused opcode EXT1") == 0);
  CHECK(refusal("persid").find("p:2: refused opcode PERSID") == 0);
}

TEST_CASE("allocator: broken and hostile pickles are refused with the reason") {
  const std::pair<const char*, const char*> cases[] = {
      {"truncated_1", "p:0: not a pickle of protocol 2 or newer"},
      {"truncated_2", "p:2: ends before STOP"},
      {"truncated_200", "p:2: claims 1014 bytes, 189 are left"},
      {"claims_terabyte_text", "p:2: claims 1000000000000 bytes, 4 are left"},
      {"claims_terabyte_frame", "p:2: claims 1000000000000 bytes, 2 are left"},
      {"claims_4g_long", "p:2: claims 4294967295 bytes, 1 are left"},
      {"memo_out_of_reach", "p:3: memo index 4294967294 is out of reach"},
      {"memo_never_stored", "p:2: memo entry 5 was never stored"},
      {"stack_underflow", "p:2: needs 1 values on the stack, there are 0"},
      {"no_mark", "p:3: needs a MARK, none is on the stack"},
      {"odd_items", "p:5: a key without a value"},
      {"append_to_int", "p:5: adds to int, not list"},
      {"wide_integer", "p:2: an integer wider than 64 bits"},
      {"memo_bomb", "p:the snapshot: must be a dict, not list"},
      {"list_of_itself", "p:the snapshot: must be a dict, not list"},
      {"deep_nesting", "p:the snapshot: must be a dict, not tuple"},
      {"not_a_dict", "p:the snapshot: must be a dict, not list"},
      {"empty_dict", "p:device_traces: is missing"},
      {"negative_size", "p:segments[0].blocks[0].size: -512 is not from 1 to 1125899906842624"},
      {"petabytes",
       "p:device_traces[0][1].size: 2000000000000000 is not from 0 to 1125899906842624"},
      {"unknown_action", "p:device_traces[0][1].action: is not an action of a memory history"},
      {"missing_key_and_wrong_type", "p:device_traces[0][0]: must be a dict, not str"},
  };
  for (const auto& [name, message] : cases) CHECK(refusal(name) == message);
  CHECK(refusal("same_segment_400_times").find("more entries than its bytes can describe") !=
        std::string::npos);
  CHECK(refusal("frees_what_never_lived").find("p:device 0:entry") == 0);
}

TEST_CASE("allocator: a claimed terabyte is replayed and found not to be as recorded") {
  CHECK_FALSE(replayed(corpus("memory_pickle/terabyte_request.pickle")).exact());
}

TEST_CASE("allocator: the fuzz corpus runs through both readers") {
  int files = 0;
  for (const char* const folder : {"memory_pickle", "memory_trace"}) {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(corpus(folder))) {
      paths.push_back(entry.path().string());
    }
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      CAPTURE(path);
      const std::string bytes = read_file(path);
      ++files;
      for (const Rules rules : {Rules::newer, Rules::v2_4_0}) {
        if (const auto trace = parse_trace(bytes, "t", rules)) {
          const ReplaySummary summary = replay_trace(*trace, rules, {});
          CHECK(summary.commands == static_cast<std::int64_t>(trace->commands.size()));
        }
        const auto snapshot = read_snapshot(bytes, "p");
        if (!snapshot) continue;
        const auto replay = replay_snapshot(*snapshot, rules, "p");
        if (replay) CHECK(replay->allocations_at_recorded_address <= replay->allocations);
      }
    }
  }
  CHECK(files >= 49);
}
