#include "sim/report/table.h"

#include <algorithm>
#include <cassert>

namespace sim::report {

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {
  for (std::string& heading : headings_) {
    left_.push_back(!heading.empty() && heading[0] == '<');
    if (left_.back()) heading.erase(0, 1);
  }
}

void Table::row(std::vector<std::string> cells) {
  assert(cells.size() == headings_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(const std::string& indent) const {
  std::vector<std::size_t> widths;
  for (const std::string& heading : headings_) widths.push_back(width(heading));
  for (const auto& cells : rows_) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width(cells[i]));
  }
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = indent;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string blanks(widths[i] - width(cells[i]), ' ');
      if (i > 0) text += "  ";
      text += left_[i] ? cells[i] + blanks : blanks + cells[i];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line(headings_);
  for (const auto& cells : rows_) line(cells);
  return out;
}

}  // namespace sim::report
