// table.h — a text table for terminals.
#pragma once

#include <string>
#include <vector>

namespace sim::output {

class Table {
 public:
  // A heading that starts with '<' makes its column left-aligned; other columns are right-aligned.
  explicit Table(std::vector<std::string> headings);

  // Adds a row. REQUIRES: as many cells as headings.
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // The table as text. Lines end with '\n', never with blanks; two blanks separate columns. Lines
  // longer than line_width() fold headings and left-aligned cells at blanks. If that is not enough,
  // the table is split into parts, each with the first column.
  std::string text(const std::string& indent = "  ") const;

 private:
  // Widths of some columns, and whether a line holds them all.
  struct Widths {
    std::vector<std::size_t> columns;
    bool fit = true;
  };
  Widths widths(const std::vector<std::size_t>& shown, std::size_t indent) const;
  std::vector<std::vector<std::size_t>> parts(std::size_t indent) const;
  std::string part(const std::vector<std::size_t>& shown, const std::string& indent) const;

  std::vector<bool> left_;
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

// The longest line of text that can be folded; 0: no limit. Default 100.
std::size_t line_width();
void set_line_width(std::size_t columns);

// Folds a text into lines of at most `columns`. A longer word gets its own line. Blanks inside of
// lines are kept.
std::vector<std::string> folded(const std::string& text, std::size_t columns);

// Folds every line longer than `columns`, with indentation; 0: folds none.
std::string fold_lines(const std::string& text, std::size_t columns = line_width());

// Width of a text on a terminal: its number of code points.
std::size_t width(const std::string& text);

}  // namespace sim::output
