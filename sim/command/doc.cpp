// doc.cpp — `rehearse doc NAME`: what a field of a plan or a cluster is, with its unit, its
// default, and its names elsewhere; what a framework says where a plan is silent.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/command/command.h"
#include "sim/config/fields.h"
#include "sim/config/framework.h"
#include "sim/core/text.h"
#include "sim/report/document.h"
#include "sim/report/json.h"

namespace sim::command {

namespace {

struct Entry {
  const char* of;
  config::FieldText text;
};

std::vector<Entry> entries() {
  std::vector<Entry> all;
  for (const config::Field& field : config::plan_fields())
    all.push_back({"plan", config::plan_field_text(field)});
  for (const config::Field& field : config::cluster_fields())
    all.push_back({"cluster", config::cluster_field_text(field)});
  return all;
}

// "--tensor-model-parallel-size", "--bf16" of "--tensor-model-parallel-size= --bf16:bf16".
std::vector<std::string> flags(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream words(text);
  for (std::string word; words >> word;) all.push_back(word.substr(0, word.find_first_of("=:")));
  return all;
}

bool means(const Entry& entry, const std::string& name) {
  if (entry.text.name == name) return true;
  std::istringstream synonyms(entry.text.synonyms);
  for (std::string word; synonyms >> word;) {
    if (word == name) return true;
  }
  const std::vector<std::string> all = flags(entry.text.flags);
  return std::ranges::count(all, name.rfind("--", 0) == 0 ? name : "--" + name) > 0;
}

std::string in_words(const Entry& entry) {
  const config::FieldText& field = entry.text;
  std::string text =
      fmt::format("{} (of a {})\n  {}\n  type         {}{}\n", field.name, entry.of, field.line,
                  field.type, field.unit.empty() ? "" : ", in " + field.unit);
  if (!field.otherwise.empty()) text += fmt::format("  default      {}\n", field.otherwise);
  const std::vector<std::string> megatron = flags(field.flags);
  if (!megatron.empty()) text += fmt::format("  Megatron-LM  {}\n", fmt::join(megatron, " "));
  if (!field.synonyms.empty()) text += fmt::format("  also called  {}\n", field.synonyms);
  return text;
}

report::Json to_json(const Entry& entry) {
  const config::FieldText& field = entry.text;
  return {{"of", entry.of},
          {"name", field.name},
          {"type", field.type},
          {"unit", field.unit},
          {"default", field.otherwise},
          {"megatron_lm", field.flags},
          {"synonyms", field.synonyms},
          {"line", field.line}};
}

std::string in_words(const config::Framework& framework) {
  std::string text = fmt::format("{} (a framework)\n  {}\n  source       {}\n", framework.name,
                                 framework.line, framework.source);
  if (!framework.also.empty())
    text += fmt::format("  also called  {}\n", fmt::join(framework.also, ", "));
  if (!framework.bases.empty())
    text += fmt::format("  based on     {}\n", fmt::join(framework.bases, ", "));
  if (!framework.refused.empty()) text += fmt::format("  refused      {}\n", framework.refused);
  for (const std::string& statement : config::statements_text(framework))
    text += fmt::format("  - {}\n", statement);
  return text;
}

report::Json to_json(const config::Framework& framework) {
  return {{"of", "framework"},
          {"name", framework.name},
          {"line", framework.line},
          {"source", framework.source},
          {"also", framework.also},
          {"based_on", framework.bases},
          {"refused", framework.refused},
          {"says", config::statements_text(framework)}};
}

}  // namespace

int run_doc(const Arguments& arguments, Globals globals) {
  Options options("doc");
  options.words(1, 100).parse(arguments, globals);
  const std::vector<Entry> all = entries();
  need(config::frameworks());
  std::vector<std::string> names;
  for (const Entry& entry : all) names.push_back(entry.text.name);
  for (const std::string& name : config::framework_names()) names.push_back(name);
  std::string text;
  report::Json json = report::Json::array();
  for (const std::string& wanted : options.words()) {
    bool found = false;
    for (const Entry& entry : all) {
      if (!means(entry, wanted)) continue;
      found = true;
      text += (text.empty() ? "" : "\n") + in_words(entry);
      json.push_back(to_json(entry));
    }
    if (const config::Framework* framework = config::find_framework(wanted); framework && !found) {
      found = true;
      text += (text.empty() ? "" : "\n") + in_words(*framework);
      json.push_back(to_json(*framework));
    }
    if (!found) {
      throw Stop{exit_usage, fmt::format("there is no field '{}'{}; `rehearse list fields` and "
                                         "`rehearse list frameworks` have all",
                                         wanted, did_you_mean(wanted, names))};
    }
  }
  print(globals.json ? report::document("doc", std::move(json)).dump(2) + "\n" : text);
  return exit_yes;
}

}  // namespace sim::command
