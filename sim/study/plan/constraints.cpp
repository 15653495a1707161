#include "sim/study/plan/constraints.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "sim/base/text.h"

namespace sim::planner {

namespace {

constexpr int most_times_gpus = 64;  // up to this multiple is tried if no plan fits
// Settings that the search does not vary, tried if no plan fits: less memory for the same work, and
// the optimizer on the CPU.
constexpr std::array<std::string_view, 3> less_memory = {
    "avoid_record_streams=true", "attention_mask=false", "cross_entropy=te"};
constexpr std::array<std::string_view, 1> on_cpu = {"optimizer_cpu_offload=true"};

// Replaces a setting of the question, or adds it.
void set(Question& question, const std::string& key, const std::string& value) {
  std::erase_if(question.settings,
                [&](const std::string& one) { return one.starts_with(key + "="); });
  question.settings.push_back(key + "=" + value);
}

// Adds those of the settings that the question does not state, and returns all that were added.
std::string add_unsaid(Question& question, std::span<const std::string_view> settings) {
  std::string added;
  for (const std::string_view one : settings) {
    const auto says = [&](const std::string& said) {
      return said.starts_with(one.substr(0, one.find('=') + 1));
    };
    if (std::ranges::any_of(question.settings, says) || std::ranges::any_of(question.job, says))
      continue;
    question.settings.emplace_back(one);
    added += (added.empty() ? "" : " ") + std::string(one);
  }
  return added;
}

struct Constraint {
  std::string name, change;
  Question question;
};

std::vector<Constraint> constraints_of(const Question& question, const Space& space) {
  const input::DraftPlan& file = space.bases().front().file;
  const device::Gpu& gpu = file.machine.gpu;
  std::vector<Constraint> all;
  Constraint memory{
      "memory of a GPU",
      fmt::format("{} instead of {}", human(Bytes{2 * gpu.memory.n}), human(gpu.memory)), question};
  set(memory.question, "cluster.gpu.memory_marketing",
      fmt::format("{:g}GB", 2 * gpu.memory_marketing_gb));
  set(memory.question, "cluster.gpu.memory", fmt::format("{}B", 2 * gpu.memory.n));
  all.push_back(std::move(memory));
  const int local = file.machine.cluster.node.gpus;
  Constraint node{"GPUs of a node", fmt::format("{} instead of {}", 2 * local, local), question};
  set(node.question, "cluster.node.gpus", fmt::format("{}", 2 * local));
  all.push_back(std::move(node));
  const int batch = file.plan.batch.global_batch;
  Constraint sequences{"sequences of a step", fmt::format("{} instead of {}", 2 * batch, batch),
                       question};
  set(sequences.question, "global_batch", fmt::format("{}", 2 * batch));
  all.push_back(std::move(sequences));
  return all;
}

}  // namespace

std::vector<Lifted> lifted_constraints(const Question& question, const Space& space,
                                       answer::Sites& sites, const Wanted& wanted,
                                       const std::function<bool(const Progress&)>& go_on) {
  Wanted one_plan = wanted;
  one_plan.best = 1;
  one_plan.list = 0;
  one_plan.sharing = nullptr;
  std::vector<Lifted> all;
  for (const Constraint& one : constraints_of(question, space)) {
    Lifted& lifted = all.emplace_back(Lifted{one.name, one.change, 0, ""});
    const Result<Space> other = Space::make(one.question);
    if (!other) {
      lifted.plan = other.errors().front().message;
      continue;
    }
    for (const Base& base : other->bases())
      if (const auto site = sites.of(base.file.machine); !site)
        lifted.plan = site.errors().front().message;
    if (!lifted.plan.empty()) continue;
    const Outcome outcome = find_best(*other, sites, one_plan, go_on);
    if (outcome.best.empty()) {
      lifted.plan = outcome.complete ? "no plan fits" : "stopped before a plan was found";
      if (!outcome.complete) break;
      continue;
    }
    const Replayed& best = outcome.best.front();
    lifted.tokens_s_gpu = best.tokens_s_gpu;
    lifted.plan = other->words(other->cores()[best.core], best.variant);
  }
  std::ranges::stable_sort(all, std::greater<>(), &Lifted::tokens_s_gpu);
  return all;
}

std::vector<std::string> relaxed(const Question& question, answer::Sites& sites, Wanted wanted,
                                 const std::function<bool(const Progress&)>& go_on) {
  std::vector<std::string> found;
  wanted.best = 1;
  wanted.list = 0;
  wanted.sharing = nullptr;
  const auto ask = [&](const Question& other, const std::string& change) {
    const Result<Space> space = Space::make(other);
    if (!space) return;
    for (const Base& base : space->bases())
      if (!sites.of(base.file.machine)) return;
    const Outcome outcome = find_best(*space, sites, wanted, go_on);
    if (outcome.best.empty()) return;
    const Replayed& best = outcome.best.front();
    found.push_back(fmt::format("{}: {:.3f} s with {}", change,
                                static_cast<double>(best.step_ps) * 1e-12,
                                space->words(space->cores()[best.core], best.variant)));
  };
  if (!wanted.headroom || wanted.headroom->n > 0) {
    const std::optional<Bytes> asked = std::exchange(wanted.headroom, Bytes{});
    ask(question, "with --headroom 0");
    wanted.headroom = asked;
  }
  Question smaller = question;
  std::string added;
  const std::size_t before = found.size();
  for (const std::span<const std::string_view> settings :
       {std::span<const std::string_view>(less_memory),
        std::span<const std::string_view>(on_cpu)}) {
    const std::string more = add_unsaid(smaller, settings);
    if (more.empty() || found.size() > before) continue;
    added += (added.empty() ? "" : " ") + more;
    ask(smaller, "with " + added);
  }
  for (std::size_t i = 0; i < question.settings.size(); ++i) {
    const std::string& one = question.settings[i];
    if (one.starts_with("global_batch=") || one.starts_with("sequence=")) continue;
    Question less = question;
    less.settings.erase(less.settings.begin() + static_cast<std::ptrdiff_t>(i));
    ask(less, "without " + one);
  }
  Question more = question;
  for (int times = 2; found.empty() && times <= most_times_gpus; times *= 2) {
    more.gpus = {question.gpus.back() * times};
    ask(more, fmt::format("with --gpus {}", more.gpus.front()));
  }
  return found;
}

}  // namespace sim::planner
