// plan_fields.h — finds plan fields by any of their names and applies settings "key=value" to a
// plan.
//
// load_plan, load_grid, the launch reader and validate tables call `apply`. An applied setting is
// already checked against its field's type and range.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/schema/plan.pb.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

// Synonyms of fields: names in Megatron-LM, torchtitan, NeMo and published tables.
std::span<const Synonym> plan_synonyms();

// One "key=value". `where`: the place that later diagnostics of the field show.
struct Setting {
  std::string text;   // "tp=4"
  std::string where;  // "command line 'tp=4'", "train.sh:12:5"
};

// Applies the settings in order. Older fields that they contradict are cleared: other sizes of the
// job, numbers of chunks, a description of another model. Returns the errors.
Diagnostics apply(std::span<const Setting> settings, rehearse::v1::Plan& plan, Source& source);

// Clears the fields of the plan that contradict newly set `fields`.
void drop_implied(std::span<const std::string> fields, rehearse::v1::Plan& plan);

// Clears layer-split fields in `from` if `said` splits the layers in another way.
void drop_splits(const rehearse::v1::Plan& said, rehearse::v1::Plan& from);

// The settings "key=value" that a plan states, in the order of its fields, without its name and
// its source: applied to an empty plan, they state the same.
std::vector<std::string> plan_settings(const rehearse::v1::Plan& plan);

// The field of plan.proto for a key: "mbs" gives "micro_batch". "" with a message if there is none.
struct FieldName {
  std::string field, problem;
};
FieldName plan_field(std::string_view key);

// The problem of a key that is no setting of a plan or of its blocks ("fsdp.replicas"); "" if it is
// one.
std::string setting_problem(std::string_view key);

}  // namespace sim::input
