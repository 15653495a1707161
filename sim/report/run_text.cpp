#include "sim/report/run_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/core/text.h"
#include "sim/report/json.h"
#include "sim/report/table.h"

namespace sim::report {

namespace {

using replay::Account;
using replay::ClassReport;

std::string gib_text(Bytes bytes) {
  return fmt::format("{:.2f}", gib(bytes));
}

double account(const ClassReport& who, Account which) {
  return seconds(who.accounts[static_cast<std::size_t>(which)]);
}

// The classes of each stage; a stage's context-parallel ranks stand together.
std::vector<std::vector<const ClassReport*>> stages(const replay::RunReport& run) {
  std::vector<std::vector<const ClassReport*>> all;
  for (const ClassReport& who : run.classes) {
    const auto stage = static_cast<std::size_t>(who.stage);
    if (all.size() <= stage) all.resize(stage + 1);
    all[stage].push_back(&who);
  }
  return all;
}

std::string step_text(const Answer& answer) {
  const std::vector<double> accounts = mean_accounts(answer.run);
  const double step = step_seconds(answer);
  Table table({"<account", "seconds", "share"});
  for (std::size_t a = 0; a < accounts.size(); ++a) {
    if (accounts[a] == 0) continue;
    table.row({words(static_cast<Account>(a)), fmt::format("{:.4f}", accounts[a]),
               percent(accounts[a] / step)});
  }
  table.row({"step", fmt::format("{:.4f}", step), percent(1)});
  const workload::Plan& plan = answer.plan;
  return "\nwhere the step goes (mean over ranks; the accounts are disjoint)\n" + table.text() +
         fmt::format("  bubble {} of the step; textbook (p-1)/(mv+p-1) {} with p {}, m {}, v {}\n",
                     percent(answer.run.bubble), percent(textbook_bubble(plan)), plan.mesh.pp,
                     plan.microbatches(), plan.pipeline.virtual_stages);
}

// Mean over the ranks of a stage.
double mean(const std::vector<const ClassReport*>& stage, double (*value)(const ClassReport&)) {
  double sum = 0;
  double ranks = 0;
  for (const ClassReport* who : stage) {
    sum += value(*who) * who->ranks;
    ranks += who->ranks;
  }
  return sum / ranks;
}

Bytes activations(const ClassReport& who) {
  const auto held = [&](workload::Category category) {
    return who.peak_split[static_cast<std::size_t>(category)];
  };
  return {held(workload::Category::activations) + held(workload::Category::logits) +
          held(workload::Category::temporaries)};
}

std::string stage_time_text(const Answer& answer) {
  Table table(
      {"stage", "ranks", "busy s", "TP s", "CP s", "DP s", "PP wait s", "bubble", "host s"});
  for (const auto& stage : stages(answer.run)) {
    int ranks = 0;
    for (const ClassReport* who : stage) ranks += who->ranks;
    const auto time = [&](double (*value)(const ClassReport&)) {
      return fmt::format("{:.4f}", mean(stage, value));
    };
    table.row({fmt::format("{}", stage[0]->stage), fmt::format("{}", ranks),
               time([](const ClassReport& who) { return seconds(who.busy); }),
               time([](const ClassReport& who) { return account(who, Account::tp_exposed); }),
               time([](const ClassReport& who) { return account(who, Account::cp_exposed); }),
               time([](const ClassReport& who) { return account(who, Account::dp_exposed); }),
               time([](const ClassReport& who) {
                 return account(who, Account::pp_fill_drain) + account(who, Account::pp_imbalance) +
                        account(who, Account::pp_transfer);
               }),
               percent(mean(stage, [](const ClassReport& who) { return who.bubble; })),
               time([](const ClassReport& who) {
                 return account(who, Account::host) + account(who, Account::data);
               })});
  }
  return "\ntime by stage (mean over its ranks; communication that nothing hides)\n" + table.text();
}

std::string held_text(const replay::Split& split) {
  std::vector<std::size_t> order;
  for (std::size_t c = 0; c < split.size(); ++c) {
    if (split[c] > 0) order.push_back(c);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return split[a] > split[b]; });
  std::string text;
  for (const std::size_t c : order) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        workload::name(static_cast<workload::Category>(c)), human(Bytes{split[c]}));
  }
  return text;
}

std::string peak_text(const Answer& answer) {
  const ClassReport& who = fullest(answer.run);
  std::string text = fmt::format("\nmemory of stage {}, the nearest to its capacity\n", who.stage);
  text += fmt::format("  of {} on the GPU, outside the allocator:", human(answer.machine.memory));
  for (std::size_t i = 0; i < who.outside.size(); ++i) {
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", who.outside[i].what,
                        human(who.outside[i].bytes));
  }
  text += fmt::format("\n  peak {} in {}\n    {}\n", human(who.peak_allocated),
                      words(who.peak_place), held_text(who.peak_split));
  text += fmt::format("  reserved {} there; {} not allocated, largest free block {}\n",
                      human(who.reserved_at_peak), human(who.reserved_at_peak - who.peak_allocated),
                      human(who.largest_free_at_peak));
  return text;
}

// Whether pieces are to blame, with the bytes that say so.
std::string fragmentation_text(const ClassReport& who) {
  const replay::OutOfMemory& event = *who.out_of_memory;
  const std::string free = human(event.cached + event.device_free);
  if (!event.request_fits_contiguous)
    return fmt::format("all that is free ({}) would not have sufficed in one piece", free);
  if (event.fragmentation_alone)
    return fmt::format("fragmentation alone is the cause: {} are free in pieces", free);
  return fmt::format("{} are free in pieces, but later the run needs {}", free, human(who.needed));
}

std::string throughput_text(const Answer& answer) {
  Table table({"<convention", "TFLOP/s/GPU", "of peak", "<what it counts"});
  for (const Rate& rate : answer.rates) {
    table.row({rate.convention, fmt::format("{:.1f}", rate.tflops_gpu),
               percent(rate.tflops_gpu * 1e12 / answer.machine.peak_flops), rate.summary});
  }
  table.row({"executed", fmt::format("{:.1f}", answer.hfu * answer.machine.peak_flops * 1e-12),
             percent(answer.hfu), "every FLOP that runs, recomputation included (HFU)"});
  return fmt::format("\nthroughput by convention (peak {:.1f} TFLOP/s; MFU is `megatron`)\n",
                     answer.machine.peak_flops * 1e-12) +
         table.text();
}

}  // namespace

std::string plan_line(const Answer& answer) {
  const workload::Plan& plan = answer.plan;
  const Json json = to_json(plan);
  std::string text = fmt::format(
      "{} on {} x {} ({}), {}, {}, recompute {}, attention {}, {}", plan.architecture.name,
      plan.world(), answer.machine.gpu, answer.machine.cluster, workload::short_name(plan),
      plan.pipeline.schedule, json["recompute"].get<std::string>(),
      json["attention"].get<std::string>(), json["precision"].get<std::string>());
  if (plan.numerics.fp8) text += " with products in fp8";
  if (plan.pipeline.virtual_stages > 1)
    text += fmt::format(", {} virtual stages", plan.pipeline.virtual_stages);
  if (plan.uses_sequence_parallel()) text += ", sequence parallel";
  if (plan.sharding.distributed_optimizer) text += ", distributed optimizer";
  if (plan.trains_adapters()) text += fmt::format(", adapters of rank {}", plan.lora.rank);
  if (plan.shards_parameters()) {
    text += fmt::format(", {} over {} ranks", json["data_parallel"].get<std::string>(),
                        std::int64_t{plan.mesh.dp} * plan.mesh.cp / plan.sharding.fsdp.replicas);
    if (!plan.sharding.fsdp.reshard_after_forward) text += " without reshard after forward";
    if (plan.sharding.fsdp.replicas > 1)
      text += fmt::format(", {} copies", plan.sharding.fsdp.replicas);
  }
  return text + "\n";
}

std::string stage_memory_text(const Answer& answer) {
  Table table({"stage", "layers", "parameters", "static", "activations", "peak allocated",
               "peak reserved", "capacity", "used", "retries"});
  for (const auto& stage : stages(answer.run)) {
    const ClassReport& who = **std::max_element(stage.begin(), stage.end(),
                                                [](const ClassReport* a, const ClassReport* b) {
                                                  return a->peak_reserved < b->peak_reserved;
                                                });
    const double used =
        static_cast<double>(who.peak_reserved.n) / static_cast<double>(who.capacity.n);
    table.row({fmt::format("{}", who.stage), fmt::format("{}", who.layers),
               fmt::format("{}", who.parameters), gib_text(who.static_bytes),
               gib_text(activations(who)), gib_text(who.peak_allocated),
               gib_text(who.peak_reserved), gib_text(who.capacity),
               who.out_of_memory ? "OOM" : percent(used), fmt::format("{}", who.alloc_retries)});
  }
  return "\nmemory by stage (GiB, the rank that needs most; activations with logits and "
         "temporaries at the peak)\n" +
         table.text() +
         (answer.run.fits() ? "" : "  peaks: what the run would have needed from there on\n");
}

std::string oom_text(const Answer& answer) {
  std::string text;
  for (const std::size_t index : answer.run.out_of_memory) {
    const ClassReport& who = answer.run.classes[index];
    const replay::OutOfMemory& event = *who.out_of_memory;
    text += fmt::format("\nout of memory on stage {}, {:.3f} s after the start: {}\n", event.stage,
                        seconds(event.when - Time{}), words(event.place));
    text += fmt::format("  tensor {} asked for {}; the driver was asked for {}, {} were free\n",
                        event.place.label, human(event.requested), human(event.segment),
                        human(event.device_free));
    text += fmt::format("  allocated {}, reserved {}, largest free block {}; {}\n",
                        human(event.allocated), human(event.reserved),
                        human(event.largest_free_block), fragmentation_text(who));
    text += fmt::format("  {} before it; held: {}\n",
                        event.retries == 1 ? "one retry (cached blocks were given back)"
                                           : fmt::format("{} retries", event.retries),
                        held_text(event.split));
    text += "  PyTorch would say: " + pytorch_message(answer, who) + "\n";
  }
  return text;
}

std::string estimate_text(const Answer& answer) {
  if (answer.plan.trains_adapters()) return "";  // the formula trains every parameter
  return fmt::format(
      "\nclosed-form estimate (arXiv 2411.06465, first stage): {:.2f} GiB, {} the 80 % rule's "
      "{:.1f}: {}\nreplay: {}\n",
      answer.estimate.gib, answer.estimate.fits ? "within" : "above", answer.estimate.limit_gib,
      answer.estimate.fits ? "fits" : "may run out of memory",
      answer.run.fits() ? "fits" : "runs out of memory");
}

std::string percent(double fraction) {
  return fmt::format("{:.1f} %", 100 * fraction);
}

std::string headline(const Answer& answer) {
  const char* barely = answer.verdict.tight ? ", barely" : "";
  if (!answer.run.fits()) return fmt::format("out of memory{}: {}", barely, oom_reason(answer.run));
  const ClassReport& who = fullest(answer.run);
  return fmt::format(
      "fits{}: {:.1f} TFLOP/s/GPU ({}), {:.1f} ({}), {:.0f} tokens/s/GPU, step {:.3f} s, {:.1f} of "
      "{:.1f} GiB ({})",
      barely, rate(answer, "paper").tflops_gpu, "paper", rate(answer, "megatron").tflops_gpu,
      "megatron", tokens_per_second_gpu(answer), step_seconds(answer), gib(who.peak_reserved),
      gib(who.capacity),
      percent(static_cast<double>(who.peak_reserved.n) / static_cast<double>(who.capacity.n)));
}

std::string verdict_text(const Answer& answer) {
  const Verdict& verdict = answer.verdict;
  if (!verdict.tight) return "";
  std::string text = "the outcome hangs on little: " + verdict.hangs_on;
  if (verdict.fits_probability > 0 && verdict.fits_probability < 1)
    text += fmt::format(" (probability that it fits: {:.0f} %)", 100 * verdict.fits_probability);
  return text + "\n";
}

std::string run_text(const Answer& answer, const std::string& intervals) {
  std::string text = headline(answer) + "\n" + verdict_text(answer) + limit(answer) + "\n" +
                     intervals + "\n" + plan_line(answer);
  if (!answer.run.fits()) {
    return text + oom_text(answer) + stage_memory_text(answer) + peak_text(answer) +
           estimate_text(answer);
  }
  return text + step_text(answer) + stage_time_text(answer) + stage_memory_text(answer) +
         peak_text(answer) + throughput_text(answer) + estimate_text(answer);
}

}  // namespace sim::report
