// command_memory.cpp — `rehearse memory`: the closed-form estimate of a plan; the replay of a
// written allocator trace or of a recorded CUDA memory snapshot.
#include <fmt/format.h>

#include "sim/command.h"
#include "sim/config/textproto.h"
#include "sim/core/text.h"
#include "sim/memory/recording.h"
#include "sim/memory/replay.h"
#include "sim/memory/snapshot.h"
#include "sim/report/json.h"

namespace sim {

namespace {

constexpr std::int64_t trace_bytes_max = std::int64_t{2} << 30;
constexpr std::size_t print_bytes = 1 << 18;

report::Json summary(const memory::ReplaySummary& done) {
  const memory::PoolStatistics& all = done.statistics.all;
  return {{"commands", done.commands},
          {"allocations", done.allocations},
          {"out_of_memory", done.out_of_memory},
          {"allocated_bytes", all.allocated_bytes.current},
          {"reserved_bytes", all.reserved_bytes.current},
          {"peak_allocated_bytes", all.allocated_bytes.peak},
          {"peak_reserved_bytes", all.reserved_bytes.peak},
          {"device_allocations", done.statistics.num_device_alloc},
          {"device_frees", done.statistics.num_device_free},
          {"retries", done.statistics.num_alloc_retries}};
}

report::Json summary(const memory::RecordingReplay& done) {
  const memory::PoolStatistics& all = done.statistics.all;
  return {{"allocations", done.allocations},
          {"allocations_at_recorded_address", done.allocations_at_recorded_address},
          {"segment_events", done.segment_events},
          {"segment_events_matched", done.segment_events_matched},
          {"segment_events_unexpected", done.segment_events_unexpected},
          {"final_map_identical", done.final_map_identical},
          {"first_difference", done.first_difference},
          {"peak_allocated_bytes", all.allocated_bytes.peak},
          {"peak_reserved_bytes", all.reserved_bytes.peak}};
}

// A snapshot that torch.cuda.memory._dump_snapshot wrote.
int replay_pickle(const std::string& bytes, const std::string& path, memory::Rules rules,
                  Globals globals) {
  const memory::Snapshot snapshot = need(memory::read_snapshot(bytes, path));
  const memory::RecordingReplay done = need(memory::replay_snapshot(snapshot, rules, path));
  if (globals.json) {
    print(report::document("memory_replay", summary(done)).dump(2) + "\n");
  } else {
    print(fmt::format(
        "{}: {} of {} allocations at the recorded address, {} of {} segment events as recorded, "
        "final map {}\n{}",
        done.exact() ? "exact" : "different", done.allocations_at_recorded_address,
        done.allocations, done.segment_events_matched, done.segment_events,
        done.final_map_identical ? "identical" : "different",
        done.first_difference.empty() ? "" : "first difference: " + done.first_difference + "\n"));
  }
  return done.exact() ? exit_yes : exit_no;
}

int replay_text(const std::string& text, const std::string& path, memory::Rules rules,
                Globals globals) {
  const memory::Trace trace = need(memory::parse_trace(text, path, rules));
  std::string lines;
  const memory::LineSink sink = [&](std::string_view line) {
    lines.append(line) += '\n';
    if (lines.size() < print_bytes) return;
    print(lines);
    lines.clear();
  };
  const memory::ReplaySummary done =
      memory::replay_trace(trace, rules, globals.json ? memory::LineSink() : sink);
  if (globals.json) lines = report::document("memory_replay", summary(done)).dump(2) + "\n";
  print(lines);
  return exit_yes;
}

}  // namespace

int run_memory(const Arguments& arguments, Globals globals) {
  Options options("memory");
  options.value("rules", "VERSION", "allocator rules: `newer` (PyTorch 2.5 and later) or `2.4.0`");
  options.words(2, 2).parse(arguments, globals);
  const std::string what = options.words()[0];
  const std::string path = options.words()[1];
  const bool old = options.choice("rules", "newer", {"newer", "2.4.0"}) == "2.4.0";
  const memory::Rules rules = old ? memory::Rules::v2_4_0 : memory::Rules::newer;
  if (what == "replay") {
    const std::string bytes = need(config::read_file(path, trace_bytes_max));
    // Every pickle of protocol 2 or later begins with this byte; no text does.
    const bool pickle = !bytes.empty() && bytes[0] == '\x80';
    return pickle ? replay_pickle(bytes, path, rules, globals)
                  : replay_text(bytes, path, rules, globals);
  }
  const std::vector<std::string> kinds = {"estimate", "replay"};
  throw Stop{exit_usage, fmt::format("`rehearse memory` can estimate and replay, not '{}'{}", what,
                                     did_you_mean(what, kinds))};
}

}  // namespace sim
