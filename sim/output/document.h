// document.h — what a command has to say, before anybody decides how it looks: notes, values,
// tables, and charts that are drawn from tables. Text, JSON, CSV and a page (page.h) are rendered
// from it: what is said is written down once, with its key in JSON beside its words in text.
//
// Invariants
//  (1) A chart holds no numbers of its own: it names a table of the document and columns of it, so
//      whatever is drawn can also be read, filtered and copied.
//  (2) A cell is a number, a text, a truth or null (there is no such value); how many digits are
//      shown, and in which unit, is the column's business, never the cell's: JSON and CSV have the
//      cell as it is.
//  (3) What has no key is of the text alone; what has no heading is of JSON alone.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "sim/output/json.h"

namespace sim::output {

// How text shows a number that is not whole.
enum class Show {
  fixed,    // so many digits after the point
  general,  // so many digits that mean something: 1.234e+05
  change,   // with its sign
  bytes,    // "12.34 GiB"
};

struct Column {
  std::string key;  // "peak_reserved_gib": unique in its table, and the key in JSON and CSV
  std::string heading = "";  // "reserved"
  std::string unit = "";     // "GiB"; "" where there is none
  int digits = 2;            // after the point, of numbers that are not whole
  bool left = false;         // left-aligned: words
  std::string suffix = "";   // behind every number, in text: " %"
  double scale = 1;          // of numbers in text: 1e6 shows seconds as microseconds
  Show show = Show::fixed;
};

// What is said with words.
struct Note {
  std::string title, text;
  bool strong = false;   // the answer itself
  std::string key = "";  // in JSON
  bool code = false;     // lines of a file
};

// Values that stand alone, one a line; the heading is what the value is.
struct Value {
  Column what;
  Json value;
};
struct Values {
  std::string title;
  std::vector<Value> values;
};

// Drawn with letters of one byte, or in a page an SVG; its lines are not folded, what is wider than
// a line comes in parts.
struct Picture {
  std::string lines;
};

// What only programs read: JSON's alone.
struct Data {
  std::string key;
  Json value;
};

struct Rows {
  std::string name;  // by which charts find it; its key in JSON, or `whole`
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<Json>> cells;  // of each row, as many as columns
  bool searched = false;      // so long that readers want to filter it; not part of the text
  std::string footnote = "";  // under it
};

// A line across a chart: y, or x, at a value; or y = slope x.
struct Rule {
  enum class Kind { x, y, slope };
  Kind kind = Kind::y;
  double at = 0;
  std::string label;
};

// One mark for each row of a table (`points`, with `low` and `high` an interval), lines over x,
// areas or bars stacked on each other.
struct Series {
  enum class Kind { points, lines, areas, bars };
  Kind kind = Kind::points;
  std::string title, table;
  std::string x;                   // column
  std::vector<std::string> y;      // columns; points have one
  std::string group;               // column by whose words marks differ; "" where there is one kind
  std::string label;               // column that names a mark
  std::string low, high;           // columns of an interval around y
  std::vector<std::string> fixed;  // y columns of areas that are lines instead: what is reserved
  std::vector<Rule> rules;
  bool front = false;  // join the points that no other beats in both: less x, more y
};

// Bars along a time axis, in lanes.
struct Timeline {
  std::string title, table;
  std::string lane, begin, end;  // columns; begin and end in the same unit
  std::string kind, label;       // columns: what colour, what words
  std::string axis = "seconds of the step";
};

// The best value of `value` of the rows that share x and y; readers choose the three.
struct Heatmap {
  std::string title, table;
  std::vector<std::string> axes;    // columns; the first two to begin with
  std::vector<std::string> values;  // columns; the first to begin with
  std::string outcome;  // column: "fits", "oom", "impossible"; cells without a fit are hatched
};

using Block = std::variant<Note, Rows, Series, Timeline, Heatmap, Values, Picture, Data>;

// The name of a table, or the key of data, that is all that there is in JSON.
inline constexpr const char* whole = ".";

struct Document {
  std::string title, subtitle;
  std::vector<std::string>
      filters;  // columns of searched tables by which readers narrow all charts
  std::vector<Block> blocks;

  const Rows* table(const std::string& name) const;
};

// The cell as text: "" for null.
std::string cell_text(const Column& column, const Json& cell);

// A line of one value, or a cell of a table: with its key, its words, its unit and how it is shown.
Value value(std::string key, std::string words, Json value, std::string unit = "", int digits = 2);

// Notes, values and tables as they are read on a terminal, a blank line between them; charts and
// searched tables are left out.
std::string text(const Document& document);
// What --json prints: an object of the values, notes and tables that have keys, in their order.
Json result(Document document);
// One row as an object by key.
Json to_json(const std::vector<Column>& columns, std::vector<Json> cells);
// The table as an array of objects by key.
Json to_json(Rows table);
std::string csv(const Rows& table);
// All of it but values and data, as the page reads it: tables by column.
Json to_json(const Document& document);

}  // namespace sim::output
