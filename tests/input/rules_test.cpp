// rules_test.cpp — the values that each field of a plan and of a cluster accepts in some typical
// plans and clusters: bounds of the schema, small numbers, every name. Files have the accepted
// values, and each rule once, with its own words: REHEARSE_UPDATE=1 writes them.
#include "sim/input/text/rules.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <regex>
#include <set>
#include <sstream>

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

// A message without its numbers, quoted words and the name of its field: the rule itself.
std::string rule_in(std::string message, const std::string& field) {
  const std::string name = field.substr(field.rfind('.') + 1);
  message = std::regex_replace(message, std::regex("\\b" + name + "\\b"), "FIELD");
  message = std::regex_replace(message, std::regex("'[^']*'|\"[^\"]*\""), "Q");
  message = std::regex_replace(message, std::regex("[0-9][-+.,0-9e]*"), "N");
  return std::regex_replace(message, std::regex("(N, )*N or N"), "N");
}

// What fields accept, and each rule once with the first setting that breaks it.
class Seen {
 public:
  // Values of every field that are accepted. `said`: the messages about a setting.
  template <class Said>
  void fields(const char* base, std::span<const Field> fields, const Descriptor* message,
              const Said& said) {
    accepted_ += fmt::format("== {}\n", base);
    for (const Field& field : fields) {
      const std::string name(field.name);
      std::string fits;
      bool any = false;
      for (const std::string& value : values_of(schema_of(message, name))) {
        any = true;
        const std::string setting = fmt::format("{}={}", name, value);
        const std::string problems = said(setting);
        if (problems.empty()) fits += " " + value;
        note(base, setting, name, problems);
      }
      if (any) accepted_ += fmt::format("{}:{}\n", name, fits);
    }
  }

  // Notes the rules of messages, one a line.
  void note(const std::string& base, const std::string& setting, const std::string& field,
            const std::string& problems) {
    std::istringstream lines(problems);
    for (std::string line; std::getline(lines, line);) {
      line.erase(0, line.find_first_not_of(' '));
      if (rules_.insert(rule_in(line, field)).second)
        cases_ += fmt::format("{}, {}: {}\n", base, setting, line);
    }
  }

  std::string text() const { return accepted_ + "== rules, one case each\n" + cases_; }

 private:
  std::string accepted_, cases_;
  std::set<std::string> rules_;
};

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
  Seen seen;
  for (const Base& base : bases) {
    std::vector<std::string> settings = base.settings;
    settings.push_back(machine);
    const auto whole = load_plan("", settings);
    INFO(base.name << "\n" << support::problems(whole));
    REQUIRE(whole);
    seen.fields(base.name, plan_fields(), v1::Plan::descriptor(), [&](const std::string& setting) {
      std::vector<std::string> all = settings;
      all.push_back(setting);
      return messages(load_plan("", all));
    });
  }
  picture::same("input/pictures/rules-plan.txt", seen.text());
}

TEST_CASE("input: what a field of a cluster may be is as it was") {
  support::Scratch scratch;
  Seen seen;
  for (const char* name : {"dgx-h100", "abci-a", "perlmutter"}) {
    const auto whole =
        load_cluster(support::in_repository(fmt::format("topologies/{}.textproto", name)));
    REQUIRE(whole);
    seen.fields(name, cluster_fields(), v1::Cluster::descriptor(), [&](const std::string& setting) {
      return messages(load_cluster(whole->path, {setting}));
    });
  }
  picture::same("input/pictures/rules-cluster.txt", seen.text());
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
  Seen seen;
  std::string all;
  for (const char* fabric : {"rail_optimised", "leaf_spine"})
    for (const int nodes : {1, 2}) {
      const std::vector<std::string> base = {
          fmt::format("nodes={}", nodes), "fabric.nodes_per_leaf=1",
          fmt::format("fabric.kind={}", fabric), "fabric.spines=4"};
      const std::string place = fmt::format("{}, {} nodes", fabric, nodes);
      all += "== " + place + "\n";
      const auto take = [&](const std::string& name, const std::vector<std::string>& conditions) {
        std::vector<std::string> settings = base;
        for (const std::string& condition : conditions)
          settings.push_back("condition=" + condition);
        const std::string problems = messages(load_cluster(path, settings));
        if (problems.empty()) all += name + "\n";
        seen.note(place, name, "condition", problems);
      };
      take("no condition", {});
      for (const std::string& block : blocks) take(block, {block});
      std::vector<std::string> nics, spines;
      for (int i = 0; i < 8; ++i) {
        nics.push_back(fmt::format("{{node: 0 nic: {} bandwidth: 0}}", i));
        if (i < 4) spines.push_back(fmt::format("{{spine: {} bandwidth: 0}}", i));
      }
      take("every NIC of a node", nics);
      take("every spine", spines);
      nics.pop_back();
      spines.pop_back();
      take("all NICs but one", nics);
      take("all spines but one", spines);
    }
  picture::same("input/pictures/rules-conditions.txt", all + seen.text());
}
