// offload.h — catalog of optimizers with their state on the CPU. A method lists the work of a rank
// in a step: order, queue, parameters and bytes. The replay of programs with this work computes its
// duration (program/parallel/deepspeed/deepspeed_zero3.h).
//
// The state of a parameter is fp32: the parameter, two moments and the gradient. A rank's share is
// divided into sub-groups of whole tensors; the first `fraction` of them lie on the CPU. There the
// gradient is scaled (4 bytes read, 4 written), and Adam reads 16 bytes and writes 12. In total a
// parameter moves 36 bytes of CPU memory (`Traffic::update`).
//
// A blocking copy of the new parameter adds 12 bytes: half() reads 4 and writes 2 into pageable
// memory. CUDA then copies them to its own buffer, and the GPU reads that (`Traffic::blocking_up`).
// Deep Optimizer States runs half() in a thread that the step does not wait for. A sub-group that
// the GPU updates keeps its gradient on the GPU. Its parameter and moments go up and down again, 12
// bytes each way (`Traffic::state`).
//
// Invariants (tested over all small shapes)
// (1) Every parameter is updated once.
// (2) A piece of work depends only on earlier pieces.
// (3) With nothing offloaded, the step is the GPU's update alone.
//
// Sources: microsoft/DeepSpeed runtime/zero/stage3.py:step and offload_config.py; Maurya et al.,
// "Deep Optimizer States", arXiv:2410.21316, and its fork DataStates/DeepSpeed, branch
// deep-optimizer-states @d18d6f8, runtime/zero/stage3.py:step, opt_transfers, downsample_fp32_fp16,
// unscale_and_clip_grads, _create_fp16_sub_groups; Megatron-LM core 0.14, core/optimizer/
// cpu_offloading/hybrid_optimizer.py.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sim::offload {

enum class Queue : std::uint8_t {
  cpu,        // the cores of a rank's process, and its issuing thread
  gpu,        // SMs
  pcie_up,    // to the GPU
  pcie_down,  // to the CPU
};

// CPU memory traffic for each parameter, in bytes.
struct Traffic {
  std::int64_t update = 36;       // scaled and updated on the CPU
  std::int64_t blocking_up = 12;  // 16-bit copy up through pageable memory
  std::int64_t state = 12;        // parameter and moments, each way
};

struct OptimizerShard {
  std::int64_t parameters = 0;  // of this rank
  std::int64_t sub_group = 0;
  double fraction = 1;  // share with its state on the CPU
  int stride = 0;       // every stride-th sub-group of them is updated on the GPU; 0: none
  // The rank's share of each tensor, in the order of the model; 0: not trained. Empty: sub-groups
  // may split anywhere.
  std::vector<std::int64_t> tensors = {};
  Traffic traffic = {};
};

// A piece of work of a step. Each queue runs its pieces in the order of the list. Work with
// `memory` also uses the CPU's memory, in turn with other such work.
struct Work {
  Queue queue = Queue::cpu;
  std::string_view label;  // "update", "state up"
  std::int64_t parameters = 0;
  std::int64_t bytes = 0;          // over PCIe
  std::int64_t memory = 0;         // bytes of CPU memory traffic
  std::vector<std::size_t> after;  // earlier pieces that it waits for
};

struct Method {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  bool pinned_gradients;  // gradients are copied down asynchronously, in fp32, into pinned memory
  // The reason why a shape is invalid; "": it is valid.
  std::string (*problem)(const OptimizerShard& shape);
  std::vector<Work> (*step)(const OptimizerShard& shape);
};

std::span<const Method> catalog();
const Method* find(std::string_view name);  // nullptr when there is none

// The sizes of the sub-groups. A sub-group ends with the tensor that fills it; the last one has the
// rest.
std::vector<std::int64_t> sub_groups(const OptimizerShard& shape);
// The same for `parameters` that may split anywhere.
std::vector<std::int64_t> sub_groups(std::int64_t parameters, std::int64_t size);

// DeepSpeed's split: the first sub-groups lie whole on the CPU, the remainder stays on the GPU.
struct Split {
  std::vector<std::int64_t> on_cpu;
  std::int64_t remainder = 0;
};
Split split(const OptimizerShard& shape);

// The home of a tensor's state when its gradient arrives, by its sub-group.
enum class StateDevice : std::uint8_t {
  cpu,      // the gradient is copied down
  fetched,  // the state is copied up for the step, the gradient stays on the GPU
  gpu,      // both are on the GPU
};
struct Home {
  StateDevice place = StateDevice::cpu;
  std::size_t group = 0;
};
// The home of each tensor. REQUIRES: `tensors` is not empty.
std::vector<Home> home_device(const OptimizerShard& shape);

// Creates pieces of a step. `bytes` and `memory` of a copy are per parameter.
Work update_on_cpu(std::int64_t parameters, const Traffic& traffic);
Work update_on_gpu(std::int64_t parameters);
Work copy(Queue queue, std::string_view label, std::int64_t parameters, std::int64_t bytes,
          std::int64_t memory);

// The rules that all methods share.
std::string shape_problem(const OptimizerShard& shape);

}  // namespace sim::offload
