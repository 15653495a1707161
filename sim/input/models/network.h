// network.h — the network of a plan: a model by its name, a description (`architecture`), or both:
// the model with the fields changed that the description gives.
#pragma once

#include <cstdint>

#include "sim/input/schema/plan.pb.h"
#include "sim/input/text/textproto.h"
#include "sim/model/architecture.h"

namespace sim::input {

// What a description says alone; `sequence` is the default of max_positions. Without heads it has
// no widths of heads.
model::Architecture described(const rehearse::v1::Architecture& from, std::int64_t sequence);
// A model with the fields of `from` changed; all others stay as they are (a wider one keeps its
// ffn), but that heads which were as many as those of keys and values stay so.
model::Architecture changed(const model::Architecture& base,
                            const rehearse::v1::Architecture& from);
// `named`: the model of that name, where the plan names one.
model::Architecture network_of(const rehearse::v1::Plan& plan, const model::Architecture& named);

// The rules of a plan's fields; a description beside a model may leave out what the model says.
// `plan` is as before afterwards.
Diagnostics check_plan(Source& source, rehearse::v1::Plan& plan, bool whole = true);

}  // namespace sim::input
