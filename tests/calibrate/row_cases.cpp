// row_cases.cpp — rows of measured tables with a few cells changed: what is then another plan, and
// why a row cannot be one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "sim/calibrate/rows/row_plan.h"
#include "sim/input/tables/runs_csv.h"
#include "sim/output/json.h"
#include "tests/cases.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

Row row_of(const std::string& file, const std::string& id) {
  const auto table =
      input::load_runs(std::string(REHEARSE_SOURCE_DIR) + "/calibration/measured/" + file);
  REQUIRE(table);
  for (const input::RunsRow& row : table->rows)
    if (cell(row.cells, "row_id") == id) return row.cells;
  FAIL(id << " is not in " << file);
  return {};
}

// All that a row says, as pairs.
output::Json all_of(const RowPlan& row) {
  if (!row.unsupported.empty()) return {{"unsupported", row.unsupported}};
  return {{"plan", output::to_json(row.plan)},
          {"etp", row.plan.mesh.etp},
          {"predicted", row.plan.architecture.predicted_tokens},
          {"groups", row.plan.architecture.experts.groups},
          {"top_groups", row.plan.architecture.experts.top_groups},
          {"bias", row.plan.architecture.experts.expert_bias},
          {"sigmoid", row.plan.architecture.experts.score == model::RouterScore::sigmoid},
          {"query_key_norm", row.plan.architecture.query_key_norm},
          {"again",
           {{"norms", row.plan.policy.recompute_modules.norms},
            {"latent", row.plan.policy.recompute_modules.latent},
            {"moe_activation", row.plan.policy.recompute_modules.moe_activation}}},
          {"cluster", row.machine.cluster.name},
          {"gpus_per_node", row.machine.cluster.node.gpus},
          {"nics", row.machine.cluster.node.nics},
          {"nic", row.machine.cluster.node.nic.bytes_per_second},
          {"no_nvlink_sharp", !row.machine.cluster.node.nvlink_sharp},
          {"family", row.family},
          {"convention", row.convention == nullptr ? "" : std::string(row.convention->name)},
          {"rank", static_cast<int>(row.memory_rank)},
          {"stage", row.memory_stage},
          {"cp_rank", row.memory_cp_rank},
          {"memory_only", row.memory_only},
          {"assumed", fmt::format("{}", fmt::join(row.assumptions, "; "))}};
}

std::string differences(const output::Json& before, const output::Json& after) {
  if (after.contains("unsupported")) {
    const auto why = after["unsupported"].get<std::string>();
    return "refused: " + why.substr(0, why.find("; known: "));  // clusters come and go
  }
  std::string text;
  const output::Json flat = before.flatten(), now = after.flatten();
  for (const auto& [key, value] : now.items())
    if (!flat.contains(key) || flat.at(key) != value)
      text += (text.empty() ? "" : "; ") + key.substr(key.find("/plan/") == 0 ? 6 : 1) + " " +
              (flat.contains(key) ? flat.at(key).dump() : "none") + " -> " + value.dump();
  for (const auto& [key, value] : flat.items())
    if (!now.contains(key))
      text += (text.empty() ? "" : "; ") + key.substr(key.find("/plan/") == 0 ? 6 : 1) + " " +
              value.dump() + " -> none";
  return text.empty() ? "the same" : text;
}

// "base FILE ID", then "column=text ; column=text" of each line.
std::string told(const std::string& lines) {
  Row base;
  output::Json plain;
  std::string all, line;
  for (std::istringstream in(lines); std::getline(in, line);) {
    if (line.rfind("base ", 0) == 0) {
      std::istringstream words(line.substr(5));
      std::string file, id;
      words >> file >> id;
      base = row_of(file, id);
      plain = all_of(plan_of(base));
      all += plain.contains("unsupported")
                 ? "refused\n"
                 : plain["plan"]["architecture"]["name"].get<std::string>() + "\n";
      continue;
    }
    Row row = base;
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find(" ; ", at), line.size());
      const std::string one = line.substr(at, end - at);
      row[one.substr(0, one.find('='))] = one.substr(one.find('=') + 1);
      at = end + 3;
    }
    all += differences(plain, all_of(plan_of(row))) + "\n";
  }
  return all;
}

}  // namespace

TEST_CASE("calibrate: cells of rows change what they name, or say why they cannot") {
  cases::hold("tests/calibrate/data/row_cases.txt", told);
}
