// fields.h — the table of all fields of a plan and of a cluster: names, synonyms, flags, units,
// help.
//
// One row of the table drives these features:
//   settings     "key=value" on the command line, axes of grids, what-ifs, synonyms
//   launch       translation of Megatron-LM flags
//   resolve      copy from the file's message to program::Plan
//   output       the plan in JSON, `rehearse list fields`, sim/formats.md
//
// Types and ranges come from the schema (plan.proto, cluster.proto). A test checks that the schema,
// the table and program::Plan have the same fields. To add a field: add a member, a schema line and
// a row (sim/extending.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/input/schema/plan.pb.h"
#include "sim/input/text/textproto.h"
#include "sim/program/plan/plan.h"

namespace sim::input {

// The value of a field; an enumeration value is stored by name.
using Value = std::variant<bool, std::int64_t, double, std::string>;
std::string text_of(const Value& value);

// Reads and writes the member of program::Plan that belongs to a field. Fields without one are
// resolved together with other fields (resolve.cpp).
struct FieldAccess {
  Value (*get)(const program::Plan&) = nullptr;
  void (*set)(program::Plan&, const Value&) = nullptr;

  explicit operator bool() const { return get != nullptr; }
};

struct Field {
  std::string_view name;  // name in a setting: "tp", "fsdp.no_sync"
  FieldAccess place = {};
  std::string_view unit = {};       // "": no unit
  std::string_view otherwise = {};  // default, if not the member's initial value
  // Megatron-LM flags, separated by blanks. "tensor-model-parallel-size=" takes the flag's value;
  // "bf16:bf16" sets the value after the colon.
  std::string_view flags = {};
  std::string_view synonyms = {};  // names in other programs and tables
  std::string_view line = {};      // help text
};

std::span<const Field> plan_fields();
std::span<const Field> cluster_fields();
// Fields of blocks in lists: "condition.node" is written condition={node: 3 ...}.
std::span<const Field> cluster_block_fields();

// The field of a name; nullptr if unknown.
const Field* find_plan_field(std::string_view name);

// The setting of a Megatron-LM flag: "tp=" (takes the flag's value) or "precision=bf16". "" if no
// single field belongs to the flag.
std::string megatron_setting(std::string_view flag);

// All flags in the table.
std::vector<std::string_view> megatron_flags();

// Copies the fields that are set in a plan message to the members of program::Plan.
void copy_fields(const rehearse::v1::Plan& from, program::Plan& to);

// One row as text, for `rehearse list fields` and the documentation.
struct FieldText {
  std::string name, type, unit, otherwise, flags, synonyms, line;
  // Of a block: a line per field, "bandwidth: number from 0 to 1, share; default 1. Share of ...".
  std::vector<std::string> parts = {};
};
FieldText plan_field_text(const Field& field);
FieldText cluster_field_text(const Field& field);

}  // namespace sim::input
