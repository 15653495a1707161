// list.cpp — `rehearse list`: lists available things by name. Mostly it reads only names, so it is
// fast. `list fields` (or `list settings`) is the table of all fields of plans and clusters.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "sim/base/text.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/cluster/collective/collective.h"
#include "sim/command/common/command.h"
#include "sim/command/common/field_values.h"
#include "sim/input/frameworks/framework.h"
#include "sim/input/models/huggingface.h"
#include "sim/input/plan/campaign.h"
#include "sim/input/profile/residuals.h"
#include "sim/input/tables/codec.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"
#include "sim/job/context/context.h"
#include "sim/job/offload/offload.h"
#include "sim/job/schedule/schedule.h"
#include "sim/model/flops.h"
#include "sim/output/glossary.h"

namespace sim::command {

namespace {

struct Entry {
  std::string name, summary, source;
  std::int64_t parameters = 0, active_parameters = 0;  // of a model
};

std::vector<Entry> named(const std::vector<std::string>& names) {
  std::vector<Entry> entries;
  for (const std::string& name : names) entries.push_back({name, "", "", 0, 0});
  return entries;
}
// Names of files. If the folder is missing, it stops; an empty folder gives an empty list.
std::vector<Entry> files(const char* folder, const std::vector<std::string>& names) {
  need(input::data_folder(folder));
  return named(names);
}

std::vector<Entry> models() {
  return files("models", input::names(input::Kind::model));
}
std::vector<Entry> clusters() {
  return files("topologies", input::names(input::Kind::topology));
}
std::vector<Entry> workloads() {
  return files("workloads", input::names(input::Kind::workload));
}
std::vector<Entry> codecs() {
  return files("calibration/codecs", input::codec_names());
}
std::vector<Entry> campaigns() {
  return files("workloads/campaigns", input::campaign_names());
}
std::vector<Entry> failures() {
  return files("workloads/failures", input::failure_names());
}
std::vector<Entry> profiles() {
  return files("calibration", input::names(input::Kind::profile));
}

template <class Catalog>
std::vector<Entry> catalog(const Catalog& rows) {
  std::vector<Entry> entries;
  for (const auto& row : rows) {
    entries.push_back(
        {std::string(row.name), std::string(row.summary), std::string(row.source), 0, 0});
  }
  return entries;
}

std::vector<Entry> schedules() {
  return catalog(schedule::catalog());
}
std::vector<Entry> collectives() {
  return catalog(collective::catalog());
}
std::vector<Entry> contexts() {
  return catalog(context::catalog());
}
std::vector<Entry> offloads() {
  return catalog(offload::catalog());
}
std::vector<Entry> frameworks() {
  need(input::data_folder("workloads/frameworks"));
  std::vector<Entry> entries;
  for (const input::Framework& one : need(input::frameworks()))
    entries.push_back({one.name, one.line, one.source, 0, 0});
  return entries;
}
std::vector<Entry> conventions() {
  return catalog(model::flop_conventions());
}
std::vector<Entry> terms() {
  std::vector<Entry> entries;
  for (const output::Term& term : output::glossary())
    entries.push_back({std::string(term.name), std::string(term.line), "", 0, 0});
  return entries;
}
std::vector<Entry> formats() {
  return catalog(calibrate::readers());
}

// Reads "$id" and "title" of a schema and stops, because schemas are long and both come first.
class SchemaHead : public nlohmann::json_sax<output::Json> {
 public:
  bool is_object() const { return is_object_; }
  std::string id, title;

  bool key(string_t& key) override {
    wanted_ = depth_ > 1 ? nullptr : key == "$id" ? &id : key == "title" ? &title : nullptr;
    return true;
  }
  bool string(string_t& value) override {
    if (wanted_ != nullptr) *wanted_ = value;
    wanted_ = nullptr;
    return id.empty() || title.empty();
  }
  bool start_object(std::size_t) override {
    if (depth_ == 0) is_object_ = true;
    return ++depth_ > 0;
  }
  bool end_object() override { return --depth_ > 0; }
  bool start_array(std::size_t) override { return depth_++ > 0; }
  bool end_array() override { return --depth_ > 0; }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const output::Json::exception&) override {
    is_object_ = false;
    return false;
  }

 private:
  bool is_object_ = false;
  int depth_ = 0;
  std::string* wanted_ = nullptr;  // the member whose value follows
};

// Schemas (JSON Schema) of the output of --json and of files in folders.
std::vector<Entry> schemas() {
  std::vector<Entry> entries;
  for (const auto& file : input::files_in(need(input::data_folder("sim/schemas")), ".json")) {
    SchemaHead head;
    output::Json::sax_parse(need(input::read_file(file)), &head);
    if (head.is_object()) entries.push_back({head.id, head.title, file, 0, 0});
  }
  std::ranges::sort(entries, {}, &Entry::name);
  return entries;
}

struct Listed {
  const char* name;
  std::vector<Entry> (*entries)();
};
constexpr std::array<Listed, 16> lists = {{{"models", models},
                                           {"clusters", clusters},
                                           {"schedules", schedules},
                                           {"collectives", collectives},
                                           {"contexts", contexts},
                                           {"offloads", offloads},
                                           {"codecs", codecs},
                                           {"frameworks", frameworks},
                                           {"workloads", workloads},
                                           {"campaigns", campaigns},
                                           {"failures", failures},
                                           {"profiles", profiles},
                                           {"conventions", conventions},
                                           {"formats", formats},
                                           {"terms", terms},
                                           {"schemas", schemas}}};

// Reads the sizes of models from their files.
void read_models(std::vector<Entry>& entries) {
  for (Entry& entry : entries) {
    const Result<std::string> path = input::locate(input::Kind::model, entry.name, "");
    const Result<model::Architecture> model =
        path ? input::load_huggingface(*path) : Result<model::Architecture>(path.errors());
    if (!model) {
      entry.summary = "cannot be read: " + model.errors().front().message;
      continue;
    }
    entry.parameters = model::parameters(*model);
    entry.active_parameters = model::active_parameters(*model);
    entry.summary =
        fmt::format("{:.1f} B parameters", static_cast<double>(entry.parameters) * 1e-9);
    if (model->is_mixture())
      entry.summary +=
          fmt::format(", {:.1f} B active", static_cast<double>(entry.active_parameters) * 1e-9);
  }
}

output::Rows model_rows(const Listed& kind) {
  output::Rows rows{kind.name,
                    "",
                    {{"name", "name", "", 0, true},
                     {"summary", "summary", "", 0, true},
                     {"parameters", "", "", 0, false},
                     {"active_parameters", "", "", 0, false}},
                    {}};
  std::vector<Entry> entries = kind.entries();
  read_models(entries);
  for (const Entry& entry : entries)
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
output::Rows framework_rows(const Listed& kind) {
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

output::Rows rows_of(const Listed& kind) {
  if (kind.entries == models) return model_rows(kind);
  if (kind.entries == frameworks) return framework_rows(kind);
  output::Rows rows{kind.name,
                    "",
                    {{"name", "name", "", 0, true},
                     {"summary", "summary", "", 0, true},
                     {"source", "source", "", 0, true}},
                    {}};
  for (const Entry& entry : kind.entries())
    rows.cells.push_back({entry.name, entry.summary, entry.source});
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
std::vector<std::string> names_of(const Listed& kind) {
  std::vector<std::string> names;
  if (kind.entries == frameworks) {
    for (const auto& file : input::files_in(need(input::data_folder("workloads/frameworks"))))
      names.push_back(file.stem());
  } else {
    for (Entry& entry : kind.entries()) names.push_back(std::move(entry.name));
  }
  return names;
}

// A kind with its names, "models       gpt3-1.3b gpt3-22b", folded at 100 columns.
std::string in_short(const Listed& kind) {
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
  for (const Listed& kind : lists) {
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
