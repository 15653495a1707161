// table.h — a table of text as people read it on a terminal.
#pragma once

#include <string>
#include <vector>

namespace sim::output {

class Table {
 public:
  // A heading that starts with '<' makes its column left-aligned; columns are right-aligned.
  explicit Table(std::vector<std::string> headings);

  // REQUIRES: as many cells as headings.
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Lines end with '\n', never with blanks; two blanks stand between columns. Where lines would be
  // longer than line_width(), headings and left-aligned cells are folded at blanks; what is too
  // wide even so comes in parts, one below the other, each behind the first column.
  std::string text(const std::string& indent = "  ") const;

 private:
  // Of some columns: how wide each is, and whether a line holds them all.
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

// The most columns that a line of text takes where it can be folded; 0: no bound. 100 unless
// somebody says otherwise.
std::size_t line_width();
void set_line_width(std::size_t columns);

// The words of a text in lines of at most `columns`; a longer word has a line of its own. Blanks
// inside of lines are kept.
std::vector<std::string> folded(const std::string& text, std::size_t columns);

// Every line that is longer than `columns`, folded under its first words; 0: none is.
std::string fold_lines(const std::string& text, std::size_t columns = line_width());

// Columns a text takes on a terminal: its code points.
std::size_t width(const std::string& text);

}  // namespace sim::output
