// rules.h — checks field values against the rules in the schema (rule.proto).
//
// Source::check calls it for every message that a loader reads. Setters call it for single values.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/input/schema/rule.pb.h"

namespace sim::input {

// The rule of a field; the empty rule if the schema has none.
const rehearse::v1::Rule& rule_of(const google::protobuf::FieldDescriptor& field);

// The problem of a quantity such as "40GiB": it suggests a valid text. "" if `text` is valid or the
// field has no unit.
std::string quantity_problem(const google::protobuf::FieldDescriptor& field, std::string_view text);

// The names of an enum field's values, without the zero value (it means "not set").
std::vector<std::string> enum_names(const google::protobuf::FieldDescriptor& field);

bool is_utf8(std::string_view text);

// Convert a quantity text. "" gives zero. REQUIRES: the text has passed its field's rule.
Bytes to_bytes(const std::string& text);
Bandwidth to_bandwidth(const std::string& text);
Duration to_duration(const std::string& text);
double to_flop_rate(const std::string& text);

}  // namespace sim::input
