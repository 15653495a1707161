#include "sim/input/profile/residuals.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/machine_error.h"
#include "sim/input/schema/residuals.pb.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

namespace {

namespace v1 = rehearse::v1;

ResidualOf quantity_of(v1::ResidualGroup::Quantity from) {
  switch (from) {
    case v1::ResidualGroup::peak_allocated:
      return ResidualOf::allocated;
    case v1::ResidualGroup::peak_reserved:
      return ResidualOf::reserved;
    case v1::ResidualGroup::bubble:
      return ResidualOf::bubble;
    default:
      return ResidualOf::time;
  }
}

// Text of a string field: quotes and backslashes are escaped, control characters are removed.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) continue;
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string folded(const std::vector<double>& values) {
  std::string text;
  std::string line = "  values: [";
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string one = fmt::format("{:.4g}{}", values[i], i + 1 < values.size() ? "," : "]");
    if (line.size() + one.size() + 1 > 100) {
      text += line + "\n";
      line = "   ";
    }
    line += (i == 0 ? "" : " ") + one;
  }
  return text + line + "\n";
}

}  // namespace

std::string name(ResidualOf quantity) {
  return v1::ResidualGroup::Quantity_Name(
      static_cast<v1::ResidualGroup::Quantity>(static_cast<int>(quantity) + 1));
}

Result<RunResiduals> load_residuals(const std::string& path) {
  v1::RunResiduals message;
  Source source(path);
  Diagnostics problems = load(source, message);
  if (!problems.empty()) return problems;
  RunResiduals out;
  out.command = message.command();
  for (const v1::ResidualGroup& from : message.groups()) {
    ResidualGroup to;
    to.quantity = quantity_of(from.quantity());
    to.profile = from.profile();
    to.framework = from.framework();
    to.many_nodes = from.many_nodes();
    to.context_parallel = from.context_parallel();
    to.source = from.source();
    to.fitted = from.fitted();
    to.shards = from.shards();
    to.mixture = from.mixture();
    to.fp8 = from.fp8();
    to.values.assign(from.values().begin(), from.values().end());
    std::sort(to.values.begin(), to.values.end());
    out.groups.push_back(std::move(to));
  }
  return out;
}

Result<RunResiduals> find_residuals() {
  const std::string path = repository_root() + "/calibration/residuals/runs.textproto";
  if (!file_exists(path)) return RunResiduals{};
  return load_residuals(path);
}

std::string to_text(const RunResiduals& residuals) {
  std::string text =
      "# Residuals of whole runs, from which prediction intervals are made. Written by the command "
      "below.\n";
  text += fmt::format("command: {}\n", quoted(residuals.command));
  for (const ResidualGroup& group : residuals.groups) {
    text += fmt::format(
        "groups {{\n  quantity: {}\n  profile: {}\n  framework: {}\n  many_nodes: {}\n"
        "  context_parallel: {}\n  source: {}\n  fitted: {}\n",
        name(group.quantity), quoted(group.profile), quoted(group.framework), group.many_nodes,
        group.context_parallel, quoted(group.source), group.fitted);
    if (group.shards) text += "  shards: true\n";
    if (group.mixture) text += "  mixture: true\n";
    if (group.fp8) text += "  fp8: true\n";
    text += folded(group.values) + "}\n";
  }
  return text;
}

}  // namespace sim::input
