// search.h — loads the file of a plan search (schema search.proto), as options of `rehearse plan`.
//
// `rehearse plan FILE` loads it and proceeds as if the options were on its command line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

struct SearchFile {
  std::string model, cluster;                                // names or paths
  std::vector<std::pair<std::string, std::string>> options;  // "gpus", "256,512"
  struct Setting {
    std::string text;   // "tp=4"
    std::string where;  // file:line:column
  };
  std::vector<Setting> settings;
};

// Whether the file is a plan, by its fields.
bool is_plan_file(const std::string& path);

Result<SearchFile> load_search(const std::string& path);

}  // namespace sim::input
