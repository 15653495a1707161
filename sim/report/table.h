// table.h — a table of text as people read it on a terminal.
#pragma once

#include <string>
#include <vector>

namespace sim::report {

class Table {
 public:
  // A heading that starts with '<' makes its column left-aligned; columns are right-aligned.
  explicit Table(std::vector<std::string> headings);

  // REQUIRES: as many cells as headings.
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Lines end with '\n', never with blanks; two blanks stand between columns.
  std::string text(const std::string& indent = "  ") const;

 private:
  std::vector<bool> left_;
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

// Columns a text takes on a terminal: its code points.
std::size_t width(const std::string& text);

}  // namespace sim::report
