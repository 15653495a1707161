// replayed.cpp — one plan's replay: its result, its text form, and its memory margin.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/answer/interval.h"
#include "sim/answer/pass_times.h"
#include "sim/engine/rank/tensor_peak.h"
#include "sim/study/plan/search.h"

namespace sim::planner {

using output::Json;

namespace {

// By default a plan fits with this probability at least, and leaves this share of the GPU's memory,
// below which a verdict is tight (answer/verdict.cpp).
constexpr double likely_enough = 0.95, tight_below = 0.02;

}  // namespace

Bytes headroom(const Wanted& wanted, const answer::Site& site) {
  if (wanted.headroom) return *wanted.headroom;
  const auto& memory = site.profile.device.memory;
  const double range = static_cast<double>((memory.unexplained_most - memory.unexplained_least).n);
  const auto enough = static_cast<std::int64_t>(likely_enough * range);
  const auto tight =
      static_cast<std::int64_t>(tight_below * static_cast<double>(site.machine.gpu.memory.n));
  return Bytes{std::max(tight, (memory.unexplained_least - memory.unexplained).n + enough)};
}

double fits_likely(const answer::Site& site, Bytes left) {
  const auto& memory = site.profile.device.memory;
  const std::int64_t range = (memory.unexplained_most - memory.unexplained_least).n;
  if (range == 0) return -1;
  const std::int64_t fits = (memory.unexplained - memory.unexplained_least + left).n;
  return std::clamp(static_cast<double>(fits) / static_cast<double>(range), 0.0, 1.0);
}

namespace {

// Bytes of the tensors of the class that runs out of memory.
std::int64_t tensors_of(const answer::CheckedPlan& plan, const engine::RunReport& run) {
  return engine::peak_of_tensors(answer::timed_job(plan)->classes[run.out_of_memory.front()]);
}

}  // namespace

std::string to_text(const Replayed& one) {
  const Json json = {
      {"core", one.core},         {"variant", one.variant},     {"fits", one.fits},
      {"step_ps", one.step_ps},   {"tokens", one.tokens_s_gpu}, {"tflops", one.tflops_gpu},
      {"mfu", one.mfu},           {"bubble", one.bubble},       {"low", one.low_s},
      {"high", one.high_s},       {"reserved", one.reserved},   {"capacity", one.capacity},
      {"accounts", one.accounts}, {"reason", one.reason},       {"likely", one.likely},
      {"stopped", one.stopped},   {"needs", one.needs}};
  return json.dump();
}

Replayed replayed_of(const std::string& text) {
  const Json json = Json::parse(text);
  Replayed one{json["core"],     json["variant"], json["fits"],     json["step_ps"],
               json["tokens"],   json["tflops"],  json["mfu"],      json["bubble"],
               json["low"],      json["high"],    json["reserved"], json["capacity"],
               json["accounts"], json["reason"],  json["likely"]};
  one.stopped = json.at("stopped");
  one.needs = json.at("needs");
  return one;
}

Replayed replay_plan(const Space& space, std::uint32_t core, int variant, answer::Site& site,
                     const Wanted& wanted, Extent extent) {
  const PlanShape& of = space.cores()[core];
  Replayed out = replayed(answer::checked(space.plan(of, variant), site),
                          space.bases()[of.base].file.framework, wanted, extent);
  out.core = core;
  out.variant = static_cast<std::uint16_t>(variant);
  return out;
}

Replayed replayed(const answer::CheckedPlan& plan, const std::string& framework,
                  const Wanted& wanted, Extent extent) {
  const answer::Site& site = plan.site();
  engine::Options options;
  options.until_out = extent != Extent::whole;
  if (extent == Extent::while_it_fits) options.least_free = headroom(wanted, site);
  if (extent == Extent::few_retries) options.most_retries = plan->microbatches() - 1;
  const answer::Answer answer = answer::evaluate_once(plan, options);
  Replayed out;
  out.step_ps = answer.run.step_time.ps;
  const engine::ClassReport& who = answer::fullest(answer.run);
  out.reserved = who.peak_reserved.n;
  out.capacity = who.capacity.n;
  if (!answer.run.fits()) {
    out.reason = answer::oom_reason(answer.run);
    if (extent == Extent::few_retries) {
      out.step_ps = 0;
      out.needs = tensors_of(plan, answer.run);
    }
    return out;
  }
  if (answer.run.ended_early) {
    out.reason = "less room than is wanted";
    out.stopped = true;
    return out;
  }
  out.likely = fits_likely(site, who.capacity - who.peak_reserved);
  out.fits = who.capacity - who.peak_reserved >= headroom(wanted, site);
  if (!out.fits) out.reason = "less room than is wanted";
  out.tokens_s_gpu = answer::tokens_per_second_gpu(answer);
  out.tflops_gpu = answer::rate(answer, "megatron").tflops_gpu;
  out.mfu = answer.mfu;
  out.bubble = answer.run.bubble;
  out.accounts = answer::mean_accounts(answer.run);
  if (wanted.residuals != nullptr) {
    const answer::Basis basis =
        answer::basis_of(site.profile.device, site.machine.gpu.name, framework);
    const answer::Intervals intervals =
        answer::intervals(answer, *wanted.residuals, basis, "megatron");
    if (intervals.step_seconds) {
      out.low_s = intervals.step_seconds->low;
      out.high_s = intervals.step_seconds->high;
    }
  }
  return out;
}

}  // namespace sim::planner
