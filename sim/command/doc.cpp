// doc.cpp — `rehearse doc NAME`: explains a field of a plan or a cluster (unit, default, other
// names), the defaults of a framework, a term of the output, or a name of `rehearse list`: what it
// is, its main numbers and their sources.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "sim/base/text.h"
#include "sim/command/common/catalog.h"
#include "sim/command/common/command.h"
#include "sim/command/common/field_values.h"
#include "sim/input/frameworks/framework.h"
#include "sim/output/glossary.h"

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

// Adds values: as a list in text, as one object of an array in JSON. The title contains values that
// the list omits.
void add(const std::string& title, std::vector<output::Value> values, output::Document& document,
         output::Json& all) {
  output::Json object = output::Json::object();
  for (output::Value& one : values) {
    object[one.what.key] = one.value;
    one.what.key.clear();  // the array has it
    if (one.value == "" || (one.value.is_array() && one.value.empty())) one.what.heading.clear();
  }
  all.push_back(std::move(object));
  document.blocks.emplace_back(output::Values{title, std::move(values)});
}

std::string bullets(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += fmt::format("  - {}\n", line);
  return text;
}

void add(const FieldEntry& entry, output::Document& document, output::Json& all) {
  std::vector<output::Value> values = values_of(entry);
  for (output::Value& one : values) {
    const std::string& key = one.what.key;
    if (key == "of" || key == "name" || key == "line") one.what.heading.clear();
  }
  const input::FieldText& field = entry.text;
  add(fmt::format("{} (of a {})\n  {}", field.name, entry.of, field.line), std::move(values),
      document, all);
  if (!field.parts.empty())
    document.blocks.emplace_back(output::Note{"its fields", bullets(field.parts)});
}

void add(const input::Framework& framework, output::Document& document, output::Json& all) {
  const std::vector<std::string> says = input::statements_text(framework);
  add(fmt::format("{} (a framework)\n  {}", framework.name, framework.line),
      {output::value("of", "", "framework"), output::value("name", "", framework.name),
       output::value("line", "", framework.line),
       output::value("source", "source", framework.source),
       output::value("also", "also called", framework.also),
       output::value("based_on", "based on", framework.bases),
       output::value("refused", "refused", framework.refused), output::value("says", "", says)},
      document, all);
  document.blocks.emplace_back(output::Note{"", bullets(says)});
}

void add(const output::Term& term, output::Document& document, output::Json& all) {
  add(fmt::format("{} (a term)\n  {}", term.name, term.line),
      {output::value("of", "", "output"), output::value("name", "", term.name),
       output::value("line", "", term.line)},
      document, all);
}

void add(const Catalog& catalog, CatalogEntry entry, output::Document& document,
         output::Json& all) {
  read_entry(catalog, entry);
  const EntryFacts facts = facts_of(catalog, entry);
  add(fmt::format("{} (a {})\n  {}", entry.name, catalog.one, entry.summary),
      {output::value("of", "", catalog.one), output::value("name", "", entry.name),
       output::value("line", "", entry.summary), output::value("source", "source", entry.source),
       output::value("file", "file", entry.file), output::value("about", "", facts.about),
       output::value("says", "", facts.says), output::value("sources", "", facts.sources)},
      document, all);
  if (!facts.about.empty() && facts.about != entry.summary + ".")
    document.blocks.emplace_back(output::Note{"", facts.about + "\n"});
  if (!facts.says.empty()) document.blocks.emplace_back(output::Note{"", bullets(facts.says)});
  if (!facts.sources.empty())
    document.blocks.emplace_back(output::Note{"sources", bullets(facts.sources)});
  if (catalog.next != nullptr)
    document.blocks.emplace_back(output::Note{
        "", fmt::format("next: {}\n", fmt::format(fmt::runtime(catalog.next), entry.name))});
}

// Adds the entries of all lists with this name, beyond fields, frameworks and terms.
bool add_listed(const std::string& name, output::Document& document, output::Json& all) {
  bool found = false;
  for (const Catalog& catalog : catalogs()) {
    for (CatalogEntry& entry : catalog.entries()) {
      if (entry.name != name) continue;
      found = true;
      add(catalog, std::move(entry), document, all);
    }
  }
  return found;
}

}  // namespace

int run_doc(const Arguments& arguments, Globals globals) {
  Options options("doc");
  options.words(1, 100).flags_are_words().parse(arguments, globals);
  const std::vector<FieldEntry> fields = all_fields();
  need(input::frameworks());
  std::vector<std::string> names;
  for (const FieldEntry& entry : fields) names.push_back(entry.text.name);
  for (const std::string& name : input::framework_names()) names.push_back(name);
  for (const std::string_view flag : input::megatron_flags())
    names.push_back("--" + std::string(flag));
  for (const output::Term& term : output::glossary()) names.emplace_back(term.name);
  output::Document document;
  output::Json all = output::Json::array();
  for (const std::string& wanted : options.words()) {
    bool found = false;
    for (const FieldEntry& entry : fields) {
      if (!means(entry, wanted)) continue;
      found = true;
      add(entry, document, all);
    }
    if (const input::Framework* framework = input::find_framework(wanted); framework && !found) {
      found = true;
      add(*framework, document, all);
    }
    if (const output::Term* term = output::find_term(wanted); term && !found) {
      found = true;
      add(*term, document, all);
    }
    if (!found && !add_listed(wanted, document, all)) {
      for (const Catalog& catalog : catalogs())
        for (CatalogEntry& entry : catalog.entries()) names.push_back(std::move(entry.name));
      throw Stop{exit_usage,
                 fmt::format("there is no field, framework, term or listed name '{}'{} (all names: "
                             "`rehearse list` and `rehearse list fields`)",
                             wanted, did_you_mean(wanted, names))};
    }
  }
  document.blocks.emplace_back(output::Data{output::whole, std::move(all)});
  say(globals, "doc", document);
  return exit_yes;
}

}  // namespace sim::command
