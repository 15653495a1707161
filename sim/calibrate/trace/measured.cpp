#include "sim/calibrate/trace/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "sim/base/median.h"
#include "sim/calibrate/readers/reader.h"

namespace sim::calibrate {

namespace {

std::int64_t nanoseconds(double us) {
  return std::llround(us * 1e3);
}

struct Span {
  double begin, end;
  std::string_view name;
};

// The profiler's steps in order of time. Equal annotations of several threads count once.
std::vector<Span> annotated_steps(const TraceFile& file) {
  std::vector<Span> spans;
  for (const TraceEvent& e : file.events)
    if (e.kind == EventKind::annotation && e.name.starts_with("ProfilerStep"))
      spans.push_back({e.start_us, e.start_us + e.duration_us, e.name});
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.begin < b.begin; });
  const auto same = [](const Span& a, const Span& b) { return a.name == b.name; };
  spans.erase(std::unique(spans.begin(), spans.end(), same), spans.end());
  return spans;
}

// The shortest period after which 90 % of the names repeat; 0 if there is none.
std::size_t period(const std::vector<MeasuredKernel>& kernels) {
  constexpr std::size_t most_tried = 512;
  std::map<std::string_view, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < kernels.size(); ++i) places[kernels[i].name].push_back(i);
  // Rare names repeat with the step, frequent ones with the layer: rare ones are tried first.
  std::vector<const std::vector<std::size_t>*> rare;
  for (const auto& [name, at] : places)
    if (at.size() >= 2) rare.push_back(&at);
  std::stable_sort(rare.begin(), rare.end(),
                   [](const auto* a, const auto* b) { return a->size() < b->size(); });
  std::vector<std::size_t> tried;
  for (const auto* at : rare) {
    for (std::size_t i = 1; i < at->size() && tried.size() < most_tried; ++i)
      tried.push_back((*at)[i] - (*at)[0]);
    if (tried.size() >= most_tried) break;
  }
  std::sort(tried.begin(), tried.end());
  tried.erase(std::unique(tried.begin(), tried.end()), tried.end());
  for (const std::size_t p : tried) {
    if (p < 8 || 2 * p > kernels.size() + p / 2) continue;
    std::size_t equal = 0;
    for (std::size_t i = p; i < kernels.size(); ++i)
      equal += kernels[i].name == kernels[i - p].name;
    if (equal * 10 < (kernels.size() - p) * 9) continue;
    return p;
  }
  return 0;
}

void close(MeasuredStep& step, const std::vector<MeasuredKernel>& kernels) {
  step.begin_ns = kernels[step.kernels.front()].start_ns;
  for (const std::uint32_t k : step.kernels)
    step.end_ns = std::max(step.end_ns, kernels[k].end_ns());
}

void cut_by_annotations(const std::vector<Span>& spans, double zero_us, MeasuredTrace& out) {
  std::vector<MeasuredStep> steps(spans.size());
  for (std::uint32_t k = 0; k < out.kernels.size(); ++k) {
    const MeasuredKernel& kernel = out.kernels[k];
    const std::int64_t when = kernel.launch_ns == unknown_time ? kernel.start_ns : kernel.launch_ns;
    const double at = zero_us + static_cast<double>(when) * 1e-3;
    const auto behind = std::upper_bound(spans.begin(), spans.end(), at,
                                         [](double t, const Span& s) { return t < s.begin; });
    if (behind == spans.begin()) continue;
    const auto index = static_cast<std::size_t>(behind - spans.begin() - 1);
    // Launches in the gap between two steps belong to the first; after the last step they belong to
    // none.
    if (at > spans[index].end && behind == spans.end()) continue;
    steps[index].kernels.push_back(k);
  }
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].kernels.empty()) continue;
    steps[s].name = std::string(spans[s].name);
    out.steps.push_back(std::move(steps[s]));
  }
  out.found = fmt::format("{} steps by the profiler's annotations", out.steps.size());
}

void cut_by_period(std::size_t p, MeasuredTrace& out) {
  for (std::uint32_t k = 0; k + p <= out.kernels.size(); k += static_cast<std::uint32_t>(p)) {
    MeasuredStep step;
    step.name = fmt::format("period {}", out.steps.size() + 1);
    for (std::uint32_t i = k; i < k + p; ++i) step.kernels.push_back(i);
    out.steps.push_back(std::move(step));
  }
  out.found = fmt::format("{} steps of {} kernels that repeat", out.steps.size(), p);
}

// The profiler may stop in the middle of the last step: it counts only if it has about as many
// kernels as the others.
void leave_out_unfinished(MeasuredTrace& out) {
  if (out.steps.size() < 3) return;
  std::vector<double> kernels;
  for (const MeasuredStep& step : out.steps)
    kernels.push_back(static_cast<double>(step.kernels.size()));
  if (kernels.back() >= 0.9 * median(kernels)) return;
  out.found += fmt::format("; {} is left out: it has {} kernels, the others {}",
                           out.steps.back().name, kernels.back(), median(kernels));
  out.steps.pop_back();
}

void cut(const TraceFile& file, double zero_us, MeasuredTrace& out) {
  if (out.kernels.empty()) return;
  const std::vector<Span> spans = annotated_steps(file);
  if (!spans.empty()) {
    cut_by_annotations(spans, zero_us, out);
  } else if (const std::size_t p = period(out.kernels); p > 0) {
    cut_by_period(p, out);
  }
  if (out.steps.empty()) {
    MeasuredStep whole;
    whole.name = "all";
    for (std::uint32_t k = 0; k < out.kernels.size(); ++k) whole.kernels.push_back(k);
    out.steps.push_back(std::move(whole));
    out.found = "the whole trace taken as one step: nothing in it says where steps begin";
  }
  if (file.end_to_end) out.found += "; it has no times but durations, laid end to end";
  leave_out_unfinished(out);
  for (MeasuredStep& step : out.steps) close(step, out.kernels);
  for (std::size_t s = 0; s < out.steps.size(); ++s) {
    const bool last = s + 1 == out.steps.size();
    out.steps[s].length_ns =
        (last ? out.steps[s].end_ns : out.steps[s + 1].begin_ns) - out.steps[s].begin_ns;
  }
}

MeasuredKernel kernel_of(const TraceFile& file, const TraceEvent& e, const TraceEvent* owner) {
  MeasuredKernel k;
  k.family = e.kind == EventKind::copy ? KernelFamily::copy : family_of(e.name);
  k.stream = e.stream;
  k.name = e.name;
  k.duration_ns = nanoseconds(e.duration_us);
  if (!communicates(k.family)) return k;
  const bool own = !file.argument(e, Argument::group_size).empty();
  const TraceEvent& who = own || owner == nullptr ? e : *owner;
  k.group = file.argument(who, Argument::group_name);
  k.ranks = static_cast<int>(positive_whole(file.argument(who, Argument::group_size), 1 << 20));
  k.bytes = std::max(positive_whole(file.argument(who, Argument::in_elements)),
                     positive_whole(file.argument(who, Argument::out_elements))) *
            bytes_of_type(file.argument(who, Argument::dtype));
  return k;
}

// A gather takes world - 1 copies, or world copies if the shard is not part of the output. FSDP2
// gathers in place.
void find_stand_ins(MeasuredTrace& out) {
  std::map<int, int> copies;  // by stream; -1: the stream also has other kernels
  for (const MeasuredKernel& k : out.kernels) {
    int& count = copies.try_emplace(k.stream, 0).first->second;
    count = count >= 0 && k.name.starts_with("Memcpy DtoD") ? count + 1 : -1;
  }
  for (MeasuredKernel& k : out.kernels) {
    const int count = copies.at(k.stream);
    for (const int each : {out.world - 1, out.world}) {
      if (k.stand_in() || each < 1 || count < each || count % each != 0) continue;
      k.family = KernelFamily::all_gather;
      k.copies = each;
    }
  }
}

void read_top(const TraceFile& file, MeasuredTrace& out) {
  const auto parsed = [&](const char* key) {
    const auto found = file.top.find(key);
    if (found == file.top.end()) return nlohmann::json();
    auto value = nlohmann::json::parse(found->second, nullptr, false);
    return value.is_discarded() ? nlohmann::json() : value;
  };
  const auto whole = [](const nlohmann::json& object, const char* key, int otherwise) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number_integer()) return otherwise;
    const auto value = found->get<std::int64_t>();
    return value >= 0 && value < 1 << 24 ? static_cast<int>(value) : otherwise;
  };
  if (const auto info = parsed("distributedInfo"); info.is_object()) {
    out.rank = whole(info, "rank", -1);
    out.world = whole(info, "world_size", 0);
    out.fake = info.value("backend", nlohmann::json()) == "fake";
  }
  const auto devices = parsed("deviceProperties");
  if (devices.is_array() && !devices.empty() && devices[0].is_object() &&
      devices[0].contains("name") && devices[0]["name"].is_string())
    out.device = devices[0]["name"].get<std::string>();
}

}  // namespace

MeasuredTrace measured_trace(const TraceFile& file, const std::string& path) {
  MeasuredTrace out;
  out.path = path;
  out.texts = file.texts;
  read_top(file, out);
  std::unordered_map<std::int64_t, double> launched;  // by correlation
  std::unordered_map<std::int64_t, const TraceEvent*> operations;
  double zero = 0;
  bool any = false;
  for (const TraceEvent& e : file.events) {
    if (e.kind == EventKind::call && e.correlation >= 0) launched[e.correlation] = e.start_us;
    if (e.kind == EventKind::operation && e.external >= 0) operations[e.external] = &e;
    if (e.kind != EventKind::kernel && e.kind != EventKind::copy) continue;
    zero = any ? std::min(zero, e.start_us) : e.start_us;
    any = true;
  }
  for (const TraceEvent& e : file.events) {
    if (e.kind != EventKind::kernel && e.kind != EventKind::copy) continue;
    if (!(e.duration_us > 0) || e.duration_us > 1e9 || !(e.start_us - zero < 1e12)) continue;
    const auto owner = operations.find(e.external);
    MeasuredKernel k = kernel_of(file, e, owner == operations.end() ? nullptr : owner->second);
    k.start_ns = nanoseconds(e.start_us - zero);
    const auto launch = launched.find(e.correlation);
    if (e.correlation >= 0 && launch != launched.end())
      k.launch_ns = nanoseconds(launch->second - zero);
    out.kernels.push_back(k);
  }
  std::stable_sort(
      out.kernels.begin(), out.kernels.end(),
      [](const MeasuredKernel& a, const MeasuredKernel& b) { return a.start_ns < b.start_ns; });
  out.zero_ns = nanoseconds(zero);
  if (out.fake) find_stand_ins(out);
  out.end_to_end = file.end_to_end;
  out.shaped = measurements_of(file, path).kernels;
  cut(file, zero, out);
  return out;
}

}  // namespace sim::calibrate
