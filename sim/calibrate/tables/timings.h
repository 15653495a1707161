// timings.h — predicts measured kernels and collectives one by one: matrix products and fused
// attention (gemm.csv), operations of a layer (op_profiles.csv), collectives (nccl.csv). The
// command `validate` calls it.
//
// Invariants
// (1) Every measured time of the table has exactly one line, in the order of the table. A time that
//     cannot be represented has the reason.
// (2) Lines of a group alternate between two halves. Profiles may be fitted to the first half; the
//     second half only checks them.
// (3) A time uses the profile of its GPU; nothing is scaled to fit a table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/input/tables/table_csv.h"
#include "sim/output/document.h"

namespace sim::calibrate {

enum class TimingTable { none, products, operations, collectives };

// The kind of a table by its columns; none: a table of runs or of other things.
TimingTable timing_table(const input::Table& table);

struct Timing {
  int line = 0;
  std::string group;   // lines averaged together: "A100-PCIe 80GB, matmul TN"
  std::string fabric;  // network of a collective; "": not distinguished
  std::string reason;  // reason for a missing prediction; "": it exists
  bool fitted = false;
  double measured_us = 0;
  double predicted_us = 0;
  // Of a collective.
  std::string source;       // repository or issue that published the time
  std::int64_t bytes = 0;   // as nccl-tests print it
  int nodes = 0;            // NVLink domains; 0: not a collective
  bool host_timed = false;  // measured by a CPU thread: with its launch
};

// REQUIRES: timing_table(table) is not none.
std::vector<Timing> timings(const input::Table& table, answer::Sites& sites);

std::string timings_csv(const std::vector<Timing>& timings);
output::Document timings_document(const std::vector<Timing>& timings);

// Errors of collectives by size class, number of nodes and source (collective_errors.cpp). In a
// class, every source has the same weight: the median of its rows, averaged over sources.
std::vector<output::Rows> collective_errors(const std::vector<Timing>& timings);

// The parts of `timings`, one per table (timing_products.cpp, timing_operations.cpp,
// timing_collectives.cpp). They set all members except `line` and `fitted`.
void time_products(const input::TableRow& row, answer::Sites& sites, std::vector<Timing>& out);
void time_operations(const input::TableRow& row, answer::Sites& sites, std::vector<Timing>& out);
void time_collectives(const input::TableRow& row, answer::Sites& sites, std::vector<Timing>& out);

// Name of the cluster with a GPU that a table names; "" if there is none.
std::string cluster_of_gpu(const std::string& gpu);

}  // namespace sim::calibrate
