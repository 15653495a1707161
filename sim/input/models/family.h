// family.h — model families as data: models/families/*.textproto.
//
// parse_huggingface asks it for the family of a `model_type` after the types that are written in
// C++. A family starts with the network that most types of the transformers library share (RMSNorm,
// rotary positions, SwiGLU) and names the keys and modules that differ.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/input/models/huggingface_keys.h"

namespace sim::input {

// The `model_type` values of all family files, sorted. `refused_too`: also those of families that
// are known by name only, to refuse them with a reason.
const std::vector<std::string>& family_types(bool refused_too = false);

// Why networks of this `model_type`, which is known by name only, are not simulated; ""
// for other types.
std::string family_refusal(std::string_view type);

// The names of the keys for heads and for the hidden size in a family.
std::pair<std::string_view, std::string_view> family_heads_and_hidden(Keys& keys,
                                                                      std::string_view type);

// Reads the network of a `model_type` that family_types() has. Every wrong, missing or unsupported
// key adds a problem to `keys`.
model::Architecture read_family(Keys& keys, std::string_view type);

// All problems of a family file: its schema, unknown names of fields, values that no field takes.
Diagnostics family_problems(const std::string& path);

}  // namespace sim::input
