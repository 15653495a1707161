// plan_lists.h — parses plan fields that hold lists as text, and loads the codecs of a plan.
//
// `resolve` calls read_lists once. Fields: slices, replica_microbatches, layer_choices, codec.
#pragma once

#include <vector>

#include "sim/input/resolve/resolve.h"

namespace sim::input {

// Parses the fields of `from` into `to`. Errors are appended to `problems`.
void read_lists(const rehearse::v1::Plan& from, program::Plan& to, Diagnostics& problems);

}  // namespace sim::input
