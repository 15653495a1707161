// rules.h — what rule.proto says about a field, checked on values.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/input/schema/rule.pb.h"

namespace sim::input {

const rehearse::v1::Rule& rule_of(const google::protobuf::FieldDescriptor& field);

// "" when `text` is a quantity of the field's unit (or the field has none); else what to write.
std::string quantity_problem(const google::protobuf::FieldDescriptor& field, std::string_view text);

// The values of an enum field that may be written: all but the zero, which stands for "left out".
std::vector<std::string> enum_names(const google::protobuf::FieldDescriptor& field);

bool is_utf8(std::string_view text);

// Quantities of a message that has passed its rules; "" gives zero.
Bytes to_bytes(const std::string& text);
Bandwidth to_bandwidth(const std::string& text);
Duration to_duration(const std::string& text);
double to_flop_rate(const std::string& text);

}  // namespace sim::input
