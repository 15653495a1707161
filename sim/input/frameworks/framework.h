// framework.h — defaults of training frameworks (workloads/frameworks/*.textproto,
// framework.proto).
//
// `resolve` calls `complete` to fill the fields that a plan leaves out. Plan files, launch files
// and rows of measured runs all reach it as plans.
//
// A framework file is a list of statements. A statement sets fields, and it may have conditions on
// other fields and on the framework's version.
//
// Invariants
//  (1) Values of the plan are kept.
//  (2) Statements apply in file order, those of the base framework (`based_on`) first. A later
//      statement replaces an earlier one.
//  (3) A framework that is returned has no problems: its fields exist and every statement has a
//      source.
#pragma once

#include <memory>
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
  std::vector<std::string>
      search;                     // settings that a search of plans states: "tp_comm_overlap=true"
  bool one_layer_chunks = false;  // of pipelines whose table leaves the chunks out
  std::string refused;            // reason why it is not simulated; "": it is
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

// The framework that a log or a table calls `name`, in the given version; nullptr if none. The
// longest match wins, one with a version before one without. REQUIRES: frameworks() has no
// problems.
const Framework* framework_called(std::string_view name, std::string_view version);

// The FLOP convention of the TFLOP/s that the framework's log prints in a version; "": not known.
std::string log_convention(const Framework& framework, std::string_view version);

// The statements as text, one element each.
std::vector<std::string> statements_text(const Framework& framework);

// A value that the plan does not state, with the explanation that reports print.
struct Assumption {
  std::string field, text;
};

// Results of the statements other than plan fields.
struct Completion {
  std::vector<Assumption> assumptions;
  std::vector<std::string> cluster;  // settings of the cluster
  std::string refused;               // reason why such a plan is not simulated; "": it is
};
// Fills the fields that the plan leaves out.
Completion complete(const Framework& framework, rehearse::v1::Plan& plan);

}  // namespace sim::input
