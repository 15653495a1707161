// memory.cpp — `rehearse memory`: the closed-form estimate of a plan; the replay of a
// written allocator trace or of a recorded CUDA memory snapshot.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/command/command.h"
#include "sim/config/plan.h"
#include "sim/config/textproto.h"
#include "sim/core/text.h"
#include "sim/memory/recording.h"
#include "sim/memory/replay.h"
#include "sim/memory/snapshot.h"
#include "sim/report/json.h"
#include "sim/search/evaluate.h"

namespace sim::command {

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

int estimate(const std::vector<std::string>& words, Globals globals) {
  const config::PlanFile file =
      need(config::load_plan(workload_path(words[1]), {words.begin() + 2, words.end()}));
  const memory::Estimate parts = memory::estimate(search::estimator_input(file.plan));
  const report::Estimate all = search::estimate(file.plan, file.machine.gpu);
  constexpr double bytes_per_gib = 1024.0 * 1024.0 * 1024.0;
  const double weights = parts.weight_optimizer_bytes / bytes_per_gib;
  const double activations = parts.activation_bytes / bytes_per_gib;
  if (globals.json) {
    const report::Json json = {
        {"method", "closed form of arXiv 2411.06465, one GPU of the first stage"},
        {"parameters", parts.params_first_stage},
        {"weights_gradients_optimizer_gib", weights},
        {"activations_gib", activations},
        {"gib", all.gib},
        {"limit_gib", all.limit_gib},
        {"fits", all.fits}};
    print(report::document("memory_estimate", json).dump(2) + "\n");
  } else {
    print(
        fmt::format("closed form: {:.2f} GiB, {} the 80 % rule's {:.1f} on {}: {}\n"
                    "one GPU of the first stage (arXiv 2411.06465); no temporaries, fragmentation, "
                    "NCCL or CUDA "
                    "context: `rehearse run` replays them\n\n"
                    "  weights, gradients, optimizer  {:8.3f} GiB  {:.0f} parameters\n"
                    "  activations                    {:8.3f} GiB\n",
                    all.gib, all.fits ? "within" : "above", all.limit_gib, file.machine.gpu.name,
                    all.fits ? "fits" : "may run out of memory", weights, parts.params_first_stage,
                    activations));
  }
  return all.fits ? exit_yes : exit_no;
}

}  // namespace

int run_memory(const Arguments& arguments, Globals globals) {
  Options options("memory");
  options.value("rules", "VERSION", "allocator rules: `newer` (PyTorch 2.5 and later) or `2.4.0`");
  options.words(2, 1000).parse(arguments, globals);
  const std::string what = options.words()[0];
  const std::string path = options.words()[1];
  if (what == "estimate") return estimate(options.words(), globals);
  if (what == "replay" && options.words().size() > 2) {
    throw Stop{exit_usage, "one trace at a time"};
  }
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

}  // namespace sim::command
