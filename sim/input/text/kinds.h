// kinds.h — guesses which kind of file a text-format file is, from the fields that only one kind
// has.
//
// `rehearse check` selects the loader with it. Source::read_whole calls it when a file breaks the
// rules of the expected kind. The message then names the kind and the command that reads it.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

namespace sim::input {

// The kind: "plan" (the default), "grid", "cluster", "profile", "campaign", "failures", "search",
// "framework", "codec", "tokenizers", "model-names", "residuals" or "variants".
std::string kind_of_text(std::string_view text);

// The problem of a file of another kind than message `read_as`. Example: "is a grid, not a plan;
// `rehearse sweep` runs it". "" if the kind is right or unclear.
std::string kind_problem(std::string_view text, const google::protobuf::Descriptor& read_as);

}  // namespace sim::input
