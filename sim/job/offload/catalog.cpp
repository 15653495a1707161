// catalog.cpp — the table of optimizers with state on the CPU, and their shared functions.
//
// To add one: write offload/<name>.cpp, then add its lines here.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "sim/job/offload/offload.h"

namespace sim::offload {

std::string zero_3_problem(const OptimizerShard& shape);
std::vector<Work> zero_3_step(const OptimizerShard& shape);
std::string deep_problem(const OptimizerShard& shape);
std::vector<Work> deep_step(const OptimizerShard& shape);
std::string hybrid_problem(const OptimizerShard& shape);
std::vector<Work> hybrid_step(const OptimizerShard& shape);
std::vector<Work> hybrid_overlap_step(const OptimizerShard& shape);

std::span<const Method> catalog() {
  static constexpr std::array table{
      Method{"zero-3", "sub-groups on the CPU one by one, copies blocking",
             "DeepSpeed runtime/zero/stage3.py", false, zero_3_problem, zero_3_step},
      Method{"zero-3-flush", "the same, gradients go down beside the backward pass",
             "arXiv:2410.21316, section 4.3", true, zero_3_problem, zero_3_step},
      Method{"deep", "every k-th sub-group is updated on the GPU meanwhile", "arXiv:2410.21316",
             true, deep_problem, deep_step},
      Method{"hybrid", "all gradients down, one optimizer on the CPU, parameters up",
             "Megatron-LM core 0.14, --optimizer-cpu-offload", false, hybrid_problem, hybrid_step},
      Method{"hybrid-overlap", "an optimizer for each tensor, its copies beside the next one's",
             "Megatron-LM core 0.14, --overlap-cpu-optimizer-d2h-h2d", false, hybrid_problem,
             hybrid_overlap_step},
  };
  return table;
}

const Method* find(std::string_view name) {
  for (const Method& method : catalog())
    if (method.name == name) return &method;
  return nullptr;
}

std::vector<std::int64_t> sub_groups(std::int64_t parameters, std::int64_t size) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t left = parameters; left > 0; left -= size)
    sizes.push_back(std::min(left, size));
  return sizes;
}

std::vector<std::int64_t> sub_groups(const OptimizerShard& shape) {
  if (shape.tensors.empty()) return sub_groups(shape.parameters, shape.sub_group);
  std::vector<std::int64_t> sizes;
  bool open = false;
  for (const std::int64_t size : shape.tensors) {
    if (size == 0) continue;
    if (!open) sizes.push_back(0);
    sizes.back() += size;
    open = sizes.back() < shape.sub_group;
  }
  return sizes;
}

Split split(const OptimizerShard& shape) {
  Split out;
  out.on_cpu = sub_groups(shape);
  const auto kept =
      static_cast<std::size_t>(shape.fraction * static_cast<double>(out.on_cpu.size()));
  for (std::size_t g = kept; g < out.on_cpu.size(); ++g) out.remainder += out.on_cpu[g];
  out.on_cpu.resize(kept);
  return out;
}

std::vector<Home> home_device(const OptimizerShard& shape) {
  assert(!shape.tensors.empty());
  const std::size_t on_cpu = split(shape).on_cpu.size();
  std::vector<Home> home_device;
  std::size_t group = 0;
  std::int64_t filled = 0;
  for (const std::int64_t size : shape.tensors) {
    const bool fetched =
        shape.stride > 0 && (group + 1) % static_cast<std::size_t>(shape.stride) == 0;
    const bool stays = size == 0 || group >= on_cpu;
    home_device.push_back({stays     ? StateDevice::gpu
                           : fetched ? StateDevice::fetched
                                     : StateDevice::cpu,
                           group});
    filled += size;
    if (filled < shape.sub_group) continue;
    filled = 0;
    ++group;
  }
  return home_device;
}

std::string shape_problem(const OptimizerShard& shape) {
  // A sub-group is a tensor, so a step with very many of them would take hours to replay.
  constexpr std::int64_t most = 1 << 20;
  if (shape.parameters < 1) return "there are no parameters";
  if (shape.sub_group < 1 || shape.parameters / shape.sub_group > most)
    return fmt::format("sub-groups of {} parameters; write 1 to {}", shape.sub_group,
                       shape.parameters);
  if (!(shape.fraction >= 0 && shape.fraction <= 1))
    return fmt::format("a fraction of {} of the state on the CPU; it must be 0 to 1",
                       shape.fraction);
  if (shape.stride < 0) return "a stride below 0; write 0 for none on the GPU";
  return "";
}

Work update_on_cpu(std::int64_t parameters, const Traffic& traffic) {
  return {Queue::cpu, "update", parameters, 0, parameters * traffic.update, {}};
}

Work update_on_gpu(std::int64_t parameters) {
  return {Queue::gpu, "update", parameters, 0, 0, {}};
}

Work copy(Queue queue, std::string_view label, std::int64_t parameters, std::int64_t bytes,
          std::int64_t memory) {
  assert(queue == Queue::pcie_up || queue == Queue::pcie_down);
  return {queue, label, parameters, parameters * bytes, parameters * memory, {}};
}

}  // namespace sim::offload
