// number_text.h — explains why a text is not a number of a schema field, and suggests a valid one.
//
// The text-format reader and the setters of plan and cluster fields call it. It creates messages
// only.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

namespace sim::input {

// The problem of a text: "'tp' is a whole number, got '8_192'; write 8192". A number of any size is
// no problem: "". A field that holds no number also gives "".
std::string number_problem(const google::protobuf::FieldDescriptor& field, std::string_view text);

// The problem of a number outside the field's range: "'tp' is 0; it must be between 1 and 1048576".
std::string beyond_problem(const google::protobuf::FieldDescriptor& field, std::string_view number);

// Of a text such as "32k" or "2M" what to write instead: "; write 32768 or 32000". "" for others.
std::string thousands_hint(std::string_view text);

}  // namespace sim::input
