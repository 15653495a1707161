#include "sim/command/common/result_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/command/common/command.h"
#include "sim/input/text/textproto.h"
#include "sim/output/documents/folder_document.h"
#include "sim/output/documents/sweep_document.h"
#include "sim/output/record.h"
#include "sim/study/sweep/records.h"

namespace sim::command {

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t results_bytes_max = std::uintmax_t{1} << 30;
constexpr std::size_t problems_shown = 20;

// The records in the folder of a sweep.
std::vector<output::Json> load_records(const std::string& folder) {
  const std::string path = folder + "/results.jsonl";
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) {
    throw Stop{complain({{path, error.message() + "; a folder of `rehearse sweep` has it",
                          Fault::missing}}),
               ""};
  }
  if (size > results_bytes_max) throw Stop{complain({{path, "is larger than 1 GiB"}}), ""};
  std::ifstream in(path, std::ios::binary);
  std::vector<output::Json> records;
  Diagnostics problems;
  int number = 0;
  for (std::string line; std::getline(in, line) && problems.size() < problems_shown;) {
    ++number;
    output::Json record = output::Json::parse(line, nullptr, false);
    const std::string problem =
        record.is_discarded() ? "is no JSON" : output::record_problem(record);
    if (problem.empty()) {
      records.push_back(std::move(record));
    } else {
      problems.push_back({fmt::format("{}:{}", path, number), problem});
    }
  }
  if (problems.empty() && records.empty()) problems.push_back({path, "holds no records"});
  if (!problems.empty()) throw Stop{complain(problems), ""};
  return records;
}

// The plans in the folder of a search.
std::vector<output::Json> load_plans(const std::string& folder) {
  const std::string path = folder + "/plan.json";
  const std::string text = need(input::read_file(path, std::int64_t{results_bytes_max}));
  const output::Json json = output::Json::parse(text, nullptr, false);
  std::vector<output::Json> plans;
  if (json.is_object() && json.contains("result") && json["result"].is_object() &&
      json["result"].contains("plans") && json["result"]["plans"].is_array())
    for (const output::Json& plan : json["result"]["plans"])
      if (plan.is_object() && plan.contains("settings") && plan["settings"].is_string())
        plans.push_back(plan);
  if (plans.empty())
    throw Stop{complain({{path, "holds no plans; `rehearse plan ... -o FOLDER` writes it"}}), ""};
  return plans;
}

std::string name_of(const std::string& folder) {
  const std::string name = fs::path(fs::absolute(folder)).lexically_normal().filename();
  return name.empty() ? folder : name;
}

output::ResultFolder load(const std::string& folder) {
  output::ResultFolder one{name_of(folder), {}, {}};
  if (study::contents_of(folder) == study::FolderContents::plan) {
    one.plans = load_plans(folder);
  } else {
    one.records = load_records(folder);
  }
  return one;
}

}  // namespace

output::Document folders_page(const std::vector<std::string>& folders) {
  std::vector<output::ResultFolder> all;
  for (const std::string& folder : folders) all.push_back(load(folder));
  const bool searches = !all.front().plans.empty();
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].plans.empty() == searches)
      throw Stop{exit_usage, fmt::format("{} is of a {}, {} of a {}; compare one kind", folders[0],
                                         searches ? "search" : "sweep", folders[i],
                                         searches ? "sweep" : "search")};
    // Folders of one name in different places.
    for (std::size_t k = 0; k < i; ++k)
      if (all[k].name == all[i].name) all[i].name = folders[i];
  }
  if (searches) return all.size() == 1 ? output::search_page(all[0]) : output::searches_page(all);
  return all.size() == 1 ? output::sweep_document(all[0].name, all[0].records)
                         : output::sweeps_page(all);
}

}  // namespace sim::command
