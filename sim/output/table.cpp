#include "sim/output/table.h"

#include <algorithm>
#include <cassert>

namespace sim::output {

namespace {
std::size_t line_columns = 100;
}

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

std::size_t line_width() {
  return line_columns;
}

void set_line_width(std::size_t columns) {
  line_columns = columns;
}

std::vector<std::string> folded(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines;
  std::string rest = text;
  while (columns > 0 && width(rest) > columns) {
    // The last blank within the line, else the first one after it.
    std::size_t bytes = 0, points = 0, cut = std::string::npos;
    for (; bytes < rest.size() && points <= columns; ++bytes) {
      if (rest[bytes] == ' ' && bytes > 0) cut = bytes;
      if ((static_cast<unsigned char>(rest[bytes]) & 0xC0) != 0x80) ++points;
    }
    if (cut == std::string::npos) cut = rest.find(' ', bytes);
    if (cut == std::string::npos) break;
    lines.push_back(rest.substr(0, rest.find_last_not_of(' ', cut) + 1));
    rest.erase(0, rest.find_first_not_of(' ', cut));
    if (rest.find_first_not_of(' ') == std::string::npos) return lines;
  }
  lines.push_back(rest);
  return lines;
}

std::string fold_lines(const std::string& text, std::size_t columns) {
  constexpr std::size_t hanging = 4;
  std::string all;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
    if (columns == 0 || width(line) <= columns || first + hanging + 20 > columns) {
      all += line + "\n";
      continue;
    }
    const std::string words = line.substr(first);
    std::vector<std::string> parts = folded(words, columns - first);
    all += std::string(first, ' ') + parts[0] + "\n";
    if (parts.size() == 1) continue;
    // The rest is indented more, so it is folded again.
    const std::string rest = words.substr(words.find_first_not_of(' ', parts[0].size()));
    for (const std::string& part : folded(rest, columns - first - hanging))
      all += std::string(first + hanging, ' ') + part + "\n";
  }
  return all;
}

namespace {

std::size_t longest_word(const std::string& text) {
  std::size_t longest = 0;
  for (const std::string& word : folded(text, 1)) longest = std::max(longest, width(word));
  return longest;
}

}  // namespace

// The widest cell of each column. If a line becomes too long, text columns and headings shrink, the
// widest first, to a readable minimum.
Table::Widths Table::widths(const std::vector<std::size_t>& shown, std::size_t indent) const {
  constexpr std::size_t least = 14;
  std::vector<std::size_t> widths, bounds;
  for (const std::size_t column : shown) {
    const std::size_t words = longest_word(headings_[column]);
    std::size_t cells = 0, longest = 0;
    for (const auto& row : rows_) {
      cells = std::max(cells, width(row[column]));
      if (left_[column]) longest = std::max(longest, longest_word(row[column]));
    }
    widths.push_back(std::max(width(headings_[column]), cells));
    bounds.push_back(
        std::max(words, left_[column] ? std::max(std::min(cells, least), longest) : cells));
  }
  std::size_t all = indent + 2 * (widths.empty() ? 0 : widths.size() - 1);
  for (const std::size_t one : widths) all += one;
  while (line_columns > 0 && all > line_columns) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] <= bounds[i]) continue;
      if (widest == widths.size() || widths[i] > widths[widest]) widest = i;
    }
    if (widest == widths.size()) return {widths, false};
    --widths[widest];
    --all;
  }
  return {widths, true};
}

// Groups of columns that fit side by side: all, or the first column with as many others as a line
// holds.
std::vector<std::vector<std::size_t>> Table::parts(std::size_t indent) const {
  std::vector<std::vector<std::size_t>> parts(1);
  for (std::size_t column = 0; column < headings_.size(); ++column) {
    std::vector<std::size_t> longer = parts.back();
    longer.push_back(column);
    if (longer.size() > 2 && !widths(longer, indent).fit) {
      parts.push_back({0, column});
    } else {
      parts.back() = std::move(longer);
    }
  }
  return parts;
}

std::string Table::part(const std::vector<std::size_t>& shown, const std::string& indent) const {
  const std::vector<std::size_t> widths = this->widths(shown, indent.size()).columns;
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells, bool heading) {
    std::vector<std::vector<std::string>> parts;
    std::size_t lines = 1;
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const std::string& cell = cells[shown[i]];
      parts.push_back(left_[shown[i]] || heading ? folded(cell, widths[i]) : std::vector{cell});
      lines = std::max(lines, parts.back().size());
    }
    for (std::size_t k = 0; k < lines; ++k) {
      std::string text = indent;
      for (std::size_t i = 0; i < shown.size(); ++i) {
        const std::string cell = k < parts[i].size() ? parts[i][k] : "";
        const std::size_t taken = width(cell);
        const std::string blanks(taken < widths[i] ? widths[i] - taken : 0, ' ');
        if (i > 0) text += "  ";
        text += left_[shown[i]] ? cell + blanks : blanks + cell;
      }
      text.erase(text.find_last_not_of(' ') + 1);
      out += text + "\n";
    }
  };
  line(headings_, true);
  for (const auto& cells : rows_) line(cells, false);
  return out;
}

std::string Table::text(const std::string& indent) const {
  std::string out;
  for (const std::vector<std::size_t>& shown : parts(indent.size()))
    out += (out.empty() ? "" : "\n") + part(shown, indent);
  return out;
}

}  // namespace sim::output
