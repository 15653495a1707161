// fields.h — one table of everything a plan and a cluster can say. A row drives settings of the
// command line, axes of grids and what-ifs, synonyms, Megatron-LM's flags, the step from a file to
// a plan, the plan in JSON, `rehearse list fields` and sim/formats.md.
//
// Types and ranges are the schema's (plan.proto, cluster.proto); a test holds that schema, table
// and the members of program::Plan name the same things. A new field of a plan is a member, a line
// of the schema and a row (sim/extending.md).
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

// What a field holds; a choice is its name.
using Value = std::variant<bool, std::int64_t, double, std::string>;
std::string text_of(const Value& value);

// The member of a plan that a field is; a field without one is resolved together with others
// (resolve.cpp).
struct Place {
  Value (*get)(const program::Plan&) = nullptr;
  void (*set)(program::Plan&, const Value&) = nullptr;

  explicit operator bool() const { return get != nullptr; }
};

struct Field {
  std::string_view name;  // as in a setting: "tp", "fsdp.no_sync", "gpu.memory"
  Place place = {};
  std::string_view unit = {};       // "" for what has none
  std::string_view otherwise = {};  // the default, where it is not the member's own
  // Megatron-LM's, apart by blanks: "tensor-model-parallel-size=" takes the flag's value,
  // "bf16:bf16" says this one.
  std::string_view flags = {};
  std::string_view synonyms = {};  // names from other programs and from published tables
  std::string_view line = {};      // what it is
};

std::span<const Field> plan_fields();
std::span<const Field> cluster_fields();

// The field by its name; nullptr when the table has none.
const Field* find_plan_field(std::string_view name);

// The setting that one of Megatron-LM's flags makes: "tp=" (takes the flag's value),
// "precision=bf16", or "" where the flag is no field's alone.
std::string megatron_setting(std::string_view flag);

// Every flag of the table.
std::vector<std::string_view> megatron_flags();

// Copies what a plan file says to the members it names.
void copy_fields(const rehearse::v1::Plan& from, program::Plan& to);

// For `list fields` and the documentation.
struct FieldText {
  std::string name, type, unit, otherwise, flags, synonyms, line;
};
FieldText plan_field_text(const Field& field);
FieldText cluster_field_text(const Field& field);

}  // namespace sim::input
