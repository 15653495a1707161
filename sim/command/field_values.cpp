#include "sim/command/field_values.h"

#include <fmt/format.h>

#include <sstream>

namespace sim::command {

std::vector<FieldEntry> all_fields() {
  std::vector<FieldEntry> all;
  for (const config::Field& field : config::plan_fields())
    all.push_back({"plan", config::plan_field_text(field)});
  for (const config::Field& field : config::cluster_fields())
    all.push_back({"cluster", config::cluster_field_text(field)});
  return all;
}

std::vector<report::Value> values_of(const FieldEntry& entry) {
  const config::FieldText& field = entry.text;
  return {report::value("of", "of", entry.of),
          report::value("name", "name", field.name),
          report::value("type", "type", field.type),
          report::value("unit", "unit", field.unit),
          report::value("default", "default", field.otherwise),
          report::value("megatron_lm", "Megatron-LM", field.flags),
          report::value("synonyms", "also called", field.synonyms),
          report::value("line", "what it is", field.line)};
}

std::vector<std::string> flags_of(const config::FieldText& field) {
  std::vector<std::string> all;
  std::istringstream words(field.flags);
  for (std::string word; words >> word;) all.push_back(word.substr(0, word.find_first_of("=:")));
  return all;
}

}  // namespace sim::command
