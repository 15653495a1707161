// memory.cpp — `rehearse memory`: the closed-form estimate of a plan; the replay of a written
// allocator trace or of a recorded CUDA memory snapshot.
#include "sim/command/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "sim/allocator/recorded/other_options.h"
#include "sim/allocator/recorded/recording.h"
#include "sim/allocator/recorded/replay.h"
#include "sim/allocator/recorded/snapshot.h"
#include "sim/answer/evaluate.h"
#include "sim/base/text.h"
#include "sim/command/common/command.h"
#include "sim/input/plan/plan.h"
#include "sim/input/text/textproto.h"
#include "sim/output/document.h"
#include "sim/output/few_rows.h"

namespace sim::command {

namespace {

// Largest inputs: a snapshot, and a trace in text, whose shortest lines grow tenfold in memory.
constexpr std::int64_t snapshot_bytes_max = std::int64_t{1} << 30;
constexpr std::int64_t replay_bytes_max = 64 << 20;
constexpr std::size_t print_bytes = 1 << 18;

output::Value bytes(const char* key, const char* words, std::int64_t count) {
  output::Value one = output::value(key, words, count);
  one.what.show = output::Show::bytes;
  return one;
}

// Fragmentation when most memory was reserved.
void add_peak(const allocator::PeakState& at_peak, std::vector<output::Value>& values) {
  values.push_back(bytes("allocated_at_peak_bytes", "at that peak: allocated", at_peak.allocated));
  values.push_back(bytes("largest_free_at_peak_bytes", "at that peak: largest free block",
                         at_peak.largest_free));
  values.push_back(
      output::value("free_blocks_at_peak", "at that peak: free blocks", at_peak.free_blocks));
}

output::Document summary(const allocator::ReplaySummary& done) {
  const allocator::PoolStatistics& all = done.statistics.all;
  std::vector<output::Value> values = {
      output::value("commands", "commands", done.commands),
      output::value("allocations", "allocations", done.allocations),
      output::value("out_of_memory", "out of memory", done.out_of_memory),
      bytes("allocated_bytes", "allocated", all.allocated_bytes.current),
      bytes("reserved_bytes", "reserved", all.reserved_bytes.current),
      output::value("device_allocations", "asked of the device", done.statistics.num_device_alloc),
      output::value("device_frees", "given back to it", done.statistics.num_device_free),
      output::value("retries", "retries", done.statistics.num_alloc_retries),
      bytes("peak_allocated_bytes", "peak allocated", all.allocated_bytes.peak),
      bytes("peak_reserved_bytes", "peak reserved", all.reserved_bytes.peak)};
  add_peak(done.at_peak, values);
  return {"", "", {}, {output::Values{"", std::move(values)}}};
}

output::Document summary(const allocator::RecordingReplay& done) {
  const allocator::PoolStatistics& all = done.statistics.all;
  std::vector<output::Value> values = {
      output::value("allocations", "allocations", done.allocations),
      output::value("allocations_at_recorded_address", "at the recorded address",
                    done.allocations_at_recorded_address),
      output::value("segment_events", "segment events", done.segment_events),
      output::value("segment_events_matched", "as recorded", done.segment_events_matched),
      output::value("segment_events_unexpected", "unexpected", done.segment_events_unexpected),
      output::value("final_map_identical", "", done.final_map_identical),
      output::value("first_difference", done.first_difference.empty() ? "" : "first difference",
                    done.first_difference),
      bytes("peak_allocated_bytes", "peak allocated", all.allocated_bytes.peak),
      bytes("peak_reserved_bytes", "peak reserved", all.reserved_bytes.peak)};
  add_peak(done.at_peak, values);
  std::string first = fmt::format("{}: final map {}", done.exact() ? "exact" : "different",
                                  done.final_map_identical ? "identical" : "different");
  if (done.devices > 1)
    first += fmt::format("; peaks of device {}, which reserves most of {}; the counts are of all",
                         done.device, done.devices);
  return {"",
          "",
          {},
          {output::Note{"", std::move(first), true}, output::Values{"", std::move(values)}}};
}

// One replay of a table that compares allocator options.
struct OptionsRow {
  std::string device, options;
  std::int64_t peak_allocated = 0;
  allocator::PeakState at_peak;
  std::int64_t retries = 0, out_of_memory = 0;
};

// The table, for text without what is the same in all rows.
void add_options(const std::vector<OptionsRow>& all, output::Document& document) {
  const auto in_bytes = [](const char* key, const char* heading) {
    return output::Column{key, heading, "", 2, false, "", 1, output::Show::bytes};
  };
  const bool several = !all.empty() && all.front().device != all.back().device;
  output::Rows rows{"options",
                    "the same requests under both options (at the peak of reserved memory)",
                    {{"device", several ? "device" : "", "", 0, true},
                     {"options", "options", "", 0, true},
                     in_bytes("peak_reserved_bytes", "peak reserved"),
                     in_bytes("allocated_at_peak_bytes", "allocated"),
                     {"fragmentation", "fragmented", "", 1, false, " %", 100},
                     in_bytes("largest_free_at_peak_bytes", "largest free block"),
                     {"free_blocks_at_peak", "free blocks", "", 0},
                     in_bytes("peak_allocated_bytes", ""),
                     {"retries", "retries", "", 0},
                     {"out_of_memory", "out of memory", "", 0}},
                    {},
                    true};
  for (const OptionsRow& one : all) {
    const allocator::PeakState& peak = one.at_peak;
    const auto reserved = static_cast<double>(peak.reserved);
    const double free = static_cast<double>(peak.reserved - peak.allocated);
    rows.cells.push_back({one.device, one.options, peak.reserved, peak.allocated,
                          reserved > 0 ? free / reserved : 0, peak.largest_free, peak.free_blocks,
                          one.peak_allocated, one.retries, one.out_of_memory});
  }
  document.blocks.emplace_back(output::few_rows(rows));
  document.blocks.emplace_back(std::move(rows));
}

// The setting of the options to compare with.
struct OtherOptions {
  std::string text;
  allocator::Options options;
};

std::optional<OtherOptions> other_options(const std::vector<std::string>& words,
                                          allocator::Rules rules) {
  constexpr std::string_view setting = "allocator_options=";
  if (words.size() == 2) return std::nullopt;
  if (words.size() > 3 || !words[2].starts_with(setting))
    throw Stop{exit_usage,
               "memory replay takes one trace or snapshot, and one setting: "
               "allocator_options=expandable_segments:True"};
  const std::string text = words[2].substr(setting.size());
  return OtherOptions{text, need(allocator::parse_options(text, rules, {}, "allocator_options"))};
}

// Replays the requests of each device under the recorded options and under others.
void add_other_options(const allocator::Snapshot& snapshot, const std::string& path,
                       allocator::Rules rules, const OtherOptions& other,
                       output::Document& document) {
  const std::string limited = allocator::needs_capacity(other.options);
  if (!limited.empty())
    throw Stop{exit_data,
               fmt::format("{} depends on the memory of the device, which a snapshot does not "
                           "have; leave it out, or replay a trace in text with its capacity",
                           limited)};
  std::vector<OptionsRow> rows;
  std::int64_t initial = 0, failed = 0;
  for (std::size_t d = 0; d < snapshot.devices.size(); ++d) {
    const std::string device = fmt::format("{}", d);
    const allocator::Recording recording = need(allocator::recover(
        snapshot.devices[d], snapshot.options, fmt::format("{}:device {}", path, d)));
    if (recording.events.empty() && recording.blocks.empty()) continue;
    for (const auto& [text, options] :
         {std::pair<std::string, allocator::Options>{"as recorded", recording.options},
          {other.text, other.options}}) {
      const allocator::RequestsReplay done = allocator::replay_requests(recording, options, rules);
      rows.push_back({device, text, done.statistics.all.allocated_bytes.peak, done.at_peak,
                      done.statistics.num_alloc_retries, done.statistics.num_ooms});
      if (text != other.text) continue;
      initial += done.initial_blocks;
      failed += done.failed;
    }
  }
  add_options(rows, document);
  document.blocks.emplace_back(output::Note{
      "", fmt::format("Both replays have unlimited memory. Blocks in use when the recording began: "
                      "{}; they are placed first, without the free blocks between them. Requests "
                      "that failed: {}; they are left out.",
                      initial, failed)});
}

// Replays a snapshot of torch.cuda.memory._dump_snapshot.
int replay_pickle(const std::string& content, const std::string& path, allocator::Rules rules,
                  const std::optional<OtherOptions>& other, Globals globals) {
  const allocator::Snapshot snapshot = need(allocator::read_snapshot(content, path));
  const allocator::RecordingReplay done = need(allocator::replay_snapshot(snapshot, rules, path));
  output::Document document = summary(done);
  if (other) add_other_options(snapshot, path, rules, *other, document);
  say(globals, "memory_replay", document);
  return done.exact() ? exit_yes : exit_no;
}

// Bytes after each event of a device. What was in use before the recording follows from its end.
struct Level {
  std::int64_t allocated = 0, reserved = 0;
};

Level change_of(const allocator::SnapshotEntry& entry) {
  using allocator::Action;
  switch (entry.action) {
    case Action::alloc:
      return {entry.size, 0};
    case Action::free_completed:
      return {-entry.size, 0};
    case Action::segment_alloc:
    case Action::segment_map:
      return {0, entry.size};
    case Action::segment_free:
    case Action::segment_unmap:
      return {0, -entry.size};
    case Action::free_requested:
    case Action::oom:
      break;
  }
  return {};
}

std::vector<Level> levels_of(const allocator::DeviceSnapshot& device) {
  Level now;
  for (const allocator::SnapshotSegment& segment : device.segments) {
    now.reserved += segment.total;
    for (const allocator::SnapshotBlock& block : segment.blocks)
      if (block.state != allocator::BlockState::inactive) now.allocated += block.requested;
  }
  std::vector<Level> levels(device.entries.size());
  for (std::size_t i = levels.size(); i-- > 0;) {
    levels[i] = now;
    const Level change = change_of(device.entries[i]);
    now = {now.allocated - change.allocated, now.reserved - change.reserved};
  }
  return levels;
}

// At most `most` rows a device, each the highest of its events.
output::Rows history_rows(const allocator::Snapshot& snapshot) {
  constexpr std::size_t most = 1024;
  output::Rows rows{"history",
                    "recorded memory, by event",
                    {{"gpu", "GPU", "", 0, true},
                     {"event", "event", "", 0},
                     {"allocated_gib", "allocated", "GiB", 3},
                     {"reserved_gib", "reserved", "GiB", 3}},
                    {},
                    true};
  for (std::size_t d = 0; d < snapshot.devices.size(); ++d) {
    const std::vector<Level> levels = levels_of(snapshot.devices[d]);
    const std::size_t width = levels.size() / most + 1;
    for (std::size_t from = 0; from < levels.size(); from += width) {
      const std::size_t to = std::min(levels.size(), from + width);
      Level high = levels[from];
      for (std::size_t i = from; i < to; ++i) {
        high.allocated = std::max(high.allocated, levels[i].allocated);
        high.reserved = std::max(high.reserved, levels[i].reserved);
      }
      rows.cells.push_back({fmt::format("GPU {}", d), from,
                            output::rounded(gib(Bytes{high.allocated}), 3),
                            output::rounded(gib(Bytes{high.reserved}), 3)});
    }
  }
  return rows;
}

}  // namespace

output::Document snapshot_page(const std::string& bytes, const std::string& name) {
  const allocator::Snapshot snapshot = need(allocator::read_snapshot(bytes, name));
  const allocator::RecordingReplay done =
      need(allocator::replay_snapshot(snapshot, allocator::Rules::newer, name));
  output::Document document{"Memory snapshot: " + name, "", {}, {}};
  output::Rows rows = history_rows(snapshot);
  document.blocks.emplace_back(
      output::Note{"",
                   fmt::format("{}: peak {} allocated, {} reserved", name,
                               human(Bytes{done.statistics.all.allocated_bytes.peak}),
                               human(Bytes{done.statistics.all.reserved_bytes.peak})),
                   true});
  document.blocks.emplace_back(output::Note{
      "", fmt::format("Our replay of PyTorch's allocator places {} of {} allocations at the "
                      "recorded address and repeats {} of {} segment events.",
                      done.allocations_at_recorded_address, done.allocations,
                      done.segment_events_matched, done.segment_events)});
  output::Series series;
  series.kind = output::Series::Kind::areas;
  series.title = "memory over the recorded events";
  series.table = rows.name;
  series.x = "event";
  series.y = {"allocated_gib", "reserved_gib"};
  series.fixed = {"reserved_gib"};
  series.group = "gpu";
  document.blocks.emplace_back(std::move(series));
  document.blocks.emplace_back(std::move(rows));
  return document;
}

namespace {

// Replays a trace under its own options and under others.
int compare_trace_options(const allocator::Trace& trace, allocator::Rules rules,
                          const OtherOptions& other, Globals globals) {
  allocator::Trace changed = trace;
  changed.options = other.options;
  const auto row = [](std::string options, const allocator::ReplaySummary& done) {
    return OptionsRow{"0",
                      std::move(options),
                      done.statistics.all.allocated_bytes.peak,
                      done.at_peak,
                      done.statistics.num_alloc_retries,
                      done.out_of_memory};
  };
  const allocator::ReplaySummary own = allocator::replay_trace(trace, rules, {});
  output::Document document = summary(own);
  add_options(
      {row("as in the trace", own), row(other.text, allocator::replay_trace(changed, rules, {}))},
      document);
  say(globals, "memory_replay", document);
  return exit_yes;
}

int replay_text(const std::string& text, const std::string& path, allocator::Rules rules,
                const std::optional<OtherOptions>& other, Globals globals) {
  const allocator::Trace trace = need(allocator::parse_trace(text, path, rules));
  if (other) return compare_trace_options(trace, rules, *other, globals);
  std::string lines;
  const allocator::LineSink sink = [&](std::string_view line) {
    lines.append(line) += '\n';
    if (lines.size() < print_bytes) return;
    print(lines);
    lines.clear();
  };
  const allocator::ReplaySummary done =
      allocator::replay_trace(trace, rules, globals.json ? allocator::LineSink() : sink);
  if (globals.json) {
    say(globals, "memory_replay", summary(done));
    return exit_yes;
  }
  print(lines);  // the output is the answers to the trace and nothing else: others compare it
  const allocator::PeakState& peak = done.at_peak;
  note(fmt::format(
      "at the peak of reserved memory: {} bytes reserved, {} allocated, {} in the largest of {} "
      "free blocks",
      peak.reserved, peak.allocated, peak.largest_free, peak.free_blocks));
  return exit_yes;
}

int estimate(const std::vector<std::string>& words, Globals globals) {
  const input::PlanFile file =
      need(input::load_plan(workload_path(words[1]), {words.begin() + 2, words.end()}));
  if (file.plan->architecture.is_mixture())
    throw Stop{exit_data, words[1] +
                              ": error: the closed form of arXiv 2411.06465 counts dense "
                              "layers and does not apply to a mixture of experts; "
                              "`rehearse run` replays it"};
  const allocator::Estimate parts = allocator::estimate(answer::estimator_input(file.plan));
  const answer::Estimate all = answer::estimate(file.plan, file.machine.gpu);
  constexpr double bytes_per_gib = 1024.0 * 1024.0 * 1024.0;
  const double weights = parts.weight_optimizer_bytes / bytes_per_gib;
  const double activations = parts.activation_bytes / bytes_per_gib;
  output::Document document;
  document.blocks.emplace_back(output::Note{
      "",
      fmt::format("closed form: {:.2f} GiB, {} the 80 % rule's {:.1f} on {}: {}\n"
                  "no temporaries, fragmentation, NCCL or CUDA context: `rehearse run` replays "
                  "them",
                  all.gib, all.fits ? "within" : "above", all.limit_gib, file.machine.gpu.name,
                  all.fits ? "fits" : "may run out of memory"),
      true});
  document.blocks.emplace_back(output::Values{
      "",
      {output::value("method", "method",
                     "closed form of arXiv 2411.06465, one GPU of the first stage"),
       output::value("parameters", "parameters", parts.params_first_stage, "", 0),
       output::value("weights_gradients_optimizer_gib", "weights, gradients, optimizer", weights,
                     "GiB", 3),
       output::value("activations_gib", "activations", activations, "GiB", 3),
       output::value("gib", "", all.gib, "GiB"),
       output::value("limit_gib", "", all.limit_gib, "GiB"), output::value("fits", "", all.fits)}});
  say(globals, "memory_estimate", document);
  return all.fits ? exit_yes : exit_no;
}

}  // namespace

int run_memory(const Arguments& arguments, Globals globals) {
  Options options("memory");
  options.value("rules", "VERSION", "allocator rules: `newer` (PyTorch 2.5 and later) or `2.4.0`");
  options.words(1, 1000).parse(arguments, globals);
  const std::string what = options.words()[0];
  const std::vector<std::string> kinds = {"estimate", "replay"};
  if (std::ranges::find(kinds, what) == kinds.end())
    throw Stop{exit_usage, fmt::format("`rehearse memory` can estimate and replay, not '{}'{}",
                                       what, did_you_mean(what, kinds))};
  if (options.words().size() < 2)
    throw Stop{exit_usage, fmt::format("memory {}: name a {}", what,
                                       what == "estimate" ? "plan" : "trace or a snapshot")};
  if (what == "estimate") {
    options.only({});
    return estimate(options.words(), globals);
  }
  const std::string& path = options.words()[1];
  const bool old = options.choice("rules", "newer", {"newer", "2.4.0"}) == "2.4.0";
  const allocator::Rules rules = old ? allocator::Rules::v2_4_0 : allocator::Rules::newer;
  const std::optional<OtherOptions> other = other_options(options.words(), rules);
  const std::string bytes = need(input::read_file(path, snapshot_bytes_max));
  // Pickles of protocol 2 or later begin with this byte; text never does.
  const bool pickle = !bytes.empty() && bytes[0] == '\x80';
  if (!pickle && static_cast<std::int64_t>(bytes.size()) > replay_bytes_max)
    throw Stop{exit_data, fmt::format("{}: error: the trace is larger than {} MiB, the most that "
                                      "is read of one in text",
                                      path, replay_bytes_max >> 20)};
  return pickle ? replay_pickle(bytes, path, rules, other, globals)
                : replay_text(bytes, path, rules, other, globals);
}

}  // namespace sim::command
