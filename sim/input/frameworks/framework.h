// framework.h — defaults of training frameworks (workloads/frameworks/*.textproto,
// framework.proto).
//
// `resolve` calls `complete` to fill the fields that a plan leaves out. `rehearse validate` calls
// it for each row of a table of measured runs.
//
// A framework file is a list of statements. A statement sets fields, and it may have conditions on
// the plan or on the columns of a row.
//
// Invariants
//  (1) Values of the plan or row are kept. Only a statement with `overrides` replaces them.
//  (2) Statements apply in file order, those of the base framework (`based_on`) first. A later
//      statement replaces an earlier one.
//  (3) A framework that is returned has no problems: its fields exist and every statement has a
//      source.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"

namespace rehearse::v1 {
class Framework;
class Plan;
}  // namespace rehearse::v1

namespace sim::input {

struct Framework {
  std::string name, line, source, path;
  std::string family;              // its name in residuals of measured runs
  std::vector<std::string> also;   // other names
  std::vector<std::string> bases;  // base frameworks, nearest first
  std::string refused;             // reason why it is not simulated; "": it is
  std::vector<std::shared_ptr<const rehearse::v1::Framework>> files;  // farthest base first
};

// The problems of one file, without its bases.
Diagnostics framework_problems(const std::string& path);
// All frameworks of a folder, sorted by name.
Result<std::vector<Framework>> load_frameworks(const std::string& folder);
// All frameworks of the repository, read once per process.
const Result<std::vector<Framework>>& frameworks();
// The framework of a name or other name; nullptr if unknown. REQUIRES: frameworks() has no
// problems.
const Framework* find_framework(std::string_view name);
// The message for an unknown name. REQUIRES: frameworks() has no problems.
std::string unknown_framework(std::string_view name);
std::vector<std::string> framework_names();  // including the other names

// The text of a row's column; nothing if the table has no such column.
using Columns = std::function<std::optional<std::string>(std::string_view column)>;

// The framework whose `runs` conditions match the row best; nullptr if none matches. More
// conditions and longer matching words count as better. REQUIRES: frameworks() has no problems.
const Framework* framework_of_run(const Columns& columns);

// The statements as text, one element each.
std::vector<std::string> statements_text(const Framework& framework);

// A value that the row does not state, with the explanation that reports print.
struct Assumption {
  std::string field, text;
};

// Results of the statements other than plan fields.
struct Completion {
  std::vector<Assumption> assumptions;
  std::vector<std::string> cluster;  // settings of the cluster
  std::string refused, tflops;
};
// Fills the fields that the plan leaves out. `columns` is empty for a plan file; statements with
// conditions on columns do not apply then.
Completion complete(const Framework& framework, rehearse::v1::Plan& plan,
                    const Columns& columns = {});

}  // namespace sim::input
