// fields_test.cpp — the table of fields agrees with the schemas, with the members of program::Plan,
// and with plan files and command lines.
#include "sim/input/fields/fields.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "sim/input/fields/plan_fields.h"
#include "sim/input/schema/cluster.pb.h"
#include "sim/input/text/rules.h"

namespace {

using namespace sim::input;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
namespace v1 = rehearse::v1;

// The settings of a schema: its blocks and their fields.
std::vector<std::string> settings_of(const Descriptor* message, const std::string& prefix = "") {
  std::vector<std::string> all;
  for (int i = 0; i < message->field_count(); ++i) {
    const FieldDescriptor* field = message->field(i);
    all.push_back(prefix + field->name());
    if (!field->message_type() || field->is_repeated()) continue;
    for (const std::string& inner : settings_of(field->message_type(), field->name() + "."))
      all.push_back(inner);
  }
  return all;
}

void same_names(std::span<const Field> rows, const Descriptor* message) {
  std::set<std::string> table;
  for (const Field& row : rows) {
    INFO(row.name);
    CHECK(table.insert(std::string(row.name)).second);
    CHECK(!row.line.empty());
    CHECK(row.line.ends_with('.'));
  }
  const std::vector<std::string> schema = settings_of(message);
  CHECK(table == std::set<std::string>(schema.begin(), schema.end()));
}

// Members of an aggregate, counted by how many initialisers it takes.
struct Anything {
  template <class T>
  operator T() const;
};
template <class T, class... Given>
constexpr std::size_t members() {
  if constexpr (requires { T{Given{}..., Anything{}}; })
    return members<T, Given..., Anything>();
  else
    return sizeof...(Given);
}

std::size_t places_below(const std::string& prefix, bool inside) {
  std::size_t count = 0;
  for (const Field& row : plan_fields())
    if (row.place && row.name.starts_with(prefix) == inside) ++count;
  return count;
}

// A different value of the field's type.
Value other(const Value& value, const FieldDescriptor& field) {
  if (const bool* flag = std::get_if<bool>(&value)) return !*flag;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number + 1;
  if (const double* number = std::get_if<double>(&value)) return *number + 0.25;
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM) return std::get<std::string>(value) + "x";
  for (const std::string& name : enum_names(field))
    if (name != std::get<std::string>(value)) return name;
  return value;
}

const FieldDescriptor* schema_of(const Field& row) {
  const std::size_t dot = row.name.find('.');
  if (dot == std::string_view::npos)
    return v1::Plan::descriptor()->FindFieldByName(std::string(row.name));
  return v1::Plan::descriptor()
      ->FindFieldByName(std::string(row.name.substr(0, dot)))
      ->message_type()
      ->FindFieldByName(std::string(row.name.substr(dot + 1)));
}

}  // namespace

TEST_CASE("input: the table of fields has every field of plan.proto and of cluster.proto") {
  same_names(plan_fields(), v1::Plan::descriptor());
  same_names(cluster_fields(), v1::Cluster::descriptor());
}

TEST_CASE("input: the table of blocks in lists has every field of theirs in cluster.proto") {
  std::set<std::string> schema, table;
  for (const Field& row : cluster_fields()) {
    const std::string name(row.name);
    const FieldDescriptor* field = nullptr;
    const Descriptor* message = v1::Cluster::descriptor();
    for (std::size_t at = 0; at < name.size() && message != nullptr;) {
      const std::size_t dot = std::min(name.find('.', at), name.size());
      field = message->FindFieldByName(name.substr(at, dot - at));
      message = field->message_type();
      at = dot + 1;
    }
    if (!field->is_repeated() || message == nullptr) continue;
    for (int i = 0; i < message->field_count(); ++i)
      schema.insert(name + "." + message->field(i)->name());
  }
  for (const Field& row : cluster_block_fields()) {
    INFO(row.name);
    CHECK(table.insert(std::string(row.name)).second);
    CHECK(row.line.ends_with('.'));
    CHECK_FALSE(cluster_field_text(row).type.empty());
  }
  CHECK(table == schema);
  const auto condition = std::ranges::find(cluster_fields(), "condition", &Field::name);
  const std::vector<std::string> parts = cluster_field_text(*condition).parts;
  CHECK(parts.size() == 8);
  CHECK(parts[6].starts_with("bandwidth: number from 0 to 1, share; default 1. Share of"));
}

TEST_CASE("input: every member of a plan is a field's place, or one that fields say together") {
  using namespace sim::program;
  // recompute_modules, offload_modules, cuda_graph_modules, main_params_dtype and its two fellows,
  // lora_modules (four members), optimizer_offload_fraction, pipeline_layout, router_load, slices,
  // layer_choices and replica_microbatches (two each), what the names of codecs stand for.
  const std::size_t together = 1 + 1 + 1 + 3 + 4 + 1 + 1 + 1 + 2 + 2 + 2 + 1;
  const std::size_t unsaid = 1;  // a search sets pass_times
  const std::size_t parts = members<MeshPlan>() + members<BatchPlan>() + members<PipelinePlan>() +
                            (members<ShardingPlan>() - 1) + members<FsdpOptions>() +
                            members<LayerPolicy>() + members<NumericsPlan>() +
                            members<StackPlan>() + members<EnvironmentPlan>() +
                            members<LoraOptions>() + members<OptimizerOptions>() +
                            members<ExpertsPlan>() + members<CodecsPlan>();
  // mtp_layers is a member of the architecture.
  const std::size_t of_the_model = 1;
  CHECK(members<Plan>() == 13);
  CHECK(places_below("architecture.", false) + together + unsaid == parts + of_the_model);
}

TEST_CASE("input: a place holds what it is given, and moves no other field") {
  for (const Field& row : plan_fields()) {
    if (!row.place) continue;
    INFO(row.name);
    sim::program::Plan plan;
    const Value before = row.place.get(plan);
    const Value after = other(before, *schema_of(row));
    row.place.set(plan, after);
    CHECK(row.place.get(plan) == after);
    CHECK(after != before);
    for (const Field& next : plan_fields())
      if (next.place && next.name != row.name)
        CHECK(next.place.get(plan) == next.place.get(sim::program::Plan{}));
  }
}

TEST_CASE("input: names of a choice are those of the schema") {
  for (const Field& row : plan_fields()) {
    if (!row.place || schema_of(row)->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) continue;
    for (const std::string& name : enum_names(*schema_of(row))) {
      INFO(row.name << " " << name);
      sim::program::Plan plan;
      row.place.set(plan, name);
      CHECK(std::get<std::string>(row.place.get(plan)) == name);
    }
  }
}

TEST_CASE("input: no two fields share a synonym, and no synonym is a field's name") {
  std::set<std::string_view> seen;
  for (const Synonym& synonym : plan_synonyms()) {
    INFO(synonym.given);
    CHECK(seen.insert(synonym.given).second);
    CHECK(find_plan_field(synonym.given) == nullptr);
    CHECK(find_plan_field(synonym.field) != nullptr);
  }
}

TEST_CASE("input: a flag of Megatron-LM is one field's, and its setting applies") {
  std::set<std::string_view> seen;
  for (const std::string_view flag : megatron_flags()) {
    INFO(flag);
    CHECK(seen.insert(flag).second);
    std::string setting = megatron_setting(flag);
    if (setting.ends_with('=')) continue;
    v1::Plan plan;
    Source source("");
    const Setting one{setting, "here"};
    CHECK(apply({&one, 1}, plan, source).empty());
  }
  CHECK(megatron_setting("tensor-model-parallel-size") == "tp=");
  CHECK(megatron_setting("bf16") == "precision=bf16");
  CHECK(megatron_setting("untie-embeddings-and-output-weights") ==
        "architecture.tied_embeddings=false");
  CHECK(megatron_setting("seed").empty());
}

TEST_CASE("input: a field's text has its type, its default and its flag") {
  const FieldText tp = plan_field_text(*find_plan_field("tp"));
  CHECK(tp.type == "integer from 1 to 1048576");
  CHECK(tp.otherwise == "1");
  CHECK(tp.flags == "--tensor-model-parallel-size --model-parallel-size");
  CHECK(plan_field_text(*find_plan_field("recompute")).type == "none|selective|full");
  CHECK(plan_field_text(*find_plan_field("recompute")).otherwise == "none");
  CHECK(plan_field_text(*find_plan_field("sequence")).otherwise == "required");
  for (const Field& row : cluster_fields()) {
    INFO(row.name);
    CHECK(!cluster_field_text(row).type.empty());
  }
}

TEST_CASE("input: the settings of a plan state the same plan again") {
  rehearse::v1::Plan plan;
  std::vector<sim::input::Setting> settings;
  for (const char* text : {"model=llama-2-7b", "cluster=dgx-h100", "gpus=64", "tp=4", "zero=2",
                           "fsdp.replicas=2", "recompute=full", "router_skew=0.1", "fp8=true"})
    settings.push_back({text, "here"});
  sim::input::Source places("");
  REQUIRE(sim::input::apply(settings, plan, places).empty());
  plan.set_name("a name is no setting");
  plan.add_cluster_settings("node.nic_bandwidth=100Gb/s");
  const std::vector<std::string> words = sim::input::plan_settings(plan);
  CHECK(words.size() == settings.size() + 1);
  CHECK(words.back() == "node.nic_bandwidth=100Gb/s");
  rehearse::v1::Plan again;
  std::vector<sim::input::Setting> written;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) written.push_back({words[i], "here"});
  CHECK(sim::input::apply(written, again, places).empty());
  CHECK(sim::input::plan_settings(again) ==
        std::vector<std::string>(words.begin(), words.end() - 1));
}
