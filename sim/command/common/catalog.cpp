#include "sim/command/common/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/calibrate/readers/reader.h"
#include "sim/cluster/collective/collective.h"
#include "sim/command/common/catalog_facts.h"
#include "sim/command/common/command.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/frameworks/framework.h"
#include "sim/input/models/huggingface.h"
#include "sim/input/plan/campaign.h"
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

// Entries of files. If the folder is missing, it stops; an empty folder gives an empty list.
std::vector<CatalogEntry> files(const std::string& folder, const std::vector<std::string>& names,
                                const char* suffix = ".textproto") {
  need(input::data_folder(folder));
  std::vector<CatalogEntry> entries;
  for (const std::string& name : names)
    entries.push_back({name, "", "", folder + "/" + name + suffix, 0, 0});
  return entries;
}

std::vector<CatalogEntry> models() {
  return files("models", input::names(input::Kind::model), ".json");
}
std::vector<CatalogEntry> clusters() {
  return files("topologies", input::names(input::Kind::topology));
}
std::vector<CatalogEntry> workloads() {
  return files("workloads", input::names(input::Kind::workload));
}
std::vector<CatalogEntry> codecs() {
  return files("calibration/codecs", input::codec_names());
}
std::vector<CatalogEntry> campaigns() {
  return files("workloads/campaigns", input::campaign_names());
}
std::vector<CatalogEntry> failures() {
  return files("workloads/failures", input::failure_names());
}
std::vector<CatalogEntry> profiles() {
  return files("calibration", input::names(input::Kind::profile));
}

template <class Rows>
std::vector<CatalogEntry> catalog(const Rows& rows) {
  std::vector<CatalogEntry> entries;
  for (const auto& row : rows) {
    entries.push_back(
        {std::string(row.name), std::string(row.summary), std::string(row.source), "", 0, 0});
  }
  return entries;
}

std::vector<CatalogEntry> schedules() {
  return catalog(schedule::catalog());
}
std::vector<CatalogEntry> collectives() {
  return catalog(collective::catalog());
}
std::vector<CatalogEntry> contexts() {
  return catalog(context::catalog());
}
std::vector<CatalogEntry> offloads() {
  return catalog(offload::catalog());
}
std::vector<CatalogEntry> frameworks() {
  need(input::data_folder("workloads/frameworks"));
  std::vector<CatalogEntry> entries;
  for (const input::Framework& one : need(input::frameworks()))
    entries.push_back({one.name, one.line, one.source, "", 0, 0});
  return entries;
}
std::vector<CatalogEntry> conventions() {
  return catalog(model::flop_conventions());
}
std::vector<CatalogEntry> terms() {
  std::vector<CatalogEntry> entries;
  for (const output::Term& term : output::glossary())
    entries.push_back({std::string(term.name), std::string(term.line), "", "", 0, 0});
  return entries;
}
std::vector<CatalogEntry> formats() {
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
std::vector<CatalogEntry> schemas() {
  std::vector<CatalogEntry> entries;
  for (const auto& file : input::files_in(need(input::data_folder("sim/schemas")), ".json")) {
    SchemaHead head;
    output::Json::sax_parse(need(input::read_file(file)), &head);
    if (head.is_object()) entries.push_back({head.id, head.title, file, "", 0, 0});
  }
  std::ranges::sort(entries, {}, &CatalogEntry::name);
  return entries;
}

constexpr std::array<Catalog, 16> all_catalogs = {
    {{"models", "model", "models", models,
      "rehearse plan {0} dgx-h100 --gpus 64 --batch 256 --sequence 4096"},
     {"clusters", "cluster", "topologies", clusters, "rehearse topo check {0}"},
     {"schedules", "schedule", nullptr, schedules,
      "rehearse schedule {0} --stages 4 --microbatches 8"},
     {"collectives", "collective", nullptr, collectives, nullptr},
     {"contexts", "method of context parallelism", nullptr, contexts, nullptr},
     {"offloads", "method of offloading", nullptr, offloads, nullptr},
     {"codecs", "codec", "calibration/codecs", codecs, nullptr},
     {"frameworks", "framework", nullptr, frameworks, nullptr},
     {"workloads", "plan", "workloads", workloads, "rehearse run {0}"},
     {"campaigns", "campaign", "workloads/campaigns", campaigns, "rehearse campaign {0}"},
     {"failures", "table of failures", "workloads/failures", failures, nullptr},
     {"profiles", "profile", "calibration", profiles, nullptr},
     {"conventions", "convention of FLOPs", nullptr, conventions, nullptr},
     {"formats", "format of measurements", nullptr, formats, nullptr},
     {"terms", "term", nullptr, terms, nullptr},
     {"schemas", "schema", nullptr, schemas, nullptr}}};

bool is(const Catalog& catalog, std::string_view name) {
  return catalog.name == name;
}

std::string text_of(const CatalogEntry& entry) {
  const std::size_t slash = entry.file.rfind('/');
  const std::string folder = need(input::data_folder(entry.file.substr(0, slash)));
  return need(input::read_file(folder + entry.file.substr(slash)));
}

template <class T>
std::string unreadable(const Result<T>& result) {
  return "cannot be read: " + result.errors().front().message;
}

Result<model::Architecture> model_of(const CatalogEntry& entry) {
  const Result<std::string> path = input::locate(input::Kind::model, entry.name, "");
  return path ? input::load_huggingface(*path) : Result<model::Architecture>(path.errors());
}

void read_model(CatalogEntry& entry) {
  const Result<model::Architecture> model = model_of(entry);
  if (!model) {
    entry.summary = unreadable(model);
    return;
  }
  entry.parameters = model::parameters(*model);
  entry.active_parameters = model::active_parameters(*model);
  entry.summary = model_line(*model);
}

}  // namespace

std::span<const Catalog> catalogs() {
  return all_catalogs;
}

void read_entry(const Catalog& catalog, CatalogEntry& entry) {
  if (catalog.folder == nullptr) return;
  if (is(catalog, "models")) return read_model(entry);
  if (is(catalog, "clusters")) {
    const Result<input::Machine> machine = input::find_cluster(entry.name);
    entry.summary = machine ? cluster_line(*machine) : unreadable(machine);
    return;
  }
  entry.summary = first_sentence(top_comment(text_of(entry)));
}

EntryFacts facts_of(const Catalog& catalog, const CatalogEntry& entry) {
  EntryFacts facts;
  if (is(catalog, "formats"))
    for (const calibrate::Reader& reader : calibrate::readers())
      for (const calibrate::TableColumn& column : reader.columns)
        if (reader.name == entry.name)
          facts.says.push_back(fmt::format("{}: {}", column.name, column.line));
  if (catalog.folder == nullptr) return facts;
  const std::string text = text_of(entry);
  if (is(catalog, "models")) {
    facts.says = model_facts(need(model_of(entry)));
    facts.sources.push_back("config.json as its authors publish it; models/README.md names them");
    return facts;
  }
  facts.about = top_comment(text);
  facts.sources = sources_in(text);
  if (is(catalog, "clusters")) facts.says = cluster_facts(need(input::find_cluster(entry.name)));
  return facts;
}

}  // namespace sim::command
