// plan_fields.h — the fields of a plan by all their names, and settings "key=value" applied to it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/schema/plan.pb.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

// Names from Megatron-LM, torchtitan, NeMo and the tables people publish.
std::span<const Synonym> plan_synonyms();

// One "key=value"; `where` is what diagnostics of the field say from now on.
struct Setting {
  std::string text;   // "tp=4"
  std::string where;  // "command line 'tp=4'", "train.sh:12:5"
};

// Applies the settings in order. What they imply is dropped from the plan: other statements of the
// world's size, of the chunks, of the model.
Diagnostics apply(std::span<const Setting> settings, rehearse::v1::Plan& plan, Source& source);

// Only that: drops from the plan what setting these fields makes untrue.
void drop_implied(std::span<const std::string> fields, rehearse::v1::Plan& plan);

// Drops ways to split layers from `from` where `said` splits them in another way.
void drop_splits(const rehearse::v1::Plan& said, rehearse::v1::Plan& from);

// The field of plan.proto that a key names ("mbs" -> "micro_batch"), "" with a message when none.
struct FieldName {
  std::string field, problem;
};
FieldName plan_field(std::string_view key);

// Why a key is no setting, of a plan or of one of its blocks ("fsdp.replicas"); "": it is one.
std::string setting_problem(std::string_view key);

}  // namespace sim::input
