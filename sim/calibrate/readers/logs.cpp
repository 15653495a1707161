// logs.cpp — reads logs of training frameworks. Their lines look like this:
//
// - Megatron-LM (megatron/training/training.py, training_log): "iteration 10/ 100 | ... | elapsed
//   time per iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 380.2 | ...".
// - Megatron-DeepSpeed prints seconds and "TFLOPs:"; NeMo "train_step_timing in s: 1.2"; memory as
//   "max allocated: MB".
// - torchtitan (components/metrics.py): "step: 10 loss: 7.1 memory: 43.1GiB(45.4%) tps: 5,123
//   tflops: 300.1 mfu: 37.5%"; older versions "wps:"; in colours.
// - Composer (composer/loggers/console_logger.py): a line "[batch=20/100]:", then one line per
//   metric, "Train throughput/batches_per_sec: 0.05".
#include <fmt/format.h>

#include <algorithm>

#include "sim/calibrate/readers/lines.h"
#include "sim/calibrate/readers/printed_settings.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/calibrate/rows/row_text.h"

namespace sim::calibrate {

namespace {

constexpr std::size_t max_steps = 1'000'000;

void finish(Measurements& out, const char* what) {
  const std::string text = summary(out.steps);
  if (!text.empty()) out.facts.push_back(fmt::format("{}: {}", what, text));
}

}  // namespace

bool is_megatron_log(std::string_view bytes, const std::string&) {
  return bytes.find("elapsed time per iteration (") != std::string_view::npos ||
         bytes.find("train_step_timing in s") != std::string_view::npos;
}

Result<Measurements> read_megatron_log(std::string_view bytes, const std::string& path) {
  Measurements out;
  out.settings = printed_settings(bytes, path);
  double reserved = 0, allocated = 0;
  std::int64_t batch = 0;
  for_lines(bytes, [&](std::string_view line) {
    const double mb_reserved = number_after(line, "max reserved:");
    const double mb_allocated = number_after(line, "max allocated:");
    // Ranks print in any order; the plan's peaks are those of the rank that needs most.
    reserved = std::max(reserved, mb_reserved / 1024);
    allocated = std::max(allocated, mb_allocated / 1024);
    double seconds = number_after(line, "elapsed time per iteration (ms):") * 1e-3;
    if (seconds == 0) seconds = number_after(line, "elapsed time per iteration (s):");
    if (seconds == 0) seconds = number_after(line, "train_step_timing in s");
    if (seconds == 0 || out.steps.size() >= max_steps) return;
    StepSample step;
    step.source = path;
    step.seconds = seconds;
    step.iteration = count_after(line, " iteration");
    step.tflops_gpu = number_after(line, "throughput per GPU (TFLOP/s/GPU):");
    if (step.tflops_gpu == 0) {
      // A factor of 4 where activations are recomputed, else 3
      // [bigscience-workshop/Megatron-DeepSpeed megatron/utils.py: throughput_calculator].
      step.tflops_gpu = number_after(line, "TFLOPs:");
      step.counts_recomputation = step.tflops_gpu > 0;
    }
    step.reserved_gib = reserved;
    step.allocated_gib = allocated;
    for (const char* label : {"global batch size:", "global_batch_size:"})
      if (const std::int64_t size = count_after(line, label); size > 0) step.global_batch = size;
    if (step.global_batch > 0) batch = step.global_batch;
    const std::string date = date_in(line);
    if (!date.empty()) out.date = date;
    out.steps.push_back(step);
  });
  if (out.steps.empty()) return Diagnostics{{path, "no iteration with its elapsed time"}};
  finish(out, "Megatron-LM");
  if (batch > 0) out.facts.push_back(fmt::format("global batch {}", batch));
  if (allocated > 0)
    out.facts.push_back(
        fmt::format("max allocated {:.2f} GiB, max reserved {:.2f} GiB", allocated, reserved));
  return out;
}

bool is_torchtitan_log(std::string_view bytes, const std::string&) {
  if (bytes.find("memory:") == std::string_view::npos) return false;
  return bytes.find("tps:") != std::string_view::npos ||
         bytes.find("wps:") != std::string_view::npos;
}

Result<Measurements> read_torchtitan_log(std::string_view bytes, const std::string& path) {
  Measurements out;
  out.settings = printed_settings(bytes, path);
  for_lines(bytes, [&](std::string_view coloured) {
    if (out.steps.size() >= max_steps) return;
    const std::string line = without_colours(coloured);
    StepSample step;
    step.source = path;
    step.tokens_s_gpu = number_after(line, "tps:");
    if (step.tokens_s_gpu == 0) step.tokens_s_gpu = number_after(line, "wps:");
    step.iteration = count_after(line, "step:");
    if (step.tokens_s_gpu == 0 || step.iteration == 0) return;
    step.tflops_gpu = number_after(line, "tflops:");
    step.reserved_gib = number_after(line, "memory:");
    const std::string date = date_in(line);
    if (!date.empty()) out.date = date;
    out.steps.push_back(step);
  });
  if (out.steps.empty()) return Diagnostics{{path, "no step with its tokens per second"}};
  finish(out, "torchtitan");
  return out;
}

bool is_composer_log(std::string_view bytes, const std::string&) {
  return bytes.find("throughput/batches_per_sec:") != std::string_view::npos ||
         bytes.find("throughput/device/tokens_per_sec:") != std::string_view::npos;
}

Result<Measurements> read_composer_log(std::string_view bytes, const std::string& path) {
  Measurements out;
  out.settings = printed_settings(bytes, path);
  StepSample step;
  const auto finish_step = [&] {
    const bool says = step.seconds > 0 || step.tokens_s_gpu > 0;
    if (says && out.steps.size() < max_steps) out.steps.push_back(step);
    step = {};
    step.source = path;
  };
  finish_step();
  for_lines(bytes, [&](std::string_view line) {
    if (const std::int64_t batch = count_after(line, "[batch="); batch > 0) {
      finish_step();
      step.iteration = batch;
    }
    if (const double rate = number_after(line, "throughput/batches_per_sec:"); rate > 0)
      step.seconds = 1 / rate;
    if (const double rate = number_after(line, "throughput/device/tokens_per_sec:"); rate > 0)
      step.tokens_s_gpu = rate;
    if (const double rate = number_after(line, "throughput/device/flops_per_sec:"); rate > 0)
      step.tflops_gpu = rate * 1e-12;
    if (const double gb = number_after(line, "memory/peak_reserved_mem:"); gb > 0)
      step.reserved_gib = gb * 1e9 / (1 << 30);
    if (const double gb = number_after(line, "memory/peak_allocated_mem:"); gb > 0)
      step.allocated_gib = gb * 1e9 / (1 << 30);
  });
  finish_step();
  if (out.steps.empty()) return Diagnostics{{path, "no batch with its throughput"}};
  finish(out, "Composer");
  return out;
}

}  // namespace sim::calibrate
