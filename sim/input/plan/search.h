// search.h — loads what `rehearse plan` is asked (schema search.proto) as the words of its command
// line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

struct SearchFile {
  std::string model, cluster;                                // names, or paths as seen from here
  std::vector<std::pair<std::string, std::string>> options;  // "gpus", "256,512"
  struct Setting {
    std::string text;   // "tp=4"
    std::string where;  // file:line:column
  };
  std::vector<Setting> settings;
};

Result<SearchFile> load_search(const std::string& path);

}  // namespace sim::input
