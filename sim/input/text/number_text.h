// number_text.h — what is said of a text that stands where a number of a field belongs: what the
// number looks like, and what to write instead.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

namespace sim::input {

// "'tp' is a whole number, got '8_192'; write 8192"; "" where the text is a number, whatever its
// size, or the field holds none.
std::string number_problem(const google::protobuf::FieldDescriptor& field, std::string_view text);

// Of a number that is outside of the field's range: "'tp' is 0; it must be between 1 and 1048576".
std::string beyond_problem(const google::protobuf::FieldDescriptor& field, std::string_view number);

}  // namespace sim::input
