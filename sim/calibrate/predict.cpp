// predict.cpp — predicts one row: plan, machine, replay, and the results in the row's own units.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/answer/pass_times.h"
#include "sim/base/brief.h"
#include "sim/calibrate/rows/row_text.h"
#include "sim/calibrate/validate.h"

namespace sim::calibrate {

namespace {

using output::Json;

std::string joined(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, "; "));
}

// Memory peaks of the rank that the row's memory belongs to. For a stage: its rank with the largest
// peak.
void fill_memory(const RowPlan& mapped, const engine::RunReport& run, Prediction& out) {
  Bytes allocated{}, reserved{};
  const auto count = [&](const engine::ClassReport& who) {
    allocated = std::max(allocated, who.peak_allocated);
    reserved = std::max(reserved, who.peak_reserved);
  };
  if (mapped.memory_stage >= 0) {
    for (const engine::ClassReport& who : run.classes)
      if (who.stage == mapped.memory_stage &&
          (mapped.memory_cp_rank < 0 || who.cp_rank == mapped.memory_cp_rank))
        count(who);
  } else if (mapped.memory_rank == MemoryRank::first) {
    count(run.classes.front());
  } else if (mapped.memory_rank == MemoryRank::last) {
    count(run.classes.back());
  } else {
    std::for_each(run.classes.begin(), run.classes.end(), count);
  }
  out.allocated_gib = gib(allocated);
  out.reserved_gib = gib(reserved);
}

// Why the row's plan cannot be what ran: between steps its rank held less than the weights,
// gradients and optimizer state of that plan. "" if it can.
std::string below_state(const Row& row, const RowPlan& mapped, const engine::RunReport& run) {
  const auto held = number(cell(row, "cur_alloc_gib"));
  if (!held || mapped.memory_stage < 0) return "";
  std::optional<Bytes> least;
  for (const engine::ClassReport& who : run.classes)
    if (who.stage == mapped.memory_stage)
      least = std::min(least.value_or(who.static_bytes), who.static_bytes);
  if (!least || gib(*least) <= *held) return "";
  return fmt::format(
      "its rank held {:.1f} GiB between steps, less than the {:.1f} GiB of weights, gradients and "
      "optimizer state of its plan",
      *held, gib(*least));
}

// The same plan with equal stages. Embedding and head take no time; where they count as layers,
// layers replace them. The zero-bubble paper computes its bubbles from one duration per pass, so
// for equal stages [arXiv 2401.10241, section 5.3].
std::optional<program::Plan> with_equal_stages(const Row& row, const program::Plan& plan) {
  if (cell(row, "bubble_kind") != "equal stages") return std::nullopt;
  program::Plan equal = plan;
  equal.architecture.layers += plan.pipeline.account_for_embedding + plan.pipeline.account_for_loss;
  equal.pipeline.account_for_embedding = equal.pipeline.account_for_loss = false;
  equal.architecture.vocab = plan.mesh.tp;
  return equal;
}

// Time of the predicted step that the row's time does not contain. Sailor times only train_batch,
// between two synchronisations, without the training loop's own work [eth-easl/sailor
// third_party/Megatron-DeepSpeed/megatron/training.py:train_step].
Duration untimed(const Row& row, const answer::Site& site) {
  return cell(row, "time_kind") == "train_batch" ? site.profile.device.host.step : Duration{};
}

void fill(const RowPlan& mapped, const answer::Answer& answer, Duration untimed, Prediction& out) {
  const engine::RunReport& run = answer.run;
  out.oom = !run.fits();
  out.rule_says_oom = !answer.estimate.fits;
  out.tight = answer.verdict.tight;
  out.fits_probability = answer.verdict.fits_probability;
  if (!run.fits()) {
    out.reason = answer::oom_reason(run);
    return;
  }
  fill_memory(mapped, run, out);
  if (mapped.memory_only) return;
  const program::Plan& plan = mapped.plan;
  const double time = answer::step_seconds(answer) - seconds(untimed);
  model::Batch batch;
  batch.sequences = plan.batch.global_batch;
  batch.sequence = static_cast<double>(plan.batch.sequence);
  batch.vocab = static_cast<double>(model::padded_vocab(plan.architecture.vocab, plan.mesh.tp));
  batch.recompute = answer::flops_recompute(plan.policy.recompute);
  const double flops = mapped.convention->flops(plan.architecture, batch);
  out.iter_time_s = time;
  out.tflops_gpu = flops / time / plan.world() * 1e-12;
  out.bubble_pct = 100 * run.bubble;
}

// Sets the situation that intervals depend on, and whether the profile was fitted on the row.
void describe(const RowPlan& mapped, const answer::Site& site, Prediction& out) {
  const device::Profile& profile = site.profile.device;
  const answer::Basis basis = answer::basis_of(profile, site.machine.gpu.name, mapped.family);
  out.situation.profile = basis.profile;
  out.situation.framework = basis.framework;
  out.situation.shards = mapped.plan.shards_parameters();
  out.situation.mixture = mapped.plan.architecture.is_mixture();
  out.situation.fp8 = mapped.plan.numerics.fp8;
  out.situation.many_nodes = mapped.plan.world() > site.machine.cluster.node.gpus;
  out.situation.context_parallel = mapped.plan.mesh.cp > 1;
  const std::vector<std::string>& fitted = profile.provenance.fitted_rows;
  out.fitted = std::find(fitted.begin(), fitted.end(), out.row_id) != fitted.end();
}

Json json_of(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json json_of(const std::optional<bool>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class T>
std::optional<T> optional_of(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional<T>(json.get<T>());
}

// A reason quotes the cells of the row briefly, also without quotation marks.
std::string with_short_quotes(std::string reason, const Row& row) {
  for (const auto& [column, text] : row) {
    const std::string shown = brief(text);
    if (shown == text) continue;
    for (std::size_t at = reason.find(text); at != std::string::npos; at = reason.find(text, at)) {
      reason.replace(at, text.size(), shown);
      at += shown.size();
    }
  }
  return reason;
}

// The row with settings that it leaves unsaid. Recomputation has a column of its own.
Row with_settings(Row row, const std::vector<std::string>& settings) {
  constexpr std::string_view recompute = "recompute=";
  for (const std::string& one : settings) {
    if (one.starts_with(recompute)) {
      row["recompute"] = one.substr(recompute.size());
    } else {
      std::string& all = row["settings"];
      all += (all.empty() ? "" : "; ") + one;
    }
  }
  return row;
}

// Settings that save memory and that the row does not state, in the order of the time they cost.
std::vector<std::string> unsaid_savings(const RowPlan& mapped) {
  const program::Plan& plan = mapped.plan;
  std::vector<std::string> all;
  const auto offer = [&](bool there, std::string_view field, const char* setting) {
    if (there && std::ranges::count(mapped.said, field) == 0) all.emplace_back(setting);
  };
  offer(plan.stack.attention_mask, "attention_mask", "attention_mask=false");
  offer(plan.mesh.tp > 1 && !plan.uses_sequence_parallel(), "sequence_parallel",
        "sequence_parallel=true");
  offer(plan.environment.allocator_options.empty(), "allocator_options",
        "allocator_options=expandable_segments:True");
  offer(plan.trains_adapters(), "lora_rank", "lora_rank=8");
  offer(plan.trains_adapters(), "lora_modules", "lora_modules=linear_qkv");
  offer(plan.stack.cross_entropy == program::CrossEntropy::stepwise, "cross_entropy",
        "cross_entropy=native");
  offer(plan.optimizer.precision_aware && plan.optimizer.exp_avg_bytes > 2, "exp_avg_dtype",
        "exp_avg_dtype=bf16; exp_avg_sq_dtype=bf16");
  if (mapped.assumes_recompute)
    for (const char* level : {"recompute=selective", "recompute=full"}) all.emplace_back(level);
  return all;
}

// Whether the plan of the row fits; false if it is not simulated.
bool fits(const Row& row, answer::Sites& sites, const Circumstances& circumstances) {
  const RowPlan mapped = plan_of(row, circumstances.machine);
  if (!mapped.unsupported.empty()) return false;
  const Result<answer::Site*> site = sites.of(mapped.machine);
  if (!site) return false;
  const Result<answer::CheckedPlan> checked = answer::check(mapped.plan, **site);
  return checked && answer::evaluate(*checked, {.memory = circumstances.memory}).run.fits();
}

// `less`: what is assumed beyond the row; null: nothing.
Prediction predict_row(const input::RunsRow& from, const LessMemory* less, answer::Sites& sites,
                       const Circumstances& circumstances) {
  const Row& row = less == nullptr ? from.cells : less->row;
  Prediction out;
  out.row_id = cell(row, "row_id");
  if (!from.problems.empty()) {
    out.status = "unsupported";
    out.reason = fmt::format("line {}: {}", from.line, joined(from.problems));
    return out;
  }
  RowPlan mapped = plan_of(row, circumstances.machine);
  out.assumptions = mapped.assumptions;
  out.assumes_gpus = mapped.assumes_gpus;
  if (!mapped.unsupported.empty()) {
    out.status = "unsupported";
    out.reason = mapped.unsupported;
    return out;
  }
  if (less != nullptr) out.assumptions.push_back(less->text);
  if (mapped.memory_only) out.assumptions.emplace_back("memory alone, times are a guess");
  out.plan = program::short_name(mapped.plan);
  const Result<answer::Site*> site = sites.of(mapped.machine);
  if (!site) {
    out.status = "unsupported";
    out.reason = site.errors().front().where + ": " + site.errors().front().message;
    return out;
  }
  const Result<answer::CheckedPlan> checked = answer::check(mapped.plan, **site);
  if (!checked) {
    out.status = "impossible";
    out.reason = joined(messages(checked.errors()));
    return out;
  }
  const answer::Answer answer = answer::evaluate(*checked, {.memory = circumstances.memory});
  if (std::string why = below_state(row, mapped, answer.run); !why.empty()) {
    out.status = "unsupported";
    out.reason = std::move(why);
    return out;
  }
  out.status = "predicted";
  describe(mapped, **site, out);
  fill(mapped, answer, untimed(row, **site), out);
  if (const auto equal = with_equal_stages(row, mapped.plan); equal && out.bubble_pct)
    if (const auto possible = answer::check(*equal, **site))
      out.bubble_pct = answer::bubble_of_pass_times(*possible);
  if (out.reason.empty() && !out.assumptions.empty()) {
    out.reason = "assumed: " + joined(out.assumptions);
  }
  return out;
}

}  // namespace

std::optional<LessMemory> less_memory(const Row& row, answer::Sites& sites,
                                      const Circumstances& circumstances) {
  if (cell(row, "oom") != "0" || circumstances.memory == engine::MemoryDetail::none) return {};
  const RowPlan mapped = plan_of(row, circumstances.machine);
  if (!mapped.unsupported.empty() || fits(row, sites, circumstances)) return {};
  std::vector<std::string> taken;
  const auto fits_with = [&](const std::vector<std::string>& settings) {
    return fits(with_settings(row, settings), sites, circumstances);
  };
  bool found = false;
  for (const std::string& one : unsaid_savings(mapped)) {
    if (one.starts_with("recompute=")) std::erase(taken, "recompute=selective");
    taken.push_back(one);
    if ((found = fits_with(taken))) break;
  }
  if (!found) return {};
  // Without those that are not needed.
  for (std::size_t i = 0; i + 1 < taken.size();) {
    std::vector<std::string> fewer = taken;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (fits_with(fewer))
      taken = std::move(fewer);
    else
      ++i;
  }
  return LessMemory{with_settings(row, taken),
                    fmt::format("{}: the least with which it fits", fmt::join(taken, ", "))};
}

Prediction predict(const input::RunsRow& row, answer::Sites& sites,
                   const Circumstances& circumstances) {
  Prediction out = predict_row(row, nullptr, sites, circumstances);
  if (out.oom != false)
    if (const auto less = less_memory(row.cells, sites, circumstances))
      out = predict_row(row, &*less, sites, circumstances);
  out.reason = with_short_quotes(std::move(out.reason), row.cells);
  return out;
}

Result<std::string> row_file(const Row& row, answer::Sites& sites) {
  const std::string id = cell(row, "row_id");
  const auto less = less_memory(row, sites);
  const RowPlan mapped = plan_of(less ? less->row : row);
  if (!mapped.unsupported.empty()) return Diagnostics{{id, mapped.unsupported}};
  std::string text = fmt::format("# The run {} of a table of measured runs, as a plan.\n", id);
  for (const std::string& assumed : mapped.assumptions) text += "# assumed: " + assumed + "\n";
  if (less) text += "# assumed: " + less->text + "\n";
  return text + mapped.file;
}

std::string to_text(const Prediction& p) {
  return output::line({{"row_id", p.row_id},
                       {"status", p.status},
                       {"reason", p.reason},
                       {"assumptions", p.assumptions},
                       {"plan", p.plan},
                       {"predicted_iter_time_s", json_of(p.iter_time_s)},
                       {"predicted_tflops_gpu", json_of(p.tflops_gpu)},
                       {"predicted_mem_alloc_peak_gib", json_of(p.allocated_gib)},
                       {"predicted_mem_reserved_peak_gib", json_of(p.reserved_gib)},
                       {"predicted_oom", json_of(p.oom)},
                       {"predicted_tight", json_of(p.tight)},
                       {"predicted_fits_probability", json_of(p.fits_probability)},
                       {"predicted_bubble_pct", json_of(p.bubble_pct)},
                       {"rule_80_percent_says_oom", json_of(p.rule_says_oom)},
                       {"profile", p.situation.profile},
                       {"framework", p.situation.framework},
                       {"many_nodes", p.situation.many_nodes},
                       {"context_parallel", p.situation.context_parallel},
                       {"shards", p.situation.shards},
                       {"mixture", p.situation.mixture},
                       {"fp8", p.situation.fp8},
                       {"fitted", p.fitted},
                       {"assumes_gpus", p.assumes_gpus}});
}

Prediction from_text(const std::string& text) {
  const Json json = Json::parse(text);
  Prediction p;
  p.row_id = json.at("row_id");
  p.status = json.at("status");
  p.reason = json.at("reason");
  p.assumptions = json.at("assumptions").get<std::vector<std::string>>();
  p.plan = json.at("plan");
  p.iter_time_s = optional_of<double>(json.at("predicted_iter_time_s"));
  p.tflops_gpu = optional_of<double>(json.at("predicted_tflops_gpu"));
  p.allocated_gib = optional_of<double>(json.at("predicted_mem_alloc_peak_gib"));
  p.reserved_gib = optional_of<double>(json.at("predicted_mem_reserved_peak_gib"));
  p.oom = optional_of<bool>(json.at("predicted_oom"));
  p.tight = optional_of<bool>(json.at("predicted_tight"));
  p.fits_probability = optional_of<double>(json.at("predicted_fits_probability"));
  p.bubble_pct = optional_of<double>(json.at("predicted_bubble_pct"));
  p.rule_says_oom = optional_of<bool>(json.at("rule_80_percent_says_oom"));
  p.situation.profile = json.at("profile");
  p.situation.framework = json.at("framework");
  p.situation.many_nodes = json.at("many_nodes");
  p.situation.context_parallel = json.at("context_parallel");
  p.situation.shards = json.at("shards");
  p.situation.mixture = json.at("mixture");
  p.situation.fp8 = json.at("fp8");
  p.fitted = json.at("fitted");
  p.assumes_gpus = json.at("assumes_gpus");
  return p;
}

}  // namespace sim::calibrate
