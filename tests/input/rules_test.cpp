// rules_test.cpp — what every field of a plan and of a cluster may be, beside everything else that
// a few of them say: values on the bounds of the schema, small numbers, every name. What is refused
// and why is held to files: REHEARSE_UPDATE=1 writes them anew.
#include "sim/input/text/rules.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "sim/input/fields/fields.h"
#include "sim/input/plan/plan.h"
#include "sim/input/schema/cluster.pb.h"
#include "tests/input/support.h"
#include "tests/picture.h"

namespace {

using namespace sim::input;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
namespace v1 = rehearse::v1;

const FieldDescriptor& schema_of(const Descriptor* message, std::string name) {
  if (const std::size_t dot = name.find('.'); dot != std::string::npos) {
    message = message->FindFieldByName(name.substr(0, dot))->message_type();
    name.erase(0, dot + 1);
  }
  return *message->FindFieldByName(name);
}

// Texts that are not numbers, by what they are quantities of.
std::vector<std::string> quantities(v1::Unit unit) {
  switch (unit) {
    case v1::bytes:
      return {"0GB", "1KiB", "30GiB", "80GB"};
    case v1::bandwidth:
      return {"0GB/s", "9999kB/s", "10MB/s", "50GB/s"};
    case v1::duration:
      return {"0us", "1us"};
    case v1::flop_rate:
      return {"0TFLOP/s", "1GFLOP/s", "100TFLOP/s"};
    default:
      return {};
  }
}

std::vector<std::string> values_of(const FieldDescriptor& field) {
  if (field.message_type()) return {};
  const v1::Rule& rule = rule_of(field);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return {"false", "true"};
    case FieldDescriptor::CPPTYPE_ENUM:
      return enum_names(field);
    case FieldDescriptor::CPPTYPE_STRING:
      return quantities(rule.unit());
    default:
      break;
  }
  const bool whole = field.cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE;
  std::set<double> numbers = {0, 1, 2, 3, 4, 8, 16};
  if (!whole) numbers.insert({-1, 0.25, 0.5, 1.5});
  const double step = whole ? 1 : 1e-3;
  if (rule.has_min()) numbers.insert({rule.min() - step, rule.min()});
  if (rule.has_max()) numbers.insert({rule.max(), rule.max() + step});
  std::vector<std::string> texts;
  for (const double number : numbers) texts.push_back(fmt::format("{}", number));
  return texts;
}

// Of every field the values that may stand, and what is said of the others.
template <class Said>
std::string rules_of(std::span<const Field> fields, const Descriptor* message, Said said) {
  std::string all;
  for (const Field& field : fields) {
    std::string fits, refused;
    for (const std::string& value : values_of(schema_of(message, std::string(field.name)))) {
      const std::string problem = said(fmt::format("{}={}", field.name, value));
      if (problem.empty())
        fits += " " + value;
      else
        refused += fmt::format("  {}: {}", value, problem);
    }
    if (!fits.empty() || !refused.empty())
      all += fmt::format("{}:{}\n{}", field.name, fits, refused);
  }
  return all;
}

// Messages alone: where they stand is the setting.
template <class T>
std::string messages(const sim::Result<T>& result) {
  if (result) return "";
  std::string all;
  for (const sim::Diagnostic& problem : result.errors())
    all += (all.empty() ? "" : "    ") + problem.message + "\n";
  return all;
}

}  // namespace

TEST_CASE("input: what a field of a plan may be is as it was") {
  support::Scratch scratch;
  struct Base {
    const char* name;
    std::vector<std::string> settings;
  };
  const std::string dense = "model=llama-2-7b", machine = "cluster=dgx-h100";
  const std::vector<Base> bases = {
      {"dense", {dense, "gpus=16", "tp=2", "pp=2", "global_batch=16", "sequence=4096"}},
      {"interleaved",
       {"model=gpt3-175b", "gpus=64", "tp=4", "pp=4", "virtual_stages=2",
        "schedule=interleaved-1f1b", "global_batch=32", "sequence=2048", "cp=2"}},
      {"shards",
       {dense, "gpus=16", "data_parallel=fsdp2", "framework=torchtitan", "global_batch=16",
        "sequence=4096", "cp=2"}},
      {"mixture",
       {"model=mixtral-8x7b", "gpus=32", "ep=4", "tp=2", "pp=2", "global_batch=32",
        "sequence=4096"}},
      {"adapters", {dense, "gpus=16", "tp=2", "lora_rank=8", "global_batch=16", "sequence=4096"}},
      {"grid",
       {"model=gpt3-175b", "gpus=32", "framework=axonn", "tp=8", "tensor_columns=2",
        "tensor_depth=2", "global_batch=16", "sequence=2048"}},
  };
  for (const Base& base : bases) {
    std::vector<std::string> settings = base.settings;
    settings.push_back(machine);
    const auto whole = load_plan("", settings);
    INFO(base.name << "\n" << support::problems(whole));
    REQUIRE(whole);
    const std::string rules =
        rules_of(plan_fields(), v1::Plan::descriptor(), [&](const std::string& setting) {
          std::vector<std::string> all = settings;
          all.push_back(setting);
          return messages(load_plan("", all));
        });
    picture::same(fmt::format("input/pictures/rules-{}.txt", base.name), rules);
  }
}

TEST_CASE("input: what a field of a cluster may be is as it was") {
  support::Scratch scratch;
  for (const char* name : {"dgx-h100", "abci-a", "perlmutter"}) {
    const auto whole =
        load_cluster(support::in_repository(fmt::format("topologies/{}.textproto", name)));
    REQUIRE(whole);
    const std::string rules = rules_of(
        cluster_fields(), v1::Cluster::descriptor(),
        [&](const std::string& setting) { return messages(load_cluster(whole->path, {setting})); });
    picture::same(fmt::format("input/pictures/rules-{}.txt", name), rules);
  }
}

TEST_CASE("input: what conditions of parts may be is as it was") {
  support::Scratch scratch;
  const std::string path = support::in_repository("topologies/dgx-h100.textproto");
  std::vector<std::string> blocks;
  for (const char* part : {"node: 0", "node: 1", "node: 2", "leaf: 0", "leaf: 1", "spine: 0",
                           "spine: 4", "node: 1 gpu: 7", "node: 1 gpu: 8", "node: 1 nic: 7",
                           "node: 1 nic: 8", "gpu: 0", "nic: 0", "node: 0 leaf: 0", ""})
    blocks.push_back(fmt::format("{{{} bandwidth: 0.5}}", part));
  for (const char* of : {"node: 0", "node: 0 nic: 0", "spine: 0", "leaf: 0"})
    for (const char* how :
         {"bandwidth: 0", "bandwidth: 0.0005", "bandwidth: 0.001", "bandwidth: 1",
          "bandwidth: 1.001", "speed: 0", "speed: 0.001", "speed: 1", "speed: 1.001"})
      blocks.push_back(fmt::format("{{{} {}}}", of, how));
  std::string all;
  for (const char* fabric : {"rail_optimised", "leaf_spine"})
    for (const int nodes : {1, 2}) {
      const std::vector<std::string> base = {
          fmt::format("nodes={}", nodes), "fabric.nodes_per_leaf=1",
          fmt::format("fabric.kind={}", fabric), "fabric.spines=4"};
      const auto said = [&](const std::vector<std::string>& conditions) {
        std::vector<std::string> settings = base;
        for (const std::string& condition : conditions)
          settings.push_back("condition=" + condition);
        const std::string problem = messages(load_cluster(path, settings));
        return problem.empty() ? "fits\n" : problem;
      };
      all += fmt::format("== {}, {} nodes: {}", fabric, nodes, said({}));
      for (const std::string& block : blocks) all += fmt::format("{}: {}", block, said({block}));
      std::vector<std::string> nics, spines;
      for (int i = 0; i < 8; ++i) {
        nics.push_back(fmt::format("{{node: 0 nic: {} bandwidth: 0}}", i));
        if (i < 4) spines.push_back(fmt::format("{{spine: {} bandwidth: 0}}", i));
      }
      all += "every NIC of a node: " + said(nics) + "every spine: " + said(spines);
      nics.pop_back();
      spines.pop_back();
      all += "all NICs but one: " + said(nics) + "all spines but one: " + said(spines);
    }
  picture::same("input/pictures/rules-conditions.txt", all);
}
