// names.h — the kind of network by the name of a model (models/names.textproto).
//
// Rows of measured tables state the sizes of a network and its name. network_like() fills in what
// tables leave out: norms, biases, positions, dropout, tied embeddings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/result.h"
#include "sim/model/architecture.h"

namespace sim::input {

// The `model_type` of the models that are called so: "Nemotron4 15B" is "nemotron". "" if the table
// has no word of the name. A word counts if no letter stands beside it: "opt" is not in "optimal".
std::string model_type_called(std::string_view name);

struct NetworkSizes {
  std::int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0, vocab = 0;
};
// The network of a config.json with this `model_type` and these sizes. Errors: the type is not
// simulated, or the sizes do not fit it.
Result<model::Architecture> network_like(std::string_view type, const NetworkSizes& sizes);

// The problems of a table file with that schema (model_names.proto).
Diagnostics model_name_problems(const std::string& path);

}  // namespace sim::input
