// list.cpp — `rehearse list`: lists available things by name. Without a kind it reads only names,
// so it is fast. `list fields` (or `list settings`) is the table of all fields of plans and
// clusters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/text.h"
#include "sim/command/common/catalog.h"
#include "sim/command/common/command.h"
#include "sim/command/common/field_values.h"
#include "sim/input/frameworks/framework.h"
#include "sim/input/profile/residuals.h"
#include "sim/input/text/locate.h"

namespace sim::command {

namespace {

std::vector<CatalogEntry> read_entries(const Catalog& kind) {
  std::vector<CatalogEntry> entries = kind.entries();
  for (CatalogEntry& entry : entries) read_entry(kind, entry);
  return entries;
}

output::Rows model_rows(const Catalog& kind) {
  output::Rows rows{kind.name,
                    "",
                    {{"name", "name", "", 0, true},
                     {"summary", "summary", "", 0, true},
                     {"parameters", "", "", 0, false},
                     {"active_parameters", "", "", 0, false}},
                    {}};
  for (const CatalogEntry& entry : read_entries(kind))
    rows.cells.push_back({entry.name, entry.summary, entry.parameters, entry.active_parameters});
  return rows;
}

// Runs that measured a family of frameworks, and how far predictions without their source were off.
struct MeasuredRuns {
  std::int64_t runs = 0;
  std::map<std::string, std::pair<double, std::int64_t>> errors;  // by source: sum, and how many

  // The mean of the sources' mean errors; 0 without a source.
  double error() const {
    double sum = 0;
    for (const auto& [source, one] : errors) sum += one.first / static_cast<double>(one.second);
    return errors.empty() ? 0 : sum / static_cast<double>(errors.size());
  }
};

MeasuredRuns measured_runs(const input::RunResiduals& residuals, const std::string& family) {
  MeasuredRuns all;
  for (const input::ResidualGroup& group : residuals.groups) {
    if (group.quantity != input::ResidualOf::time || group.framework != family) continue;
    auto& [sum, count] = all.errors[group.source];
    for (const double value : group.values) sum += std::abs(std::expm1(-value));
    count += static_cast<std::int64_t>(group.values.size());
    all.runs += static_cast<std::int64_t>(group.values.size());
  }
  return all;
}

// Frameworks of one family share their measured runs.
output::Rows framework_rows(const Catalog& kind) {
  output::Rows rows{kind.name,
                    "",
                    {{"name", "name", "", 0, true},
                     {"summary", "summary", "", 0, true},
                     {"runs", "runs", "", 0, false},
                     {"sources", "sources", "", 0, false},
                     {"error_pct", "error", "%", 1, false},
                     {"source", "", "", 0, true}},
                    {}};
  need(input::data_folder("workloads/frameworks"));
  const input::RunResiduals residuals = need(input::find_residuals());
  for (const input::Framework& one : need(input::frameworks())) {
    const MeasuredRuns of = measured_runs(residuals, one.family);
    const bool measured = of.runs > 0;
    rows.cells.push_back({one.name, one.line, of.runs, of.errors.size(),
                          measured ? output::Json(100 * of.error()) : output::Json(nullptr),
                          one.source});
  }
  return rows;
}

output::Rows rows_of(const Catalog& kind) {
  const std::string_view name = kind.name;
  if (name == "models") return model_rows(kind);
  if (name == "frameworks") return framework_rows(kind);
  output::Rows rows{kind.name,
                    "",
                    {{"name", "name", "", 0, true},
                     {"summary", "summary", "", 0, true},
                     {"source", "source", "", 0, true}},
                    {}};
  const std::vector<CatalogEntry> entries = read_entries(kind);
  for (const CatalogEntry& entry : entries)
    rows.cells.push_back({entry.name, entry.summary, entry.source});
  if (kind.folder != nullptr)
    rows.footnote = fmt::format("{}`rehearse doc NAME` prints the numbers of one and their sources",
                                name == "clusters" ? "Links: per GPU and direction. " : "");
  // The sources of files are many; `rehearse doc NAME` prints them.
  if (std::ranges::all_of(entries, [](const CatalogEntry& one) { return one.source.empty(); }))
    rows.columns.back().heading.clear();
  return rows;
}

output::Rows field_rows() {
  output::Rows rows{"fields", "", {}, {}};
  for (const FieldEntry& entry : all_fields()) {
    std::vector<output::Json>& cells = rows.cells.emplace_back();
    rows.columns.clear();
    for (const output::Value& one : values_of(entry)) {
      rows.columns.push_back(one.what);
      rows.columns.back().left = true;
      cells.push_back(one.value);
    }
  }
  // `rehearse doc` shows the other columns.
  for (output::Column& column : rows.columns)
    if (column.key == "megatron_lm" || column.key == "synonyms") column.heading.clear();
  return rows;
}

// The names of a kind alone. Frameworks have those of their files, which are not read.
std::vector<std::string> names_of(const Catalog& kind) {
  std::vector<std::string> names;
  if (std::string_view(kind.name) == "frameworks") {
    for (const auto& file : input::files_in(need(input::data_folder("workloads/frameworks"))))
      names.push_back(file.stem());
  } else {
    for (CatalogEntry& entry : kind.entries()) names.push_back(std::move(entry.name));
  }
  return names;
}

// A kind with its names, "models       gpt3-1.3b gpt3-22b", folded at 100 columns.
std::string in_short(const Catalog& kind) {
  constexpr std::size_t columns = 100;
  constexpr std::size_t indent = 13;
  std::string text;
  std::string line = fmt::format("{:<{}}", kind.name, indent);
  bool first = true;
  for (const std::string& name : names_of(kind)) {
    const std::string more = (first ? "" : ", ") + name;
    if (line.size() + more.size() + 1 > columns) {
      text += line + ",\n";
      line = std::string(indent, ' ') + name;
    } else {
      line += more;
    }
    first = false;
  }
  return text + line + "\n";
}

}  // namespace

int run_list(const Arguments& arguments, Globals globals) {
  Options options("list");
  options.words(0, 1).parse(arguments, globals);
  const std::string wanted = options.words().empty() ? "" : options.words()[0];
  output::Document document;
  std::string in_brief;
  std::vector<std::string> names;
  for (const Catalog& kind : catalogs()) {
    names.emplace_back(kind.name);
    if (!wanted.empty() && wanted != kind.name) continue;
    in_brief += wanted.empty() ? in_short(kind) : "";
    // The text of all kinds has their names alone.
    if (wanted.empty() && !globals.json) continue;
    output::Rows rows = rows_of(kind);
    rows.searched = wanted.empty();
    document.blocks.emplace_back(std::move(rows));
  }
  if (wanted.empty()) document.blocks.emplace_back(output::Note{"", in_brief});
  names.insert(names.end(), {"fields", "settings"});
  if (wanted == "fields" || wanted == "settings") document.blocks.emplace_back(field_rows());
  if (!wanted.empty() && std::find(names.begin(), names.end(), wanted) == names.end()) {
    throw Stop{exit_usage,
               fmt::format("`rehearse list` knows {}, not '{}'{}", fmt::join(names, ", "), wanted,
                           did_you_mean(wanted, names))};
  }
  say(globals, "list", document);
  return exit_yes;
}

}  // namespace sim::command
