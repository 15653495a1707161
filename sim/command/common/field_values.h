// field_values.h — descriptions of the fields of plans and clusters, for `list fields` and `doc`.
#pragma once

#include <string>
#include <vector>

#include "sim/input/fields/fields.h"
#include "sim/output/document.h"

namespace sim::command {

struct FieldEntry {
  const char* of;  // "plan", "cluster"
  input::FieldText text;
};

// The fields of a plan, then those of a cluster.
std::vector<FieldEntry> all_fields();

// Values "of", "name", "type", "unit", "default", "megatron_lm", "synonyms", "line",
// "fields".
std::vector<output::Value> values_of(const FieldEntry& entry);

// Flags of a field: "--tensor-model-parallel-size= --bf16:bf16" gives
// "--tensor-model-parallel-size", "--bf16".
std::vector<std::string> flags_of(const input::FieldText& field);

}  // namespace sim::command
