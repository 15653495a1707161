// framework.h — what a training framework does where a plan, or a row of a table of measured runs,
// says nothing: workloads/frameworks/*.textproto, schema framework.proto.
//
// Invariants
//  (1) What the plan or the row says stands; only a statement that `overrides` a row replaces it.
//  (2) Statements hold in the order of the files, those of `based_on` first; the later one counts.
//  (3) A framework that comes back has no problems: its fields exist, every statement has a source.
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
  std::string family;              // in residuals of measured runs
  std::vector<std::string> also;   // its other names
  std::vector<std::string> bases;  // what it is based on, nearest first
  std::string refused;             // why its programs are not simulated; "": they are
  std::vector<std::shared_ptr<const rehearse::v1::Framework>> files;  // the farthest base first
};

// What is wrong with one file, its bases aside.
Diagnostics framework_problems(const std::string& path);
// All of a folder, by name.
Result<std::vector<Framework>> load_frameworks(const std::string& folder);
// Those of the repository, read once.
const Result<std::vector<Framework>>& frameworks();
// By its name or one of its other names; nullptr. REQUIRES: frameworks() has no problems.
const Framework* find_framework(std::string_view name);
// What is said of a name that is none. REQUIRES: the same.
std::string unknown_framework(std::string_view name);
std::vector<std::string> framework_names();  // with the other names

// The text of a column of a row; nothing where the table has none.
using Columns = std::function<std::optional<std::string>(std::string_view column)>;

// The framework whose `runs` say most about the row; nullptr. REQUIRES: as above.
const Framework* framework_of_run(const Columns& columns);

// Its statements in words, one a line.
std::vector<std::string> statements_text(const Framework& framework);

struct Assumption {
  std::string field, text;
};

// What its statements say beside the fields of the plan.
struct Completion {
  std::vector<Assumption> assumptions;
  std::vector<std::string> cluster;  // settings
  std::string refused, tflops;
};
// Fills what the plan leaves out. Without columns the plan is nobody's row: statements about rows
// do not hold.
Completion complete(const Framework& framework, rehearse::v1::Plan& plan,
                    const Columns& columns = {});

}  // namespace sim::input
