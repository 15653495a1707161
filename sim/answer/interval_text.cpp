// interval_text.cpp — intervals in words.
#include <fmt/format.h>

#include <utility>

#include "sim/answer/interval.h"

namespace sim::answer {

namespace {

// "from 98 runs of 5 sources on this GPU and framework (a100-80, Megatron-LM)".
std::string basis_text(const ResidualRange& spread) {
  const std::string runs = fmt::format("{} runs of {} {}", spread.samples, spread.sources,
                                       spread.sources == 1 ? "source" : "sources");
  const char* fp8 = spread.fp8_unknown ? "; no run in fp8 on this GPU" : "";
  if (!spread.own_gpu)
    return fmt::format("extrapolated: no run on this GPU; from {} elsewhere ({}){}", runs,
                       spread.of, fp8);
  return fmt::format("from {} on this GPU{} ({}){}", runs,
                     spread.own_framework ? " and framework" : ", of other frameworks", spread.of,
                     fp8);
}

// The intervals, and the runs that they come from. Empty without intervals.
std::pair<std::string, std::string> in_words(const Intervals& all) {
  std::string text, basis;
  const auto add = [&](const char* what, const char* unit, int digits,
                       const std::optional<Interval>& one) {
    if (!one) return;
    text += fmt::format("{}{} {:.{}f}-{:.{}f} {}", text.empty() ? "" : ", ", what, one->low, digits,
                        one->high, digits, unit);
  };
  add("step", "s", 3, all.step_seconds);
  add("throughput", "TFLOP/s/GPU", 1, all.tflops_gpu);
  add("allocated", "GiB", 1, all.allocated_gib);
  add("reserved", "GiB", 1, all.reserved_gib);
  const auto add_basis = [&](const char* what, const std::optional<ResidualRange>& spread) {
    if (!spread) return;
    basis += fmt::format("{}{} {}", basis.empty() ? "" : "; ", what, basis_text(*spread));
  };
  add_basis("time", all.time);
  add_basis("memory", all.reserved);
  return {text.empty() ? "" : "90 % interval: " + text, basis};
}

}  // namespace

std::string intervals_text(const Intervals& intervals) {
  const auto [text, basis] = in_words(intervals);
  return text.empty() ? "" : fmt::format("{}\n  {}\n", text, basis);
}

std::string intervals_line(const Intervals& intervals) {
  const auto [text, basis] = in_words(intervals);
  return text.empty() ? "" : fmt::format("{}; {}", text, basis);
}

}  // namespace sim::answer
