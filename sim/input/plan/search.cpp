#include "sim/input/plan/search.h"

#include <fmt/format.h>

#include "sim/input/schema/search.pb.h"
#include "sim/input/text/kinds.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

namespace {

namespace v1 = rehearse::v1;

// A path in the file becomes a path from the working folder. A name stays a name.
std::string seen_from_here(Kind kind, const std::string& name, const std::string& field,
                           const v1::Search& from, const Source& source, Diagnostics& problems) {
  const Result<std::string> path = locate(kind, name, source.path());
  if (!path) {
    for (Diagnostic problem : path.errors()) {
      problem.where = source.where(from, field);
      problems.push_back(problem);
    }
    return name;
  }
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(".json") ||
                       name.ends_with(".textproto");
  return is_path ? *path : name;
}

}  // namespace

bool is_plan_file(const std::string& path) {
  const Result<std::string> text = read_file(path);
  return text && kind_of_text(*text) == "plan" &&
         !kind_problem(*text, *v1::Search::descriptor()).empty();
}

Result<SearchFile> load_search(const std::string& path) {
  v1::Search from;
  Source source(path);
  Diagnostics problems = load(source, from);
  if (!problems.empty()) return problems;
  SearchFile file;
  file.model = seen_from_here(Kind::model, from.model(), "model", from, source, problems);
  file.cluster = seen_from_here(Kind::topology, from.cluster(), "cluster", from, source, problems);
  if (!problems.empty()) return problems;
  const auto add = [&](const char* name, const auto& value) {
    file.options.emplace_back(name, fmt::format("{}", value));
  };
  add("gpus", fmt::format("{}", fmt::join(from.gpus(), ",")));
  add("batch", from.batch());
  add("sequence", from.sequence());
  if (from.has_objective()) add("objective", v1::Objective_Name(from.objective()));
  if (from.has_rate()) add("rate", from.rate());
  if (from.has_price()) add("price", from.price());
  if (!from.headroom().empty()) add("headroom", from.headroom());
  if (from.has_best()) add("best", from.best());
  if (from.has_time_limit()) add("time-limit", from.time_limit());
  for (int i = 0; i < from.set_size(); ++i)
    file.settings.push_back({from.set(i), source.where(from, "set", i)});
  return file;
}

}  // namespace sim::input
