// launch_network.h — Megatron-LM flags of a network that take more than one field of the plan, or
// numbers of the model's file on which neither time nor memory depends.
#pragma once

#include <string>
#include <vector>

#include "sim/model/architecture.h"

namespace sim::planner {

struct NetworkFlags {
  std::vector<std::string> flags;  // "--rotary-base 500000"
  std::string left;                // of the model's file what no flag says; "": nothing
};

// `model`: a name or a path; the keys of its file are those of Hugging Face's config.json. Without
// the file its numbers are left out.
// Source of the flags: [NVIDIA/Megatron-LM megatron/training/arguments.py].
NetworkFlags network_flags(const model::Architecture& network, const std::string& model);

}  // namespace sim::planner
