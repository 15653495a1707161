// table_columns.h — the columns of measured tables of kernels, operations and collectives, with
// their units. `doc gemm.csv` and `init kernels` print them; tables.cpp and tables/ read them.
#pragma once

#include <span>
#include <string_view>

namespace sim::calibrate {

struct TableColumn {
  std::string_view name;
  std::string_view line;  // what it holds, its unit, and whether it may be blank
};

std::span<const TableColumn> kernel_table_columns();      // gemm.csv
std::span<const TableColumn> operation_table_columns();   // op_profiles.csv
std::span<const TableColumn> collective_table_columns();  // nccl.csv

}  // namespace sim::calibrate
