#include "sim/output/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <sstream>

#include "sim/base/plain_number.h"
#include "sim/base/text.h"
#include "sim/output/csv.h"
#include "sim/output/glossary.h"
#include "sim/output/table.h"

namespace sim::output {

namespace {

// Encodes a long text column as a list of distinct words and their indices.
constexpr std::size_t words_least = 16;

const char* name(Series::Kind kind) {
  switch (kind) {
    case Series::Kind::points:
      return "points";
    case Series::Kind::lines:
      return "lines";
    case Series::Kind::areas:
      return "areas";
    case Series::Kind::bars:
      break;
  }
  return "bars";
}

const char* name(Rule::Kind kind) {
  switch (kind) {
    case Rule::Kind::x:
      return "x";
    case Rule::Kind::y:
      return "y";
    case Rule::Kind::slope:
      break;
  }
  return "slope";
}

// Values under `key`; where most repeat the value before, as [value, count, value, count ...] under
// `key`_runs, which is shorter.
Json packed(const std::string& key, Json values) {
  Json runs = Json::array();
  for (const Json& value : values) {
    const std::size_t n = runs.size();
    if (n > 0 && runs[n - 2] == value) {
      runs[n - 1] = runs[n - 1].get<std::size_t>() + 1;
    } else {
      runs.push_back(value);
      runs.push_back(1);
    }
  }
  if (values.size() < words_least || runs.size() >= values.size())
    return {{key, std::move(values)}};
  return {{key + "_runs", std::move(runs)}};
}

Json values_json(const Rows& table, std::size_t column) {
  Json values = Json::array();
  bool words = table.cells.size() >= words_least;
  for (const auto& row : table.cells) {
    words = words && row[column].is_string();
    values.push_back(row[column]);
  }
  if (!words) return packed("values", std::move(values));
  std::map<std::string, std::size_t> numbers;
  Json list = Json::array();
  Json codes = Json::array();
  for (const Json& value : values) {
    const auto [there, is_new] = numbers.try_emplace(value.get<std::string>(), numbers.size());
    if (is_new) list.push_back(value);
    codes.push_back(there->second);
  }
  if (list.size() * 2 > values.size()) return {{"values", std::move(values)}};
  Json json = {{"words", std::move(list)}};
  json.update(packed("codes", std::move(codes)));
  return json;
}

Json block_json(const Note& note) {
  return {{"kind", "note"},
          {"title", note.title},
          {"text", note.text},
          {"strong", note.strong},
          {"code", note.code}};
}

Json block_json(const Rows& table) {
  Json columns = Json::array();
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    Json json = {{"key", column.key},
                 {"heading", column.heading},
                 {"unit", column.unit},
                 {"digits", column.digits},
                 {"left", column.left}};
    json.update(values_json(table, i));
    columns.push_back(std::move(json));
  }
  return {{"kind", "table"},
          {"name", table.name},
          {"title", table.title},
          {"searched", table.searched},
          {"footnote", table.footnote},
          {"rows", table.cells.size()},
          {"columns", std::move(columns)}};
}

Json block_json(const Series& series) {
  Json rules = Json::array();
  for (const Rule& rule : series.rules) {
    rules.push_back({{"kind", name(rule.kind)}, {"at", rule.at}, {"label", rule.label}});
    if (!rule.group.empty()) rules.back()["group"] = rule.group;
  }
  return {{"kind", name(series.kind)},
          {"title", series.title},
          {"table", series.table},
          {"x", series.x},
          {"y", series.y},
          {"group", series.group},
          {"label", series.label},
          {"low", series.low},
          {"high", series.high},
          {"fixed", series.fixed},
          {"rules", rules},
          {"front", series.front}};
}

Json block_json(const TimelineChart& timeline) {
  return {{"kind", "timeline"},     {"title", timeline.title}, {"table", timeline.table},
          {"lane", timeline.lane},  {"begin", timeline.begin}, {"end", timeline.end},
          {"group", timeline.kind}, {"label", timeline.label}, {"axis", timeline.axis},
          {"first", timeline.first}};
}

Json block_json(const Heatmap& map) {
  return {{"kind", "heatmap"}, {"title", map.title},   {"table", map.table},
          {"axes", map.axes},  {"values", map.values}, {"outcome", map.outcome}};
}

// The page has no values, ASCII drawings and data, but it has SVG drawings.
Json block_json(const Values&) {
  return nullptr;
}

Json block_json(const Picture& picture) {
  if (!picture.lines.starts_with("<svg ")) return nullptr;
  return {{"kind", "drawing"}, {"title", "how busy the links are"}, {"svg", picture.lines}};
}

Json block_json(const Data&) {
  return nullptr;
}

std::string block_text(const Note& note) {
  const std::string text =
      note.text.empty() || note.text.back() == '\n' ? note.text : note.text + "\n";
  return note.title.empty() ? text : note.title + "\n" + text;
}

std::string block_text(const Rows& rows) {
  std::vector<std::size_t> shown;
  std::vector<std::string> headings;
  for (std::size_t i = 0; i < rows.columns.size(); ++i) {
    const Column& column = rows.columns[i];
    if (column.heading.empty() && !column.key.empty()) continue;
    shown.push_back(i);
    headings.push_back((column.left ? "<" : "") + column.heading +
                       (column.unit.empty() ? "" : " " + column.unit));
  }
  Table table(headings);
  for (const auto& cells : rows.cells) {
    std::vector<std::string> texts;
    for (const std::size_t i : shown) texts.push_back(cell_text(rows.columns[i], cells[i]));
    table.row(std::move(texts));
  }
  return (rows.title.empty() ? "" : rows.title + "\n") + table.text() + rows.footnote;
}

std::string block_text(const Values& values) {
  std::size_t widest = 0;
  for (const Value& one : values.values) widest = std::max(widest, width(one.what.heading));
  std::string text = values.title.empty() ? "" : values.title + "\n";
  for (const auto& [what, cell] : values.values) {
    if (what.heading.empty()) continue;
    text += fmt::format("  {}{}  {}{}\n", what.heading,
                        std::string(widest - width(what.heading), ' '), cell_text(what, cell),
                        what.unit.empty() || cell.is_null() ? "" : " " + what.unit);
  }
  return text;
}

// Splits a picture that is wider than a line into parts, one below the other.
std::string block_text(const Picture& picture) {
  const std::size_t most = line_width();
  std::vector<std::string> rows;
  std::istringstream lines(picture.lines);
  for (std::string row; std::getline(lines, row);) rows.push_back(std::move(row));
  std::size_t columns = 0;
  for (const std::string& row : rows) columns = std::max(columns, row.size());
  if (most == 0 || columns <= most) return picture.lines;
  std::string text;
  for (std::size_t from = 0; from < columns; from += most) {
    text += fmt::format("{}columns {} to {}\n", from == 0 ? "" : "\n", from + 1,
                        std::min(from + most, columns));
    for (const std::string& row : rows) {
      const std::string part = from < row.size() ? row.substr(from, most) : "";
      text += part.substr(0, part.find_last_not_of(' ') + 1) + "\n";
    }
  }
  return text;
}

// Charts and data have no text.
template <class Other>
std::string block_text(const Other&) {
  return "";
}

std::string number_text(const Column& column, double value) {
  value *= column.scale;
  switch (column.show) {
    case Show::general:
      return plain_number(value, column.digits);
    case Show::change:
      return fmt::format("{:+.{}f}", value, column.digits);
    case Show::bytes:
      return human(Bytes{static_cast<std::int64_t>(value)});
    case Show::fixed:
      break;
  }
  return fmt::format("{:.{}f}", value, column.digits);
}

}  // namespace

const Rows* Document::table(const std::string& wanted) const {
  for (const Block& block : blocks) {
    const Rows* rows = std::get_if<Rows>(&block);
    if (rows != nullptr && rows->name == wanted) return rows;
  }
  return nullptr;
}

std::string cell_text(const Column& column, const Json& cell) {
  if (cell.is_null()) return "";
  if (cell.is_string()) return cell.get<std::string>();
  if (cell.is_boolean()) return cell.get<bool>() ? "yes" : "no";
  if (cell.is_number_integer() && column.scale == 1 && column.show == Show::fixed) {
    return fmt::format("{}{}", cell.get<std::int64_t>(), column.suffix);
  }
  if (cell.is_number()) return number_text(column, cell.get<double>()) + column.suffix;
  if (cell.is_array()) {  // an array of words is a list
    std::string words;
    for (const Json& one : cell)
      words += (words.empty() ? "" : ", ") + cell_text({"", "", "", column.digits}, one);
    return words;
  }
  return line(cell);
}

Value value(std::string key, std::string words, Json value, std::string unit, int digits) {
  return {{.key = std::move(key),
           .heading = std::move(words),
           .unit = std::move(unit),
           .digits = digits},
          std::move(value)};
}

std::string text(const Document& document) {
  std::string all;
  for (const Block& block : document.blocks) {
    const auto* rows = std::get_if<Rows>(&block);
    if (rows != nullptr && rows->searched) continue;
    const std::string one = std::visit([](const auto& any) { return block_text(any); }, block);
    if (one.empty()) continue;
    if (!all.empty()) all += "\n";
    // Lines of a file are pasted as they are.
    const auto* note = std::get_if<Note>(&block);
    const bool as_is = std::holds_alternative<Picture>(block) || (note != nullptr && note->code);
    all += as_is ? one : fold_lines(one);
  }
  return all;
}

Json result(Document document) {
  Json json = Json::object();
  for (Block& block : document.blocks) {
    if (auto* note = std::get_if<Note>(&block); note != nullptr && !note->key.empty())
      json[note->key] = std::move(note->text);
    auto* data = std::get_if<Data>(&block);
    if (data != nullptr && data->key == whole) return std::move(data->value);
    if (data != nullptr) json[data->key] = std::move(data->value);
    if (auto* values = std::get_if<Values>(&block)) {
      for (auto& [what, cell] : values->values)
        if (!what.key.empty()) json[what.key] = std::move(cell);
    }
    auto* rows = std::get_if<Rows>(&block);
    if (rows == nullptr || rows->name.empty()) continue;
    if (rows->name == whole) return to_json(std::move(*rows));
    const std::string name = rows->name;  // the right side is evaluated first
    json[name] = to_json(std::move(*rows));
  }
  return json;
}

Json to_json(const std::vector<Column>& columns, std::vector<Json> cells) {
  assert(cells.size() == columns.size());
  Json row = Json::object();
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (!columns[i].key.empty()) row[columns[i].key] = std::move(cells[i]);
  return row;
}

Json to_json(Rows table) {
  Json all = Json::array();
  for (auto& cells : table.cells) all.push_back(to_json(table.columns, std::move(cells)));
  return all;
}

std::string csv(const Rows& table) {
  std::vector<std::string> fields;
  for (const Column& column : table.columns)
    if (!column.key.empty()) fields.push_back(column.key);
  std::string all = csv_line(fields);
  for (const auto& cells : table.cells) {
    fields.clear();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Json& cell = cells[i];
      if (table.columns[i].key.empty()) continue;
      fields.push_back(cell.is_null()     ? ""
                       : cell.is_string() ? cell.get<std::string>()
                                          : line(cell));
    }
    all += csv_line(fields);
  }
  return all;
}

namespace {

// Glossary terms in headings, which the page shows as tooltips.
Json glossary_json(const Document& document) {
  std::string headings;
  const auto add = [&](const auto& block) {
    if constexpr (requires { block.title; }) headings += block.title + '\n';
    if constexpr (requires { block.columns; })
      for (const Column& column : block.columns) headings += column.heading + '\n';
  };
  for (const Block& block : document.blocks) std::visit(add, block);
  Json terms = Json::array();
  for (const Term* term : terms_in(headings)) terms.push_back({term->name, term->line});
  return terms;
}

}  // namespace

Json to_json(const Document& document) {
  Json blocks = Json::array();
  for (const Block& block : document.blocks) {
    Json one = std::visit([](const auto& any) { return block_json(any); }, block);
    if (!one.is_null()) blocks.push_back(std::move(one));
  }
  return {{"title", document.title},
          {"subtitle", document.subtitle},
          {"filters", document.filters},
          {"version", version()},
          {"glossary", glossary_json(document)},
          {"blocks", std::move(blocks)}};
}

}  // namespace sim::output
