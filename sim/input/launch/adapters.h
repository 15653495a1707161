// adapters.h — names of modules with adapters (LoRA) in launch files, as modules of a plan.
//
// The readers of launch files call it for keys such as `lora_target` and `target_modules`.
//
// Source of the names: huggingface/peft src/peft/utils/constants.py:
// TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING; pytorch/torchtune torchtune/modules/peft.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace sim::input {

struct AdapterModules {
  std::set<std::string> modules;    // of lora_modules: "linear_qkv"
  std::vector<std::string> others;  // names without an adapter in a plan: "lm_head"
};

// `words`: names, or lists of names with commas or spaces: "q_proj,v_proj". "all-linear" is all
// four products of a layer.
AdapterModules adapter_modules(const std::vector<std::string>& words);

}  // namespace sim::input
