// offload.h — catalog of optimizers whose state lies on the CPU: what a rank does in a step, in
// which order, on which queue.
//
// The state of a parameter is fp32: the parameter, two moments and the gradient. A rank's share is
// cut into sub-groups. An update on the CPU reads 16 bytes a parameter and writes 12; clipping and
// the copy in 16 bits that goes up draw on memory too, the more so where the copy first goes
// through pageable memory (`Rates::blocking_bytes` against `pinned_bytes`, measured). An update on
// the GPU fetches the 16 bytes, writes the 12 back, and the 16-bit copy stays there.
//
// Invariants (tested over all small shapes)
//  (1) Every parameter is updated once.
//  (2) No step is shorter than the update of what stays on the GPU, than what the CPU's memory must
//      carry, or than what each direction of PCIe must.
//  (3) Nothing offloaded: the GPU's update alone.
//
// Sources: microsoft/DeepSpeed runtime/zero/stage3.py:step and offload_config.py; Maurya et al.,
// "Deep Optimizer States", arXiv:2410.21316; Megatron-LM core 0.14, core/optimizer/cpu_offloading/
// hybrid_optimizer.py.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/offload/resources.h"

namespace sim::offload {

// What a node's CPUs and PCIe do for one of its ranks, bytes and parameters per second.
struct Rates {
  double cores = 0;    // what the cores of a rank would draw from memory without limit
  double memory = 0;   // what the node's memory carries, shared by its ranks
  int ranks = 1;       // of the node
  double pcie_up = 0;  // pinned copies, one direction
  double pcie_down = 0;
  double flush = 0;           // bytes of fp32 gradients that come down beside a backward pass
  double blocking_flush = 0;  // parameters whose gradients a blocking copy brings down, and widens
  double gpu_update = 0;      // parameters that a GPU updates
  double blocking_bytes = 0;  // of memory, an update on the CPU with blocking copies, a parameter
  double pinned_bytes = 0;    // ... with copies from pinned memory
  double state_bytes = 0;     // of memory, an update on the GPU: state up and down, a parameter

  double share() const { return memory / ranks; }
};

struct Shape {
  std::int64_t parameters = 0;  // of this rank
  std::int64_t sub_group = 0;
  double fraction = 1;  // whose state is on the CPU
  int stride = 0;       // every so many sub-groups of them one is updated on the GPU; 0: none
};

struct Method {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  bool flushes_behind;  // gradients go down beside the backward pass
  // Why a shape is impossible; "": it is possible.
  std::string (*problem)(const Shape& shape);
  std::vector<Task> (*step)(const Shape& shape, const Rates& rates);
};

std::span<const Method> catalog();
const Method* find(std::string_view name);  // nullptr when there is none

// The sizes of the sub-groups of `parameters`, the last one what is left.
std::vector<std::int64_t> sub_groups(std::int64_t parameters, std::int64_t size);

// Pieces of a step. `bytes`: of memory, a parameter.
Task update_on_cpu(std::int64_t parameters, double bytes, const Rates& rates);
Task update_on_gpu(std::int64_t parameters, const Rates& rates);
Task copy(Queue queue, std::string_view label, std::int64_t parameters, double bytes,
          const Rates& rates);

// When the gradients of a backward pass are on the CPU: `ready` is when those of each unit are
// there, `parameters` how many, in that order.
Time flushed(const Method& method, std::span<const Time> ready,
             std::span<const std::int64_t> parameters, const Rates& rates);

// The rules that every method shares.
std::string shape_problem(const Shape& shape);

}  // namespace sim::offload
