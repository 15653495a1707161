// gpu_list.h — the numbers of GPUs that `rehearse plan --gpus` names: "256,512" or "64..512".
#pragma once

#include <string>
#include <vector>

namespace sim::command {

// The numbers in ascending order, each once. A range has its first number, doubled as often as it
// stays in the range. Throws Stop with a usage error if the text names no number of GPUs.
std::vector<int> gpu_list(const std::string& text);

}  // namespace sim::command
