// timings.h — measured kernels and collectives, predicted one by one: matrix products and fused
// attention (gemm.csv), operations of a layer (op_profiles.csv), collectives (nccl.csv).
//
// Invariants
//  (1) Every measured time of the table has exactly one line, in the order of the table; what
//  cannot
//      be represented says why.
//  (2) Lines alternate between the half that profiles may be fitted to and the half that only
//  checks
//      them: the first, third, ... row of each group is of the first half.
//  (3) A time is that of the profile of its GPU; nothing is scaled to fit a table.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/input/tables/table_csv.h"
#include "sim/output/document.h"

namespace sim::calibrate {

enum class TimingTable { none, products, operations, collectives };

// By its columns; none: a table of runs, or of something else.
TimingTable timing_table(const input::Table& table);

struct Timing {
  int line = 0;
  std::string group;   // "A100-PCIe 80GB, matmul TN": what is averaged together
  std::string fabric;  // of collectives: what carries them; "": not told apart
  std::string reason;  // why there is no prediction; "": there is one
  bool fitted = false;
  double measured_us = 0;
  double predicted_us = 0;
};

// REQUIRES: timing_table(table) is not none.
std::vector<Timing> timings(const input::Table& table, answer::Sites& sites);

std::string timings_csv(const std::vector<Timing>& timings);
output::Document timings_document(const std::vector<Timing>& timings);

// The parts of `timings`, one per table (timing_products.cpp, timing_operations.cpp,
// timing_collectives.cpp). They fill everything but `fitted`.
void time_products(const input::TableRow& row, answer::Sites& sites, std::vector<Timing>& out);
void time_operations(const input::TableRow& row, answer::Sites& sites, std::vector<Timing>& out);
void time_collectives(const input::TableRow& row, answer::Sites& sites, std::vector<Timing>& out);

// The cluster whose GPU a table names; "" when no profile covers it.
std::string cluster_of_gpu(const std::string& gpu);

}  // namespace sim::calibrate
