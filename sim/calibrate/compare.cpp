#include "sim/calibrate/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "sim/base/median.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/input/fields/fields.h"

namespace sim::calibrate {

namespace {

// A setting in a sentence, with {} for its value.
struct Spoken {
  std::string_view field, text;
};
constexpr std::array<Spoken, 5> spoken = {{
    {"gpus", "{} GPUs"},
    {"micro_batch", "micro batch {}"},
    {"global_batch", "global batch {}"},
    {"architecture.layers", "{} layers"},
    {"architecture.hidden", "hidden {}"},
}};

std::string in_words(const std::string& field, std::int64_t value) {
  for (const Spoken& one : spoken)
    if (one.field == field) return fmt::format(fmt::runtime(one.text), value);
  return fmt::format("{} {}", field, value);
}

std::int64_t planned(const std::string& field, const program::Plan& plan) {
  if (field == "gpus") return plan.world();
  return std::get<std::int64_t>(input::find_plan_field(field)->place.get(plan));
}

std::optional<std::int64_t> printed(const Measurements& log, std::string_view field) {
  const auto found = std::ranges::find(log.settings, field, &PrintedSetting::field);
  if (found == log.settings.end()) return std::nullopt;
  return found->value;
}

}  // namespace

double tokens_per_gpu(const Measurements& log, const program::Plan& plan) {
  const auto said = [&](const char* field) {
    return static_cast<double>(printed(log, field).value_or(planned(field, plan)));
  };
  return said("global_batch") * said("sequence") / said("gpus");
}

void OtherRun::add(OtherRun more) {
  differences.insert(differences.end(), more.differences.begin(), more.differences.end());
  for (const std::string& setting : more.settings)
    if (std::ranges::find(settings, setting) == settings.end()) settings.push_back(setting);
  other_model = other_model || more.other_model;
}

std::string OtherRun::remedy() const {
  if (!other_model) return fmt::format("write {}", fmt::join(settings, " "));
  if (settings.empty()) return "write model=NAME of the log's run";
  return fmt::format("write model=NAME of the log's run, and {}", fmt::join(settings, " "));
}

OtherRun other_run(const Measurements& log, const program::Plan& plan) {
  OtherRun other;
  struct Line {
    std::string where;
    std::vector<std::string> logged, planned;
  };
  std::vector<Line> lines;
  for (const PrintedSetting& one : log.settings) {
    const std::int64_t wanted = planned(one.field, plan);
    // The GPUs and the other degrees imply dp.
    if (one.value == wanted || (one.field == "dp" && printed(log, "gpus"))) continue;
    auto line = std::ranges::find(lines, one.where, &Line::where);
    if (line == lines.end()) line = lines.insert(lines.end(), {one.where, {}, {}});
    line->logged.push_back(in_words(one.field, one.value));
    line->planned.push_back(in_words(one.field, wanted));
    const bool of_model = one.field.starts_with("architecture.");
    other.other_model = other.other_model || of_model;
    if (!of_model) other.settings.push_back(fmt::format("{}={}", one.field, one.value));
  }
  for (const Line& line : lines)
    other.differences.push_back(
        {line.where, fmt::format("the log has {}; the plan has {}", fmt::join(line.logged, ", "),
                                 fmt::join(line.planned, ", "))});
  return other;
}

MeasuredRun measured_run(const std::vector<StepSample>& steps, double tokens) {
  MeasuredRun run;
  const std::size_t skipped = run.warm_up = steps.size() > 10 ? 3 : steps.size() > 1 ? 1 : 0;
  std::vector<double> seconds, flops, rates;
  for (std::size_t i = skipped; i < steps.size(); ++i) {
    const StepSample& s = steps[i];
    if (s.global_batch > 0 && s.global_batch != steps.back().global_batch) {
      ++run.ramp;
      continue;
    }
    double took = s.seconds;
    if (took == 0 && s.tokens_s_gpu > 0) took = tokens / s.tokens_s_gpu;
    if (took > 0) seconds.push_back(took);
    if (s.tflops_gpu > 0) flops.push_back(s.tflops_gpu);
    run.counts_recomputation = run.counts_recomputation || s.counts_recomputation;
    if (s.tokens_s_gpu > 0) rates.push_back(s.tokens_s_gpu);
    run.reserved_gib = std::max(run.reserved_gib, s.reserved_gib);
    run.allocated_gib = std::max(run.allocated_gib, s.allocated_gib);
  }
  run.steps = seconds.size();
  if (seconds.empty()) return run;
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) {
    return seconds[static_cast<std::size_t>(share * static_cast<double>(seconds.size() - 1))];
  };
  run.seconds = median(seconds);
  run.low = at(0.05);
  run.high = at(0.95);
  run.tflops_gpu = median(flops);
  run.tokens_s_gpu = rates.empty() ? tokens / run.seconds : median(rates);
  return run;
}

std::vector<Explanation> explanations(const answer::Answer& answer, double measured_seconds) {
  using engine::Account;
  const double predicted = answer::step_seconds(answer);
  const double change = measured_seconds - predicted;
  std::vector<Explanation> all;
  if (std::abs(change) < 0.01 * predicted) return all;
  const std::vector<double> accounts = answer::mean_accounts(answer.run);
  const auto sum = [&](std::initializer_list<Account> parts) {
    double seconds = 0;
    for (const Account part : parts) seconds += accounts[static_cast<std::size_t>(part)];
    return seconds;
  };
  // Waits scale with the kernels that a rank waits for.
  const double kernels = sum({Account::compute, Account::optimizer, Account::pp_fill_drain,
                              Account::pp_imbalance, Account::rank_wait});
  const double links = sum({Account::tp_exposed, Account::cp_exposed, Account::ep_exposed,
                            Account::dp_exposed, Account::pp_transfer});
  const double host = sum({Account::host});
  const auto part = [&](double seconds, std::string what, std::string calibration) {
    const double factor = seconds > 0 ? (seconds + change) / seconds : 0;
    if (factor > 0.2 && factor < 20)
      all.push_back({std::move(what), factor, change, std::move(calibration)});
  };
  const double rate = kernels > 0 ? kernels / (kernels + change) : 0;
  part(kernels, change > 0 ? "a slower GPU: its kernels" : "a faster GPU: its kernels",
       rate > 0 ? fmt::format("gemm.sustained and attention.sustained x {:.3f}", rate) : "");
  part(links,
       change > 0 ? "slower links: exposed communication" : "faster links: exposed communication",
       "");
  part(host,
       change > 0 ? "a slower CPU: what the GPU waits for it"
                  : "a faster CPU: what the GPU waits for it",
       host > 0 && host + change > 0 ? fmt::format("host.kernel x {:.3f}", (host + change) / host)
                                     : "");
  if (change > 0)
    all.push_back({"the data loader, a log or a checkpoint: each step waits", 0, change, ""});
  std::stable_sort(all.begin(), all.end(), [](const Explanation& a, const Explanation& b) {
    const auto size = [](const Explanation& e) {
      return e.factor > 0 ? std::abs(std::log(e.factor)) : 10.0;
    };
    return size(a) < size(b);
  });
  return all;
}

}  // namespace sim::calibrate
