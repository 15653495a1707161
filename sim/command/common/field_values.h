// field_values.h — what there is to say of a field of a plan or a cluster, for `list fields` and
// `doc`.
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

// "of", "name", "type", "unit", "default", "megatron_lm", "synonyms", "line".
std::vector<output::Value> values_of(const FieldEntry& entry);

// "--tensor-model-parallel-size", "--bf16" of "--tensor-model-parallel-size= --bf16:bf16".
std::vector<std::string> flags_of(const input::FieldText& field);

}  // namespace sim::command
