// plan_text.h — parses plan fields that hold lists as text, and loads the codecs that a plan names.
//
// `resolve` calls read_words once. Fields: slices, replica_microbatches, layer_choices, codec.
#pragma once

#include <vector>

#include "sim/input/resolve/resolve.h"

namespace sim::input {

// Parses the fields of `from` into `to`. Errors are appended to `problems`.
void read_words(const rehearse::v1::Plan& from, program::Plan& to, Diagnostics& problems);

}  // namespace sim::input
