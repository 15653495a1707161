#include "sim/input/plan/grid_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <set>
#include <utility>

#include "sim/input/fields/cluster_fields.h"
#include "sim/input/fields/plan_fields.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;

std::vector<std::string> split(const std::string& text, const char* separators) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (true) {
    const std::size_t start = text.find_first_not_of(separators, at);
    if (start == std::string::npos) return parts;
    at = std::min(text.find_first_of(separators, start), text.size());
    parts.push_back(text.substr(start, at - start));
  }
}

// "tp4", "schedule=zb_h1". A label contains no '-', because '-' separates labels.
std::string label(const std::string& field, const std::string& value) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 9> brief = {
      {{"tp", "tp"},
       {"cp", "cp"},
       {"pp", "pp"},
       {"dp", "dp"},
       {"gpus", "gpus"},
       {"virtual_stages", "vp"},
       {"micro_batch", "mbs"},
       {"global_batch", "gbs"},
       {"sequence", "seq"}}};
  std::string text = field + "=";
  for (const auto& [name, shorter] : brief)
    if (name == field) text = shorter;
  for (const char c : value) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == ':' || c == '+';
    text += plain ? c : '_';
  }
  return text;
}

struct Cell {
  v1::Plan plan;  // one field is set
  std::string label;
};

class AxisReader {
 public:
  AxisReader(const v1::Vary& vary, const Source& source, Diagnostics& problems)
      : vary_(vary), source_(source), problems_(problems) {}

  Axis run() {
    for (const std::string& key : split(vary_.keys(), " \t")) {
      const FieldName name = plan_field(key);
      if (is_cluster_setting(key + "="))
        problem("keys", 0,
                fmt::format("'{}' is a setting of the cluster, and a grid varies plans; write "
                            "`rehearse whatif PLAN --vary {}={}`",
                            key.substr(0, 80), key.substr(0, 80), values_text()));
      else if (!name.problem.empty())
        problem("keys", 0, name.problem);
      else
        axis_.fields.push_back(name.field);
    }
    if (good_ && axis_.fields.empty()) problem("keys", 0, "'keys' names no setting");
    if (!good_) return {};
    for (int i = 0; i < vary_.rows_size() && good_; ++i) row(i);
    return std::move(axis_);
  }

 private:
  void problem(const char* field, int index, std::string message) {
    good_ = false;
    problems_.push_back({source_.where(vary_, field, index), std::move(message)});
  }

  // The values of a block with one key: "1,2,4".
  std::string values_text() const {
    if (vary_.rows_size() != 1 || vary_.keys().find(' ') != std::string::npos) return "V1,V2";
    std::string text = vary_.rows(0).substr(0, 80);
    std::ranges::replace(text, '|', ',');
    return text;
  }

  void row(int index) {
    const std::vector<std::string> cells = split(vary_.rows(index), " \t");
    if (cells.size() != axis_.fields.size())
      return problem("rows", index,
                     fmt::format("row \"{}\" has {} values for the {} keys \"{}\"",
                                 vary_.rows(index).substr(0, 80), cells.size(), axis_.fields.size(),
                                 vary_.keys()));
    std::vector<std::vector<Cell>> values;
    std::int64_t count = 1;
    for (std::size_t k = 0; k < cells.size(); ++k) {
      values.push_back(choices(index, axis_.fields[k], cells[k]));
      if (!good_) return;
      if (__builtin_mul_overflow(count, static_cast<std::int64_t>(values.back().size()), &count))
        count = max_rows + 1;
      if (count > max_rows) break;
    }
    if (count + static_cast<std::int64_t>(axis_.rows.size()) > max_rows)
      return problem(
          "rows", index,
          fmt::format("more than {} rows in one block; blocks multiply, so use several", max_rows));
    std::vector<std::size_t> at(values.size(), 0);
    for (std::int64_t i = 0; i < count && good_; ++i) {
      combination(index, values, at);
      for (std::size_t k = values.size(); k-- > 0;) {
        if (++at[k] < values[k].size()) break;
        at[k] = 0;
      }
    }
  }

  // The values of a cell: "1|2|4" has three.
  std::vector<Cell> choices(int index, const std::string& field, const std::string& text) {
    std::vector<Cell> found;
    for (const std::string& value : split(text, "|")) {
      Cell cell;
      cell.label = label(field, value);
      const Setting setting{field + "=" + value, source_.where(vary_, "rows", index)};
      Source single("");
      const Diagnostics wrong = apply({&setting, 1}, cell.plan, single);
      good_ = good_ && wrong.empty();
      for (const Diagnostic& diagnostic : wrong) problems_.push_back(diagnostic);
      found.push_back(std::move(cell));
    }
    if (found.empty()) problem("rows", index, "a cell of the row is empty");
    return found;
  }

  void combination(int index, const std::vector<std::vector<Cell>>& values,
                   const std::vector<std::size_t>& at) {
    AxisRow row;
    for (std::size_t k = 0; k < values.size(); ++k) {
      const Cell& cell = values[k][at[k]];
      row.plan.MergeFrom(cell.plan);
      row.label += (k == 0 ? "" : "-") + cell.label;
    }
    if (!labels_.insert(row.label).second)
      return problem("rows", index,
                     fmt::format("the row \"{}\" is there twice ({})",
                                 vary_.rows(index).substr(0, 80), row.label));
    axis_.rows.push_back(std::move(row));
  }

  const v1::Vary& vary_;
  const Source& source_;
  Diagnostics& problems_;
  Axis axis_;
  std::set<std::string> labels_;
  bool good_ = true;
};

}  // namespace

Axis read_axis(const v1::Vary& vary, const Source& source, Diagnostics& problems) {
  return AxisReader(vary, source, problems).run();
}

}  // namespace sim::input
