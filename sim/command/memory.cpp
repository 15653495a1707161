// memory.cpp — `rehearse memory`: the closed-form estimate of a plan; the replay of a written
// allocator trace or of a recorded CUDA memory snapshot.
#include "sim/command/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sim/allocator/recorded/recording.h"
#include "sim/allocator/recorded/replay.h"
#include "sim/allocator/recorded/snapshot.h"
#include "sim/answer/evaluate.h"
#include "sim/base/text.h"
#include "sim/command/common/command.h"
#include "sim/input/plan/plan.h"
#include "sim/input/text/textproto.h"
#include "sim/output/document.h"

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

output::Document summary(const allocator::ReplaySummary& done) {
  const allocator::PoolStatistics& all = done.statistics.all;
  return {"",
          "",
          {},
          {output::Values{
              "",
              {output::value("commands", "commands", done.commands),
               output::value("allocations", "allocations", done.allocations),
               output::value("out_of_memory", "out of memory", done.out_of_memory),
               bytes("allocated_bytes", "allocated", all.allocated_bytes.current),
               bytes("reserved_bytes", "reserved", all.reserved_bytes.current),
               bytes("peak_allocated_bytes", "peak allocated", all.allocated_bytes.peak),
               bytes("peak_reserved_bytes", "peak reserved", all.reserved_bytes.peak),
               output::value("device_allocations", "asked of the device",
                             done.statistics.num_device_alloc),
               output::value("device_frees", "given back to it", done.statistics.num_device_free),
               output::value("retries", "retries", done.statistics.num_alloc_retries)}}}};
}

output::Document summary(const allocator::RecordingReplay& done) {
  const allocator::PoolStatistics& all = done.statistics.all;
  return {"",
          "",
          {},
          {output::Note{"",
                        fmt::format("{}: final map {}", done.exact() ? "exact" : "different",
                                    done.final_map_identical ? "identical" : "different"),
                        true},
           output::Values{
               "",
               {output::value("allocations", "allocations", done.allocations),
                output::value("allocations_at_recorded_address", "at the recorded address",
                              done.allocations_at_recorded_address),
                output::value("segment_events", "segment events", done.segment_events),
                output::value("segment_events_matched", "as recorded", done.segment_events_matched),
                output::value("segment_events_unexpected", "unexpected",
                              done.segment_events_unexpected),
                output::value("final_map_identical", "", done.final_map_identical),
                output::value("first_difference",
                              done.first_difference.empty() ? "" : "first difference",
                              done.first_difference),
                bytes("peak_allocated_bytes", "peak allocated", all.allocated_bytes.peak),
                bytes("peak_reserved_bytes", "peak reserved", all.reserved_bytes.peak)}}}};
}

// Replays a snapshot of torch.cuda.memory._dump_snapshot.
int replay_pickle(const std::string& content, const std::string& path, allocator::Rules rules,
                  Globals globals) {
  const allocator::Snapshot snapshot = need(allocator::read_snapshot(content, path));
  const allocator::RecordingReplay done = need(allocator::replay_snapshot(snapshot, rules, path));
  say(globals, "memory_replay", summary(done));
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

int replay_text(const std::string& text, const std::string& path, allocator::Rules rules,
                Globals globals) {
  const allocator::Trace trace = need(allocator::parse_trace(text, path, rules));
  std::string lines;
  const allocator::LineSink sink = [&](std::string_view line) {
    lines.append(line) += '\n';
    if (lines.size() < print_bytes) return;
    print(lines);
    lines.clear();
  };
  const allocator::ReplaySummary done =
      allocator::replay_trace(trace, rules, globals.json ? allocator::LineSink() : sink);
  if (!globals.json) print(lines);  // in text form the trace's answers are the output
  if (globals.json) say(globals, "memory_replay", summary(done));
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
  if (options.words().size() > 2) throw Stop{exit_usage, "one trace at a time"};
  const std::string& path = options.words()[1];
  const bool old = options.choice("rules", "newer", {"newer", "2.4.0"}) == "2.4.0";
  const allocator::Rules rules = old ? allocator::Rules::v2_4_0 : allocator::Rules::newer;
  const std::string bytes = need(input::read_file(path, snapshot_bytes_max));
  // Pickles of protocol 2 or later begin with this byte; text never does.
  const bool pickle = !bytes.empty() && bytes[0] == '\x80';
  if (!pickle && static_cast<std::int64_t>(bytes.size()) > replay_bytes_max)
    throw Stop{exit_data, fmt::format("{}: error: the trace is larger than {} MiB, the most that "
                                      "is read of one in text",
                                      path, replay_bytes_max >> 20)};
  return pickle ? replay_pickle(bytes, path, rules, globals)
                : replay_text(bytes, path, rules, globals);
}

}  // namespace sim::command
