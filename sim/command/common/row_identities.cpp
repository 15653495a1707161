#include "sim/command/common/row_identities.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/answer/site.h"
#include "sim/calibrate/rows/row_plan.h"
#include "sim/command/common/command.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"
#include "sim/study/sweep/answers.h"

namespace sim::command {

namespace {

// The texts of all framework files, in the order of their names.
std::string frameworks_text() {
  const std::filesystem::path folder = input::repository_root() + "/workloads/frameworks";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".textproto") files.push_back(entry.path());
  std::ranges::sort(files);
  std::string text;
  for (const std::filesystem::path& file : files) text += need(input::read_file(file.string()));
  return text;
}

}  // namespace

std::vector<std::string> row_identities(const std::vector<input::RunsRow>& rows,
                                        const std::string& more) {
  answer::Sites sites;
  std::string common = output::version() + more + frameworks_text();
  for (const std::string& name : calibrate::known_clusters())
    common += (*need(sites.find(name))).digest;
  common = study::identity(common);
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string text = fmt::format("{} {}\n", common, i);
    for (const auto& [column, cell] : rows[i].cells) text += column + "\t" + cell + "\n";
    ids.push_back(study::identity(text));
  }
  return ids;
}

}  // namespace sim::command
