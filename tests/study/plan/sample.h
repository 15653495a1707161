// sample.h — spaces for tests.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "sim/study/plan/search.h"

namespace sample {

using namespace sim;

inline planner::Question question(const std::string& model, const std::string& cluster, int gpus,
                                  int batch, int sequence, std::vector<std::string> settings) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  settings.push_back("global_batch=" + std::to_string(batch));
  settings.push_back("sequence=" + std::to_string(sequence));
  return {model, cluster, {gpus}, settings, {}};
}

inline planner::Space space(const planner::Question& question) {
  const auto space = planner::Space::make(question);
  REQUIRE(space);
  return *space;
}

inline answer::Site& site(answer::Sites& sites, const planner::Space& space, int base) {
  const auto found = sites.of(space.bases()[static_cast<std::size_t>(base)].file.machine);
  REQUIRE(found);
  return **found;
}

inline bool always(const planner::Progress&) {
  return true;
}

}  // namespace sample
