// command_memory.cpp — `rehearse memory`: the closed-form estimate of a plan; the replay of a
// recorded or written allocator trace.
#include <fmt/format.h>

#include "sim/command.h"
#include "sim/config/textproto.h"
#include "sim/core/text.h"
#include "sim/memory/replay.h"
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

int replay_text(const std::string& path, memory::Rules rules, Globals globals) {
  const std::string text = need(config::read_file(path, trace_bytes_max));
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
  if (what == "replay") return replay_text(path, rules, globals);
  const std::vector<std::string> kinds = {"estimate", "replay"};
  throw Stop{exit_usage, fmt::format("`rehearse memory` can estimate and replay, not '{}'{}", what,
                                     did_you_mean(what, kinds))};
}

}  // namespace sim
