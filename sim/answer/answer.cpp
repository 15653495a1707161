#include "sim/answer/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <numeric>

#include "sim/base/text.h"

namespace sim::answer {

namespace {

using engine::Account;

// "224.00 MiB", in the format of PyTorch's messages.
std::string pytorch_size(std::int64_t bytes) {
  constexpr std::int64_t kib = 1024;
  const auto scaled = [&](std::int64_t unit) {
    return static_cast<double>(bytes) / static_cast<double>(unit);
  };
  if (bytes <= kib) return fmt::format("{} bytes", bytes);
  if (bytes <= kib * kib) return fmt::format("{:.2f} KiB", scaled(kib));
  if (bytes <= kib * kib * kib) return fmt::format("{:.2f} MiB", scaled(kib * kib));
  return fmt::format("{:.2f} GiB", scaled(kib * kib * kib));
}

std::int64_t rank_of(const program::Plan& plan, const engine::ClassReport& who) {
  // Megatron-LM's order of ranks, fastest first: tp, cp, dp, pp.
  return static_cast<std::int64_t>(who.cp_rank) * plan.mesh.tp +
         static_cast<std::int64_t>(who.stage) * plan.mesh.tp * plan.mesh.cp * plan.mesh.dp;
}

}  // namespace

double step_seconds(const Answer& answer) {
  return seconds(answer.run.step_time);
}

double tokens_per_second_gpu(const Answer& answer) {
  const double tokens = static_cast<double>(answer.plan.batch.global_batch) *
                        static_cast<double>(answer.plan.batch.sequence);
  const double time = step_seconds(answer);
  return time > 0 ? tokens / time / answer.plan.world() : 0;
}

const Rate& rate(const Answer& answer, const std::string& convention) {
  const auto found = std::find_if(answer.rates.begin(), answer.rates.end(),
                                  [&](const Rate& rate) { return rate.convention == convention; });
  assert(found != answer.rates.end());
  return *found;
}

double textbook_bubble(const program::Plan& plan) {
  const double work =
      static_cast<double>(plan.microbatches()) * static_cast<double>(plan.pipeline.virtual_stages);
  return (plan.mesh.pp - 1) / (work + plan.mesh.pp - 1);
}

std::vector<double> mean_accounts(const engine::RunReport& run) {
  std::vector<double> sums(engine::account_count, 0.0);
  double ranks = 0;
  for (const engine::ClassReport& who : run.classes) {
    ranks += who.ranks;
    for (std::size_t a = 0; a < sums.size(); ++a) sums[a] += who.ranks * seconds(who.accounts[a]);
  }
  for (double& sum : sums) sum = ranks > 0 ? sum / ranks : 0;
  return sums;
}

std::vector<double> accounts_without_retries(const Answer& answer) {
  std::vector<double> accounts = mean_accounts(answer.run);
  for (std::size_t a = 0; a < answer.retry_accounts.size(); ++a)
    accounts[a] = std::max(0.0, accounts[a] - answer.retry_accounts[a]);
  return accounts;
}

std::string words(Account account) {
  switch (account) {
    case Account::compute:
      return "compute";
    case Account::tp_exposed:
      return "tensor-parallel communication";
    case Account::cp_exposed:
      return "context-parallel communication";
    case Account::ep_exposed:
      return "expert-parallel communication";
    case Account::dp_exposed:
      return "data-parallel communication";
    case Account::pp_fill_drain:
      return "pipeline: fill and drain";
    case Account::pp_imbalance:
      return "pipeline: unequal stages";
    case Account::pp_transfer:
      return "pipeline: transfers";
    case Account::rank_wait:
      return "waiting for other ranks";
    case Account::optimizer:
      return "optimizer";
    case Account::host:
      return "waiting for the CPU";
    case Account::data:
      return "waiting for data";
    case Account::other:
    case Account::count_:
      break;
  }
  return "other";
}

const engine::ClassReport& fullest(const engine::RunReport& run) {
  assert(!run.classes.empty());
  if (!run.out_of_memory.empty()) return run.classes[run.out_of_memory.front()];
  const auto left = [](const engine::ClassReport& who) {
    return who.capacity.n - who.peak_reserved.n;
  };
  return *std::min_element(run.classes.begin(), run.classes.end(),
                           [&](const auto& a, const auto& b) { return left(a) < left(b); });
}

Bytes peak_allocated(const engine::RunReport& run) {
  Bytes most{};
  for (const engine::ClassReport& who : run.classes) most = std::max(most, who.peak_allocated);
  return most;
}

Bytes peak_reserved(const engine::RunReport& run) {
  Bytes most{};
  for (const engine::ClassReport& who : run.classes) most = std::max(most, who.peak_reserved);
  return most;
}

Bytes reserved_most(const engine::RunReport& run) {
  Bytes most{};
  for (const engine::ClassReport& who : run.classes) most = std::max(most, who.reserved_most);
  return most;
}

std::string words(const engine::ProgramLocation& place) {
  std::string text = place.step == 0 ? "set-up" : fmt::format("step {}", place.step);
  if (place.microbatch >= 0) text += fmt::format(", microbatch {}", place.microbatch);
  if (place.step > 0) text += fmt::format(", {}", program::name(place.pass));
  if (place.layer >= 0) text += fmt::format(" of layer {}", place.layer);
  if (!place.block.empty()) text += fmt::format(" ({})", place.block);
  return text;
}

std::string limit(const Answer& answer) {
  if (!answer.run.fits()) {
    const engine::ClassReport& who = fullest(answer.run);
    const engine::Split& split = who.out_of_memory->split;
    const auto most = std::max_element(split.begin(), split.end());
    const auto what = static_cast<program::Category>(most - split.begin());
    return fmt::format("limited by memory: {} hold {:.2f} of {:.2f} GiB{}", program::name(what),
                       gib({*most}), gib(who.capacity),
                       who.out_of_memory->fragmentation_alone
                           ? "; fragmentation alone: without it the run would fit"
                           : "");
  }
  std::vector<std::pair<std::string, double>> spent;  // seconds
  for (const double one : accounts_without_retries(answer))
    spent.emplace_back(words(static_cast<Account>(spent.size())), one);
  if (answer.retry_cost.ps > 0) spent.emplace_back("allocator retries", seconds(answer.retry_cost));
  std::stable_sort(spent.begin(), spent.end(),
                   [&](const auto& a, const auto& b) { return a.second > b.second; });
  const double step = step_seconds(answer);
  std::string text = "limited by ";
  for (std::size_t i = 0; i < 3; ++i) {
    const double share = 100 * spent[i].second / step;
    if (i > 0 && share < 0.05) break;
    if (i > 0) text += i == 1 ? "; then " : ", ";
    text += fmt::format("{} {:.1f} %", spent[i].first, share);
    if (i == 0) text += " of the step";
  }
  return text;
}

int step_retries(const engine::RunReport& run) {
  int most = 0;
  for (const engine::ClassReport& who : run.classes) most = std::max(most, who.step_retries);
  return most;
}

std::string oom_reason(const engine::RunReport& run) {
  const engine::ClassReport& who = fullest(run);
  const engine::OutOfMemory& event = *who.out_of_memory;
  return fmt::format("stage {} at {}: asked for {}, {} of {} free", who.stage, words(event.place),
                     human(event.requested), human(event.device_free), human(who.capacity));
}

std::string pytorch_message(const Answer& answer, const engine::ClassReport& who) {
  assert(who.out_of_memory.has_value());
  const engine::OutOfMemory& event = *who.out_of_memory;
  const std::int64_t gpu = rank_of(answer.plan, who) % answer.machine.gpus_per_node;
  const std::int64_t total = answer.machine.memory.n;
  return fmt::format(
      "CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which {} is "
      "free. Including non-PyTorch memory, this process has {} memory in use. Of the allocated "
      "memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated.",
      pytorch_size(event.requested.n), gpu, pytorch_size(total), pytorch_size(event.device_free.n),
      pytorch_size(total - event.device_free.n), pytorch_size(event.allocated.n),
      pytorch_size(event.reserved.n - event.allocated.n));
}

}  // namespace sim::answer
