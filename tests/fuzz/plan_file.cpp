// plan_file.cpp — fuzzes plans and launch scripts as a whole: model, cluster and rules included.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "input_file.h"
#include "sim/input/plan/plan.h"
#include "sim/program/plan/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  [[maybe_unused]] static const int root = ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 0);
  if (size == 0) return 0;
  const fuzz::InputFile file(data + 1, size - 1);
  const auto plan = data[0] == 'm' ? sim::input::load_megatron(file.path(), {"cluster=dgx-a100"})
                                   : sim::input::load_plan(file.path(), {"cluster=dgx-a100"});
  if (!plan && plan.errors().empty()) __builtin_trap();
  if (plan && !sim::program::problems(plan->plan).empty()) __builtin_trap();
  return 0;
}
