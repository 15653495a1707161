// doc.cpp — `rehearse doc FIELD`: what a field of a plan or a cluster is, with its unit, its
// default, and its names elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "sim/command/command.h"
#include "sim/command/field_values.h"
#include "sim/core/text.h"

namespace sim::command {

namespace {

bool means(const FieldEntry& entry, const std::string& name) {
  if (entry.text.name == name) return true;
  std::istringstream synonyms(entry.text.synonyms);
  for (std::string word; synonyms >> word;) {
    if (word == name) return true;
  }
  const std::vector<std::string> all = flags_of(entry.text);
  return std::ranges::count(all, name.rfind("--", 0) == 0 ? name : "--" + name) > 0;
}

// Field by field in text, all of them in one array of JSON.
void add(const FieldEntry& entry, report::Document& document, report::Rows& all) {
  std::vector<report::Value> values = values_of(entry);
  std::vector<report::Json> cells;
  all.columns.clear();
  for (const report::Value& one : values) {
    all.columns.push_back(one.what);
    cells.push_back(one.value);
  }
  all.cells.push_back(std::move(cells));
  const config::FieldText& field = entry.text;
  std::erase_if(values, [](const report::Value& one) {
    const std::string& key = one.what.key;
    return key == "of" || key == "name" || key == "line" || one.value == "";
  });
  for (report::Value& one : values) one.what.key.clear();  // the array has them
  document.blocks.emplace_back(
      report::Values{fmt::format("{} (of a {})\n  {}", field.name, entry.of, field.line), values});
}

}  // namespace

int run_doc(const Arguments& arguments, Globals globals) {
  Options options("doc");
  options.words(1, 100).parse(arguments, globals);
  const std::vector<FieldEntry> fields = all_fields();
  std::vector<std::string> names;
  for (const FieldEntry& entry : fields) names.push_back(entry.text.name);
  report::Document document;
  report::Rows all{report::whole, "", {}, {}, true};
  for (const std::string& wanted : options.words()) {
    bool found = false;
    for (const FieldEntry& entry : fields) {
      if (!means(entry, wanted)) continue;
      found = true;
      add(entry, document, all);
    }
    if (!found) {
      throw Stop{exit_usage, fmt::format("there is no field '{}'{}; `rehearse list fields` has all",
                                         wanted, did_you_mean(wanted, names))};
    }
  }
  document.blocks.emplace_back(std::move(all));
  say(globals, "doc", document);
  return exit_yes;
}

}  // namespace sim::command
