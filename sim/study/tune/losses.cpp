#include "sim/study/tune/losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/text.h"
#include "sim/job/schedule/schedule.h"
#include "sim/output/documents/run_text.h"

namespace sim::study {

namespace {

using engine::Account;

constexpr double much_fragmentation = 0.15, much_time = 0.10;

constexpr std::array<std::pair<Account, Cause>, 9> removable = {
    {{Account::tp_exposed, Cause::tensor_parallel},
     {Account::cp_exposed, Cause::context_parallel},
     {Account::ep_exposed, Cause::expert_parallel},
     {Account::dp_exposed, Cause::data_parallel},
     {Account::pp_fill_drain, Cause::fill_and_drain},
     {Account::pp_imbalance, Cause::unequal_stages},
     {Account::pp_transfer, Cause::pipeline_messages},
     {Account::rank_wait, Cause::unequal_ranks},
     {Account::host, Cause::host}}};

void add_memory(const answer::Answer& answer, std::vector<Loss>& all) {
  if (answer.verdict.tight) all.push_back({Cause::tight, 0, "tight: " + answer.verdict.hangs_on});
  if (answer::step_retries(answer.run) > 0) {
    std::string text = output::retries_text(answer);
    text.pop_back();  // the line's end
    all.push_back({Cause::retries, seconds(answer.retry_cost) / answer::step_seconds(answer),
                   std::move(text)});
  }
  if (answer.run.bounded) return;
  const engine::ClassReport& who = answer::fullest(answer.run);
  const Bytes pieces = who.peak_reserved - who.peak_allocated;
  const double share = static_cast<double>(pieces.n) / static_cast<double>(who.peak_reserved.n);
  if (share <= much_fragmentation) return;
  std::string text = fmt::format("fragmentation: {} of {} reserved ({}) are never allocated",
                                 human(pieces), human(who.peak_reserved), output::percent(share));
  const Bytes waiting = who.peak_active - who.peak_allocated;
  if (10 * waiting > pieces)
    text += fmt::format("; up to {} of them are freed blocks that wait for another stream",
                        human(std::min(waiting, pieces)));
  all.push_back({Cause::fragmentation, share, std::move(text)});
}

// The effect of sequence parallelism on tensor-parallel communication. Its all-gather and
// reduce-scatter move the bytes of the all-reduce that they replace.
std::string sequence_parallel_text(const program::Plan& plan) {
  if (plan.uses_sequence_parallel())
    return "; sequence_parallel gathers each input once more in the backward pass, and keeps 1/tp "
           "of the activations between products";
  return plan.mesh.tp > 1 ? "; without sequence_parallel no input is gathered twice, and each rank "
                            "keeps whole activations between products"
                          : "";
}

void add_time(const answer::Answer& answer, std::vector<Loss>& all) {
  // Retries are a loss of their own.
  const std::vector<double> spent = answer::accounts_without_retries(answer);
  const auto first = static_cast<std::ptrdiff_t>(all.size());
  for (const auto& [account, cause] : removable) {
    const double time = spent[static_cast<std::size_t>(account)];
    const double share = time / answer::step_seconds(answer);
    if (share <= much_time) continue;
    std::string text = fmt::format("{}: {:.3g} s of the step ({})", answer::words(account), time,
                                   output::percent(share));
    if (cause == Cause::tensor_parallel) {
      const std::string split = split_backward_text(answer.plan);
      text += sequence_parallel_text(answer.plan) + (split.empty() ? "" : "; ") + split;
    }
    if (cause == Cause::unequal_ranks && answer.plan.draws_routes())
      text += "; most of it for the ranks whose experts get the most tokens (router)";
    all.push_back({cause, share, std::move(text)});
  }
  std::stable_sort(all.begin() + first, all.end(),
                   [](const Loss& a, const Loss& b) { return a.share > b.share; });
}

}  // namespace

std::string split_backward_text(const program::Plan& plan) {
  const schedule::Schedule* const how = schedule::find(plan.pipeline.schedule);
  if (plan.mesh.tp == 1 || how == nullptr || how->splits == schedule::Splits::none) return "";
  return fmt::format(
      "{} computes the gradients of weights in passes of their own, where these products hide no "
      "tensor-parallel communication{}",
      how->name,
      plan.uses_sequence_parallel() ? ", and sequence_parallel gathers their inputs once more"
                                    : "");
}

std::vector<Loss> losses(const answer::Answer& answer) {
  std::vector<Loss> all;
  if (!answer.run.fits() || !engine::places_tensors(answer.run.memory)) return all;
  add_memory(answer, all);
  add_time(answer, all);
  return all;
}

}  // namespace sim::study
