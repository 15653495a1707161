// network.h — builds the network of a plan: a model by name, a description, or a model with
// changes.
//
// load_plan and load_grid call network_of for each plan. The plan field `model` names a model. The
// block `architecture` alone describes a network; together with `model` it changes fields of the
// model.
#pragma once

#include <cstdint>

#include "sim/input/schema/plan.pb.h"
#include "sim/input/text/textproto.h"
#include "sim/model/architecture.h"

namespace sim::input {

// The network of a description alone. `sequence`: default of max_positions. Without `heads` the
// head width stays 0.
model::Architecture described(const rehearse::v1::Architecture& from, std::int64_t sequence);
// `base` with the fields of `from` replaced. Other fields keep their values: a wider model keeps
// its ffn. Exception: if the model has as many key-value heads as heads, this stays true.
model::Architecture changed(const model::Architecture& base,
                            const rehearse::v1::Architecture& from);
// The network of a plan. `named`: the model that the plan names, unused without a name.
model::Architecture network_of(const rehearse::v1::Plan& plan, const model::Architecture& named);

// Checks the rules of a plan's fields. If the plan names a model, its description may leave out
// required fields. `plan` is unchanged afterwards.
Diagnostics check_plan(Source& source, rehearse::v1::Plan& plan, bool whole = true);

}  // namespace sim::input
