// huggingface.h — a model from its Hugging Face config.json, as the model's authors publish it.
//
// `model_type` decides: gpt2 (LayerNorm, learned positions, GELU, biases), the dense types of
// huggingface_dense.cpp and the mixtures of huggingface_mixture.cpp. Keys that do not shape the
// network are ignored; a key that is left out takes the default of the transformers library. Every
// problem is reported at once, with its place.
#pragma once

#include <string>

#include "sim/base/result.h"
#include "sim/model/architecture.h"

namespace sim::input {

// The architecture is named after the file, or after its folder if the file is config.json.
Result<model::Architecture> load_huggingface(const std::string& path);

// `name` is the path that diagnostics show.
Result<model::Architecture> parse_huggingface(const std::string& text, const std::string& name);

}  // namespace sim::input
