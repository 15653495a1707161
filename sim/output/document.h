// document.h — the output of a command before its format is chosen: notes, values, tables, and
// charts that refer to tables. Text, JSON, CSV and HTML (page.h) are rendered from it, so each
// value is written once with its JSON key and its text.
//
// Invariants
// (1) A chart has no numbers of its own. It names a table of the document and columns of it, so
//     readers can also read, filter and copy the data.
// (2) A cell is a number, a text, a boolean or null (no value). Digits and unit belong to the
//     column. JSON and CSV contain the exact value.
// (3) Items without a key appear only in text, items without a heading only in JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "sim/output/json.h"

namespace sim::output {

// How text shows numbers that are not whole.
enum class Show {
  fixed,    // `digits` digits after the point
  general,  // `digits` significant digits: 123,400
  change,   // with its sign
  bytes,    // "12.34 GiB"
};

struct Column {
  std::string key;           // "peak_reserved_gib": unique in its table; key in JSON and CSV
  std::string heading = "";  // "reserved"
  std::string unit = "";     // "GiB"; "" if there is none
  int digits = 2;            // after the point, for numbers that are not whole
  bool left = false;         // left-aligned, for words
  std::string suffix = "";   // after every number in text: " %"
  double scale = 1;          // factor for numbers in text: 1e6 shows seconds as microseconds
  Show show = Show::fixed;
};

// A paragraph of text.
struct Note {
  std::string title, text;
  bool strong = false;   // the answer itself
  std::string key = "";  // key in JSON
  bool code = false;     // lines of a file
};

// Single values, one per line; the column's heading names the value.
struct Value {
  Column what;
  Json value;
};
struct Values {
  std::string title;
  std::vector<Value> values;
};

// A drawing in ASCII characters, or an SVG in a page. Lines are not folded; lines that are too wide
// are split into parts.
struct Picture {
  std::string lines;
};

// Data for programs, only in JSON.
struct Data {
  std::string key;
  Json value;
};

struct Rows {
  std::string name;  // name for charts and key in JSON, or `whole`
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<Json>> cells;  // rows with one cell per column
  bool searched = false;                 // long table that readers filter; not in text
  std::string footnote = "";             // below the table
};

// A line across a chart: y or x at a value, or y = slope x.
struct Rule {
  enum class Kind { x, y, slope };
  Kind kind = Kind::y;
  double at = 0;
  std::string label;
  std::string group = "";  // drawn only beside this group of the chart; "": always
};

// A chart with one mark per row of a table (`points`, with `low` and `high` as an interval), lines
// over x, or stacked areas or bars.
struct Series {
  enum class Kind { points, lines, areas, bars };
  Kind kind = Kind::points;
  std::string title, table;
  std::string x;                   // column
  std::vector<std::string> y;      // columns; points have one
  std::string group;               // column whose values distinguish marks; "" if all are equal
  std::string label;               // column with names of marks
  std::string low, high;           // columns of an interval around y
  std::vector<std::string> fixed;  // y columns drawn as lines in a chart of areas: reserved memory
  std::vector<Rule> rules;
  bool front = false;  // connect the Pareto front: less x, more y
};

// Bars along a time axis, in lanes.
struct TimelineChart {
  std::string title, table;
  std::string lane, begin, end;  // columns; begin and end in the same unit
  std::string kind, label;       // columns for colour and label
  std::string axis = "seconds of the step";
  double first = 0;  // the chart opens on the axis up to here; 0: all of it
};

// A heatmap: the best value of all rows with the same x and y. Readers choose the columns.
struct Heatmap {
  std::string title, table;
  std::vector<std::string> axes;    // columns; the first two are shown first
  std::vector<std::string> values;  // columns; the first one is shown first
  std::string outcome;  // column with "fits", "oom", "impossible"; cells without a fit are hatched
};

using Block = std::variant<Note, Rows, Series, TimelineChart, Heatmap, Values, Picture, Data>;

// A table or data with this name is the complete JSON result.
inline constexpr const char* whole = ".";

struct Document {
  std::string title, subtitle;
  std::vector<std::string> filters;  // columns by which readers filter all charts
  std::vector<Block> blocks;

  const Rows* table(const std::string& name) const;
};

// The cell as text; "" for null.
std::string cell_text(const Column& column, const Json& cell);

// A value with its key, heading, unit and format.
Value value(std::string key, std::string words, Json value, std::string unit = "", int digits = 2);

// The document as text for a terminal: notes, values and tables, separated by blank lines. Charts
// and searched tables are left out.
std::string text(const Document& document);
// The JSON of --json: an object of the values, notes and tables with keys, in order.
Json result(Document document);
// One row as a JSON object.
Json to_json(const std::vector<Column>& columns, std::vector<Json> cells);
// The table as an array of JSON objects.
Json to_json(Rows table);
std::string csv(const Rows& table);
// The document for the HTML page, without values and data; tables are stored by column.
Json to_json(const Document& document);

}  // namespace sim::output
