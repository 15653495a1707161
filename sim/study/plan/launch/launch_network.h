// launch_network.h — writes the network as torchtitan's flavor, and the Megatron-LM flags of the
// model that no single field of the plan gives. Some need several fields. Others change neither
// time nor memory, such as the rotary base, and come from the model's file. launch_writer.cpp calls
// it.
#pragma once

#include <string>
#include <vector>

#include "sim/model/architecture.h"

namespace sim::planner {

struct NetworkFlags {
  std::vector<std::string> flags;  // "--rotary-base 500000"
  std::string left;                // values of the model's file that no flag expresses; "": none
};

// `model`: a name or a path; the keys of its file are those of Hugging Face's config.json. Without
// the file its numbers are left out.
// Source of the flags: [NVIDIA/Megatron-LM megatron/training/arguments.py].
NetworkFlags network_flags(const model::Architecture& network, const std::string& model);

// What torchtitan's llama3 does not have of this network: "experts and a sliding window". "": it is
// the network, with other numbers.
std::string beyond_torchtitan_llama(const model::Architecture& network);

// A module of Python that adds the flavor "custom" to llama3; `experimental.custom_import` names
// it.
// Source: [pytorch/torchtitan v0.2.0 torchtitan/models/llama3/model/args.py:TransformerModelArgs,
// model/model.py:FeedForward].
std::string torchtitan_flavor(const model::Architecture& network, const std::string& model);

}  // namespace sim::planner
