#include "sim/output/documents/run_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/text.h"
#include "sim/output/documents/class_rows.h"
#include "sim/output/documents/stage_rows.h"
#include "sim/program/plan/layer_choices.h"
#include "sim/program/plan/replicas.h"

namespace sim::output {

namespace {

using engine::ClassReport;

std::string held_text(const engine::Split& split) {
  std::vector<std::size_t> order;
  for (std::size_t c = 0; c < split.size(); ++c) {
    if (split[c] > 0) order.push_back(c);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return split[a] > split[b]; });
  std::string text;
  for (const std::size_t c : order) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        program::name(static_cast<program::Category>(c)), human(Bytes{split[c]}));
  }
  return text;
}

std::string peak_text(const answer::Answer& answer) {
  const ClassReport& who = answer::fullest(answer.run);
  std::string text = fmt::format("memory of stage {}, the nearest to its capacity\n", who.stage);
  text += fmt::format("  of {} on the GPU, outside the allocator:", human(answer.machine.memory));
  for (std::size_t i = 0; i < who.outside.size(); ++i) {
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", who.outside[i].what,
                        human(who.outside[i].bytes));
  }
  text += fmt::format("\n  peak {} in {}\n    {}\n", human(who.peak_allocated),
                      answer::words(who.peak_place), held_text(who.peak_split));
  text += fmt::format("  reserved {} there; {} not allocated, largest free block {}\n",
                      human(who.reserved_at_peak), human(who.reserved_at_peak - who.peak_allocated),
                      human(who.largest_free_at_peak));
  return text;
}

// Whether fragmentation caused the failure, with the bytes that show it.
std::string blame_text(const ClassReport& who) {
  const engine::OutOfMemory& event = *who.out_of_memory;
  const std::string free = human(event.cached + event.device_free);
  if (!event.request_fits_contiguous)
    return fmt::format("all that is free ({}) would not have sufficed in one piece", free);
  if (event.fragmentation_alone)
    return fmt::format("fragmentation alone is the cause: {} are free in pieces", free);
  return fmt::format("{} are free in pieces, but later the run needs {}", free, human(who.needed));
}

Rows throughput_rows(const answer::Answer& answer) {
  const double peak = answer.machine.peak_flops * 1e-12;
  Rows rows{"throughput",
            fmt::format("throughput by convention (peak {:.1f} TFLOP/s; MFU is `megatron`)", peak),
            {{"convention", "convention", "", 0, true},
             {"tflops_gpu", "TFLOP/s/GPU", "", 1},
             {"of_peak", "of peak", "", 1, false, " %", 100},
             {"counts", "what it counts", "", 0, true}},
            {}};
  for (const answer::Rate& rate : answer.rates)
    rows.cells.push_back({rate.convention, rate.tflops_gpu, rate.tflops_gpu / peak, rate.summary});
  rows.cells.push_back({"executed", answer.hfu * peak, answer.hfu,
                        "every FLOP that runs, recomputation included (HFU)"});
  return rows;
}

// Values for JSON that the first lines of the text contain: null if the plan runs out of memory.
Values step_values(const answer::Answer& answer) {
  const engine::RunReport& run = answer.run;
  Values values = {
      "",
      {value("step_time_ps", "", run.step_time.ps),
       value("step_time_s", "", answer::step_seconds(answer)),
       value("warm_up_time_ps", "", run.warm_up_time.ps), value("reported_step", "", run.step),
       value("steady", "", run.steady),
       value("first_step_time_ps", "",
             run.first_step_time.ps > 0 ? Json(run.first_step_time.ps) : Json(nullptr)),
       value("tokens_s_gpu", "", answer::tokens_per_second_gpu(answer)),
       value("mfu", "", {{"convention", "megatron"}, {"fraction", answer.mfu}}),
       value("hfu", "", {{"convention", "executed"}, {"fraction", answer.hfu}}),
       value("bubble", "", run.bubble),
       value("textbook_bubble", "", answer::textbook_bubble(answer.plan))}};
  if (!run.fits())
    for (Value& one : values.values) one.value = nullptr;
  return values;
}

Json machine_json(const answer::Answer& answer) {
  return {{"cluster", answer.machine.cluster},
          {"gpu", answer.machine.gpu},
          {"gpus", answer.plan.world()},
          {"gpus_per_node", answer.machine.gpus_per_node},
          {"memory_bytes", answer.machine.memory.n},
          {"peak_flops", answer.machine.peak_flops}};
}

}  // namespace

std::string plan_line(const answer::Answer& answer) {
  return plan_line(answer, to_json(answer.plan));
}

std::string plan_line(const answer::Answer& answer, const Json& json) {
  const program::Plan& plan = answer.plan;
  std::string text = fmt::format(
      "{} on {} x {} ({}), {}, {}, recompute {}, attention {}, {}", plan.architecture.name,
      plan.world(), answer.machine.gpu, answer.machine.cluster, program::short_name(plan),
      plan.pipeline.schedule, json["recompute"].get<std::string>(),
      json["attention"].get<std::string>(), json["precision"].get<std::string>());
  constexpr std::array products{"fp8", "fp8 (tensorwise)", "mxfp8", "nvfp4"};
  if (plan.numerics.fp8)
    (text += " with products in ") += products[static_cast<int>(plan.numerics.fp8_recipe)];
  if (plan.numerics.fake_quantization != program::FakeQuantization::none)
    text += fmt::format(", {} rounded", json["fake_quantization"].get<std::string>());
  if (!plan.policy.choices.empty())
    text += fmt::format(", layers {}", program::text_of(plan.policy.choices));
  if (!plan.batch.replica_microbatches.empty())
    text += fmt::format(", {} microbatches", program::text_of(plan.batch.replica_microbatches));
  if (!plan.pipeline.slice_lengths.empty())
    text += fmt::format(", slices of {} tokens", fmt::join(plan.pipeline.slice_lengths, ", "));
  for (const auto& [who, codec] : {std::pair{"tensor", &plan.codec.tensor},
                                   {"data", &plan.codec.data},
                                   {"pipeline", &plan.codec.pipeline}})
    if (!codec->empty()) text += fmt::format(", {}-parallel messages by {}", who, *codec);
  if (const std::string& codec = plan.codec.parameters; !codec.empty())
    text += fmt::format(", gathered parameters by {}", codec);
  if (plan.pipeline.virtual_stages > 1)
    text += fmt::format(", {} virtual stages", plan.pipeline.virtual_stages);
  if (plan.mesh.tensor_columns > 1 || plan.mesh.tensor_depth > 1)
    text += fmt::format(", tensors over {} rows, {} columns, depth {}", plan.tensor_rows(),
                        plan.mesh.tensor_columns, plan.mesh.tensor_depth);
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

std::string oom_text(const answer::Answer& answer) {
  std::string text;
  for (const std::size_t index : answer.run.out_of_memory) {
    const ClassReport& who = answer.run.classes[index];
    const engine::OutOfMemory& event = *who.out_of_memory;
    text += fmt::format("{}out of memory on stage {}, {:.3f} s after the start: {}\n",
                        text.empty() ? "" : "\n", event.stage, seconds(event.when - Time{}),
                        answer::words(event.place));
    text += fmt::format("  tensor {} asked for {}; the driver was asked for {}, {} were free\n",
                        event.place.label, human(event.requested), human(event.segment),
                        human(event.device_free));
    text += fmt::format("  allocated {}, reserved {}, largest free block {}; {}\n",
                        human(event.allocated), human(event.reserved),
                        human(event.largest_free_block), blame_text(who));
    text += fmt::format("  {} before it; held: {}\n",
                        event.retries == 1 ? "one retry (cached blocks were given back)"
                                           : fmt::format("{} retries", event.retries),
                        held_text(event.split));
    text += "  PyTorch would say: " + answer::pytorch_message(answer, who) + "\n";
  }
  return text;
}

std::vector<Block> estimate_blocks(const answer::Answer& answer) {
  if (answer.run.memory == engine::MemoryDetail::none) return {};
  std::vector<Block> blocks = {Data{"estimate",
                                    {{"method", "closed form of arXiv 2411.06465, first stage"},
                                     {"gib", answer.estimate.gib},
                                     {"limit_gib", answer.estimate.limit_gib},
                                     {"fits", answer.estimate.fits}}}};
  // the formula assumes that every parameter is trained
  if (answer.plan.trains_adapters()) return blocks;
  if (answer.plan.architecture.is_mixture()) {
    blocks.emplace_back(Note{"",
                             "the closed-form estimate (arXiv 2411.06465) counts dense layers: it "
                             "does not apply to a mixture of experts"});
    return blocks;
  }
  if (answer.plan.shards_parameters() || answer.host.optimizer.n + answer.host.activations.n > 0) {
    blocks.emplace_back(Note{"",
                             "the closed-form estimate (arXiv 2411.06465) counts whole parameters "
                             "and nothing on CPUs: it does not apply to this plan"});
    return blocks;
  }
  blocks.emplace_back(Note{
      "", fmt::format(
              "closed-form estimate (arXiv 2411.06465, first stage): {:.2f} GiB, {} the 80 % "
              "rule's {:.1f}: {}{}",
              answer.estimate.gib, answer.estimate.fits ? "within" : "above",
              answer.estimate.limit_gib, answer.estimate.fits ? "fits" : "may run out of memory",
              !engine::places_tensors(answer.run.memory) ? ""
              : answer.run.fits()                        ? "\nreplay: fits"
                                                         : "\nreplay: runs out of memory")});
  return blocks;
}

std::vector<Block> host_blocks(const answer::Answer& answer) {
  const answer::HostMemory& host = answer.host;
  if (host.optimizer.n + host.activations.n == 0) return {};
  const std::string of = host.there.n > 0 ? fmt::format(" of {:.0f} GiB", gib(host.there)) : "";
  return {Data{"host_memory",
               {{"optimizer_gib", gib(host.optimizer)},
                {"activations_gib", gib(host.activations)},
                {"node_gib", host.there.n > 0 ? Json(gib(host.there)) : Json(nullptr)}}},
          Note{"", fmt::format("CPUs of the fullest node hold {:.2f} GiB of optimizer state and "
                               "{:.2f} GiB of saved tensors{}",
                               gib(host.optimizer), gib(host.activations), of)}};
}

std::string percent(double fraction) {
  return fmt::format("{:.1f} %", 100 * fraction);
}

namespace {

std::string rates_text(const answer::Answer& answer) {
  return fmt::format("{:.1f} TFLOP/s/GPU (Megatron-LM), {:.0f} tokens/s/GPU, step {:.3f} s",
                     rate(answer, "megatron").tflops_gpu, answer::tokens_per_second_gpu(answer),
                     answer::step_seconds(answer));
}

// Text for runs without a memory replay.
std::string time_alone(const answer::Answer& answer) {
  const answer::Estimate& estimate = answer.estimate;
  if (answer.run.memory == engine::MemoryDetail::none)
    return "time alone: " + rates_text(answer) + "; memory not asked";
  return fmt::format("time alone: {}; closed form {:.1f} GiB, {} the 80 % rule's {:.1f}",
                     rates_text(answer), estimate.gib, estimate.fits ? "within" : "above",
                     estimate.limit_gib);
}

Json verdict_json(const answer::Answer& answer) {
  if (!engine::places_tensors(answer.run.memory)) return nullptr;
  return {{"tight", answer.verdict.tight},
          {"fits_probability", answer.verdict.fits_probability},
          {"hangs_on", answer.verdict.hangs_on}};
}

// The level of detail of memory, for JSON.
Values how_memory(const answer::Answer& answer) {
  return {"", {value("memory", "", std::string(engine::name(answer.run.memory)))}};
}

}  // namespace

std::string headline(const answer::Answer& answer) {
  if (!engine::places_tensors(answer.run.memory)) return time_alone(answer);
  const char* barely = answer.verdict.tight ? ", barely" : "";
  if (!answer.run.fits())
    return fmt::format("out of memory{}: {}", barely, answer::oom_reason(answer.run));
  const ClassReport& who = answer::fullest(answer.run);
  const auto used = [&](Bytes reserved) {
    return static_cast<double>(reserved.n) / static_cast<double>(who.capacity.n);
  };
  if (answer.run.bounded)
    return fmt::format("fits: {}, {:.1f}-{:.1f} of {:.1f} GiB ({:.1f}-{})", rates_text(answer),
                       gib(who.peak_reserved), gib(who.reserved_most), gib(who.capacity),
                       100 * used(who.peak_reserved), percent(used(who.reserved_most)));
  return fmt::format("fits{}: {}, {:.1f} of {:.1f} GiB ({})", barely, rates_text(answer),
                     gib(who.peak_reserved), gib(who.capacity), percent(used(who.peak_reserved)));
}

std::string verdict_text(const answer::Answer& answer) {
  const answer::Verdict& verdict = answer.verdict;
  if (!verdict.tight) return "";
  std::string text = "the outcome hangs on little: " + verdict.hangs_on;
  if (verdict.fits_probability > 0 && verdict.fits_probability < 1)
    text += fmt::format(" (probability that it fits: {:.0f} %)", 100 * verdict.fits_probability);
  return text + "\n";
}

namespace {

std::string retry_text(int retries) {
  return fmt::format("{} allocator {}", retries, retries == 1 ? "retry" : "retries");
}

}  // namespace

std::string retries_text(const answer::Answer& answer) {
  const int retries = answer::step_retries(answer.run);
  if (!answer.run.fits() || retries == 0) return "";
  std::string text = fmt::format("{} in this step", retry_text(retries));
  if (const double cost = seconds(answer.retry_cost); cost > 0)
    text = fmt::format("{} {} {:.3g} s of this step ({})", retry_text(retries),
                       retries == 1 ? "costs" : "cost", cost,
                       percent(cost / answer::step_seconds(answer)));
  return text +
         ": the GPU is full, so PyTorch frees its cache (cudaFree waits for the GPU) and allocates "
         "again\n";
}

std::string steady_text(const answer::Answer& answer) {
  const engine::RunReport& run = answer.run;
  if (!run.fits()) return "";
  const double first = seconds(run.first_step_time), step = answer::step_seconds(answer);
  if (!run.steady)
    return fmt::format(
        "not steady: in step {}, the last one replayed, memory is still requested from the driver; "
        "later steps may be shorter (`--steps N` replays more)\n",
        run.step);
  if (run.step <= 2 || run.first_step_time.ps <= run.step_time.ps) return "";
  return fmt::format(
      "step {} and later ones; step 2 takes {:.3f} s, {:.1f} % more, while memory is requested "
      "from the driver (cudaMalloc)\n",
      run.step, first, 100 * (first / step - 1));
}

std::vector<Block> head_blocks(const answer::Answer& answer, const std::string& intervals) {
  const bool fits = answer.run.fits(), asked = engine::places_tensors(answer.run.memory);
  // Not an initializer list, which would be copied.
  std::vector<Block> blocks;
  blocks.emplace_back(Note{"",
                           headline(answer) + "\n" + steady_text(answer) + retries_text(answer) +
                               verdict_text(answer) + answer::limit(answer) + "\n" + intervals,
                           true});
  blocks.emplace_back(Values{"",
                             {value("fits", "", asked ? Json(fits) : Json(nullptr)),
                              value("limit", "", answer::limit(answer))}});
  Json plan = to_json(answer.plan);
  blocks.emplace_back(Note{"", plan_line(answer, plan)});
  blocks.emplace_back(Data{"plan", std::move(plan)});
  blocks.emplace_back(Data{"machine", machine_json(answer)});
  blocks.emplace_back(Data{"verdict", verdict_json(answer)});
  if (answer.run.memory != engine::MemoryDetail::exact) blocks.emplace_back(how_memory(answer));
  blocks.emplace_back(step_values(answer));
  if (const int retries = answer::step_retries(answer.run); fits && retries > 0)
    blocks.emplace_back(Data{"retries", {{"in_step", retries}, {"cost_ps", answer.retry_cost.ps}}});
  if (!fits) blocks.emplace_back(Note{"", oom_text(answer)});
  return blocks;
}

std::vector<Block> tail_blocks(const answer::Answer& answer) {
  std::vector<Block> blocks = estimate_blocks(answer);
  for (Block& block : host_blocks(answer)) blocks.push_back(std::move(block));
  const engine::RunReport& run = answer.run;
  blocks.emplace_back(
      Values{"",
             {value("first_out_of_memory", "",
                    run.fits() ? Json(nullptr) : Json(run.out_of_memory.front())),
              value("executed_flops", "", run.executed_flops), value("operations", "", run.events),
              value("operations_replayed", "", run.replayed)}});
  return blocks;
}

Document answer_document(const answer::Answer& answer, const std::string& intervals) {
  Document document;
  const auto add = [&](std::vector<Block> more) {
    for (Block& block : more) document.blocks.push_back(std::move(block));
  };
  std::vector<Block>& blocks = document.blocks;
  add(head_blocks(answer, intervals));
  if (answer.run.fits()) {
    blocks.emplace_back(step_rows(answer));
    blocks.emplace_back(stage_time_rows(answer));
  }
  Rows classes = class_rows(answer);
  const bool placed = engine::places_tensors(answer.run.memory);
  if (placed) blocks.emplace_back(stage_memory_rows(answer, classes));
  blocks.emplace_back(std::move(classes));
  if (placed) blocks.emplace_back(Note{"", peak_text(answer)});
  if (answer.run.fits()) blocks.emplace_back(throughput_rows(answer));
  add(tail_blocks(answer));
  return document;
}

Json to_json(const answer::Answer& answer) {
  return result(answer_document(answer));
}

}  // namespace sim::output
