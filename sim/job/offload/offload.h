// offload.h — catalog of optimizers whose state lies on the CPU: what a rank does in a step, in
// which order, on which queue: work in parameters and bytes. How long it takes is the replay's, of
// programs that have this work (program/parallel/deepspeed/deepspeed_zero3.h).
//
// The state of a parameter is fp32: the parameter, two moments and the gradient. A rank's share is
// cut into sub-groups of whole tensors; the first `fraction` of them lie on the CPU. There the
// gradient is scaled (4 bytes read, 4 written) and Adam reads 16 and writes 12: 36 bytes of memory
// a parameter (`Traffic::update`). Where the new parameter goes up by a blocking copy, another
// 12: half() reads 4 and writes 2 into pageable memory, CUDA copies them to its own buffer, the
// GPU reads that (`Traffic::blocking_up`). Deep Optimizer States leaves half() to a thread that the
// step does not wait for. A sub-group that the GPU updates keeps its gradient there; parameter and
// moments go up, 12 bytes, and down again (`Traffic::state`).
//
// Invariants (tested over all small shapes)
//  (1) Every parameter is updated once.
//  (2) A piece names only earlier pieces.
//  (3) Nothing offloaded: the GPU's update alone.
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
  cpu,        // the cores that a rank's process has, and its thread that issues
  gpu,        // SMs
  pcie_up,    // to the GPU
  pcie_down,  // to the CPU
};

// What a parameter draws from the CPUs' memory.
struct Traffic {
  std::int64_t update = 36;       // scaled and updated there
  std::int64_t blocking_up = 12;  // its 16 bits go up through pageable memory
  std::int64_t state = 12;        // parameter and moments, each way
};

struct Shape {
  std::int64_t parameters = 0;  // of this rank
  std::int64_t sub_group = 0;
  double fraction = 1;  // whose state is on the CPU
  int stride = 0;       // every so many sub-groups of them one is updated on the GPU; 0: none
  // The rank's share of each tensor, in the order of the model; 0: it is not trained. None:
  // parameters part anywhere.
  std::vector<std::int64_t> tensors = {};
  Traffic traffic = {};
};

// A piece of a step, on a queue and in the order of its list; on the CPU and where it says so it
// draws on the CPUs' memory, in turn with the others.
struct Work {
  Queue queue = Queue::cpu;
  std::string_view label;  // "update", "state up"
  std::int64_t parameters = 0;
  std::int64_t bytes = 0;          // over PCIe
  std::int64_t memory = 0;         // bytes of the CPUs' memory
  std::vector<std::size_t> after;  // earlier pieces of the list
};

struct Method {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  bool pinned_gradients;  // they come down in fp32 into pinned memory, without holding the CPU
  // Why a shape is impossible; "": it is possible.
  std::string (*problem)(const Shape& shape);
  std::vector<Work> (*step)(const Shape& shape);
};

std::span<const Method> catalog();
const Method* find(std::string_view name);  // nullptr when there is none

// The sizes of the sub-groups: one ends with the tensor that fills it, the last is what is left.
std::vector<std::int64_t> sub_groups(const Shape& shape);
// Of `parameters` that part anywhere.
std::vector<std::int64_t> sub_groups(std::int64_t parameters, std::int64_t size);

// DeepSpeed's: whole sub-groups on the CPU, the first of them, and what stays on the GPU.
struct Split {
  std::vector<std::int64_t> on_cpu;
  std::int64_t remainder = 0;
};
Split split(const Shape& shape);

// Where a tensor's state is when its gradient is there, by the sub-group that it is of.
enum class Place : std::uint8_t {
  cpu,      // its gradient comes down
  fetched,  // the state comes up for the step, the gradient stays
  gpu,      // both are on the GPU
};
struct Home {
  Place place = Place::cpu;
  std::size_t group = 0;
};
// Of each tensor. REQUIRES: `tensors`.
std::vector<Home> home_device(const Shape& shape);

// Pieces of a step. Of a copy `bytes` and `memory` are of a parameter.
Work update_on_cpu(std::int64_t parameters, const Traffic& traffic);
Work update_on_gpu(std::int64_t parameters);
Work copy(Queue queue, std::string_view label, std::int64_t parameters, std::int64_t bytes,
          std::int64_t memory);

// The rules that every method shares.
std::string shape_problem(const Shape& shape);

}  // namespace sim::offload
