#include "sim/command/common/field_values.h"

#include <fmt/format.h>

#include <sstream>

namespace sim::command {

std::vector<FieldEntry> all_fields() {
  std::vector<FieldEntry> all;
  for (const input::Field& field : input::plan_fields())
    all.push_back({"plan", input::plan_field_text(field)});
  for (const input::Field& field : input::cluster_fields())
    all.push_back({"cluster", input::cluster_field_text(field)});
  return all;
}

std::vector<output::Value> values_of(const FieldEntry& entry) {
  const input::FieldText& field = entry.text;
  return {output::value("of", "of", entry.of),
          output::value("name", "name", field.name),
          output::value("type", "type", field.type),
          output::value("unit", "unit", field.unit),
          output::value("default", "default", field.otherwise),
          output::value("megatron_lm", "Megatron-LM", field.flags),
          output::value("synonyms", "also called", field.synonyms),
          output::value("line", "what it is", field.line),
          output::value("fields", "", field.parts)};
}

std::vector<std::string> flags_of(const input::FieldText& field) {
  std::vector<std::string> all;
  std::istringstream words(field.flags);
  for (std::string word; words >> word;) all.push_back(word.substr(0, word.find_first_of("=:")));
  return all;
}

}  // namespace sim::command
