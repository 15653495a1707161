// row_identities.h — hashes that name the rows of a table of runs and everything that their
// predictions depend on. `validate --shard` and `validate --leave-out` keep records under them.
#pragma once

#include <string>
#include <vector>

#include "sim/input/tables/runs_csv.h"

namespace sim::command {

// One for each row, from its cells and its position, the version of the program, every known
// cluster with its profiles, every file of workloads/frameworks, and `more`.
std::vector<std::string> row_identities(const std::vector<input::RunsRow>& rows,
                                        const std::string& more);

}  // namespace sim::command
