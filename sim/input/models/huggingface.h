// huggingface.h — loads a model from its Hugging Face config.json, as the model's authors publish
// it.
//
// load_plan and load_grid call it for the model of each plan. `model_type` selects the reader: gpt2
// (LayerNorm, learned positions, GELU, biases), the dense types of huggingface_dense.cpp, or the
// mixtures of experts of huggingface_mixture.cpp.
//
// Keys that do not change the network are ignored. A missing key takes the default of the
// transformers library. All problems are reported at once, with line and column.
#pragma once

#include <string>

#include "sim/base/result.h"
#include "sim/model/architecture.h"

namespace sim::input {

// The architecture of a file. Its name is that of the file, or of the folder of a config.json.
Result<model::Architecture> load_huggingface(const std::string& path);

// The architecture of a text. `name`: the path that diagnostics show.
Result<model::Architecture> parse_huggingface(const std::string& text, const std::string& name);

}  // namespace sim::input
