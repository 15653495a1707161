// list.cpp — `rehearse list`: what there is, by name. Reads names only, so that it costs
// nothing, but for the sizes of models where these are asked for. `list fields` is the table of
// everything a plan and a cluster can say.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/calibrate/readers/reader.h"
#include "sim/collective/collective.h"
#include "sim/command/command.h"
#include "sim/config/campaign.h"
#include "sim/config/fields.h"
#include "sim/config/framework.h"
#include "sim/config/huggingface.h"
#include "sim/config/locate.h"
#include "sim/context/context.h"
#include "sim/core/text.h"
#include "sim/model/flops.h"
#include "sim/offload/offload.h"
#include "sim/report/json.h"
#include "sim/report/table.h"
#include "sim/schedule/schedule.h"

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
std::vector<Entry> files(config::Kind kind) {
  return named(config::names(kind));
}

std::vector<Entry> models() {
  return files(config::Kind::model);
}

// What the files of models say.
void read_models(std::vector<Entry>& entries) {
  for (Entry& entry : entries) {
    const Result<std::string> path = config::locate(config::Kind::model, entry.name, "");
    if (!path) continue;
    const Result<model::Architecture> model = config::load_huggingface(*path);
    if (!model) continue;
    entry.parameters = model::parameters(*model);
    entry.active_parameters = model::active_parameters(*model);
    entry.summary =
        fmt::format("{:.1f} B parameters", static_cast<double>(entry.parameters) * 1e-9);
    if (model->is_mixture())
      entry.summary +=
          fmt::format(", {:.1f} B active", static_cast<double>(entry.active_parameters) * 1e-9);
  }
}
std::vector<Entry> clusters() {
  return files(config::Kind::topology);
}
std::vector<Entry> workloads() {
  return files(config::Kind::workload);
}
std::vector<Entry> campaigns() {
  return named(config::campaign_names());
}
std::vector<Entry> failures() {
  return named(config::failure_names());
}
std::vector<Entry> profiles() {
  return files(config::Kind::profile);
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
  std::vector<Entry> entries;
  for (const config::Framework& one : need(config::frameworks()))
    entries.push_back({one.name, one.line, one.source});
  return entries;
}
std::vector<Entry> conventions() {
  return catalog(model::flop_conventions());
}
std::vector<Entry> formats() {
  return catalog(calibrate::readers());
}

struct Kind {
  const char* name;
  std::vector<Entry> (*entries)();
};
constexpr std::array<Kind, 13> kinds = {{{"models", models},
                                         {"clusters", clusters},
                                         {"schedules", schedules},
                                         {"collectives", collectives},
                                         {"contexts", contexts},
                                         {"offloads", offloads},
                                         {"frameworks", frameworks},
                                         {"workloads", workloads},
                                         {"campaigns", campaigns},
                                         {"failures", failures},
                                         {"profiles", profiles},
                                         {"conventions", conventions},
                                         {"formats", formats}}};

// The fields of a plan, then those of a cluster.
struct FieldEntry {
  const char* of;
  config::FieldText text;
};
std::vector<FieldEntry> fields() {
  std::vector<FieldEntry> all;
  for (const config::Field& field : config::plan_fields())
    all.push_back({"plan", config::plan_field_text(field)});
  for (const config::Field& field : config::cluster_fields())
    all.push_back({"cluster", config::cluster_field_text(field)});
  return all;
}

report::Json fields_json() {
  report::Json json = report::Json::array();
  for (const auto& [of, text] : fields())
    json.push_back({{"of", of},
                    {"name", text.name},
                    {"type", text.type},
                    {"unit", text.unit},
                    {"default", text.otherwise},
                    {"megatron_lm", text.flags},
                    {"synonyms", text.synonyms},
                    {"line", text.line}});
  return json;
}

std::string fields_text() {
  report::Table table({"<of", "<name", "<type", "<default", "<line"});
  for (const auto& [of, text] : fields())
    table.row({of, text.name, text.type + (text.unit.empty() ? "" : ", " + text.unit),
               text.otherwise, text.line});
  return table.text("");
}

report::Json to_json(const std::vector<Entry>& entries) {
  report::Json json = report::Json::array();
  for (const Entry& entry : entries) {
    report::Json one = {{"name", entry.name}};
    if (!entry.summary.empty()) one["summary"] = entry.summary;
    if (!entry.source.empty()) one["source"] = entry.source;
    if (entry.parameters > 0) {
      one["parameters"] = entry.parameters;
      one["active_parameters"] = entry.active_parameters;
    }
    json.push_back(std::move(one));
  }
  return json;
}

std::string in_full(const std::vector<Entry>& entries) {
  report::Table table({"<name", "<summary", "<source"});
  for (const Entry& entry : entries) table.row({entry.name, entry.summary, entry.source});
  const std::string text = table.text("");
  return text.substr(text.find('\n') + 1);  // the headings say nothing new
}

// "models       gpt3-1.3b gpt3-22b", folded at 100 columns.
std::string in_short(const Kind& kind) {
  constexpr std::size_t columns = 100;
  constexpr std::size_t indent = 13;
  std::string text;
  std::string line = fmt::format("{:<{}}", kind.name, indent);
  bool first = true;
  for (const Entry& entry : kind.entries()) {
    const std::string more = (first ? "" : ", ") + entry.name;
    if (line.size() + more.size() + 1 > columns) {
      text += line + ",\n";
      line = std::string(indent, ' ') + entry.name;
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
  std::string text;
  report::Json json = report::Json::object();
  std::vector<std::string> names;
  for (const Kind& kind : kinds) {
    names.emplace_back(kind.name);
    if (!wanted.empty() && wanted != kind.name) continue;
    text += wanted.empty() ? in_short(kind) : "";
    if (wanted.empty() && !globals.json) continue;
    std::vector<Entry> entries = kind.entries();
    if (kind.entries == models) read_models(entries);
    if (globals.json) json[kind.name] = to_json(entries);
    if (!wanted.empty()) text += in_full(entries);
  }
  names.emplace_back("fields");
  if (wanted == "fields") {
    text = fields_text();
    if (globals.json) json["fields"] = fields_json();
  }
  if (!wanted.empty() && std::find(names.begin(), names.end(), wanted) == names.end()) {
    throw Stop{exit_usage,
               fmt::format("`rehearse list` knows {}, not '{}'{}", fmt::join(names, ", "), wanted,
                           did_you_mean(wanted, names))};
  }
  print(globals.json ? report::document("list", json).dump(2) + "\n" : text);
  return exit_yes;
}

}  // namespace sim::command
