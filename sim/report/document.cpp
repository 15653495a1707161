#include "sim/report/document.h"

#include <fmt/format.h>

#include <cassert>
#include <map>

#include "sim/report/csv.h"
#include "sim/report/table.h"

namespace sim::report {

namespace {

// A column of few words as the words and who has which: long tables repeat themselves.
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

Json values_json(const Rows& table, std::size_t column) {
  Json values = Json::array();
  bool words = table.cells.size() >= words_least;
  for (const auto& row : table.cells) {
    words = words && row[column].is_string();
    values.push_back(row[column]);
  }
  if (!words) return {{"values", std::move(values)}};
  std::map<std::string, std::size_t> numbers;
  Json list = Json::array();
  Json codes = Json::array();
  for (const Json& value : values) {
    const auto [there, is_new] = numbers.try_emplace(value.get<std::string>(), numbers.size());
    if (is_new) list.push_back(value);
    codes.push_back(there->second);
  }
  if (list.size() * 2 > values.size()) return {{"values", std::move(values)}};
  return {{"words", std::move(list)}, {"codes", std::move(codes)}};
}

Json block_json(const Note& note) {
  return {{"kind", "note"}, {"title", note.title}, {"text", note.text}, {"strong", note.strong}};
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

Json block_json(const Timeline& timeline) {
  return {{"kind", "timeline"},     {"title", timeline.title}, {"table", timeline.table},
          {"lane", timeline.lane},  {"begin", timeline.begin}, {"end", timeline.end},
          {"group", timeline.kind}, {"label", timeline.label}, {"axis", timeline.axis}};
}

Json block_json(const Heatmap& map) {
  return {{"kind", "heatmap"}, {"title", map.title},   {"table", map.table},
          {"axes", map.axes},  {"values", map.values}, {"outcome", map.outcome}};
}

std::string block_text(const Note& note) {
  const std::string text =
      note.text.empty() || note.text.back() == '\n' ? note.text : note.text + "\n";
  return note.title.empty() ? text : note.title + "\n" + text;
}

std::string block_text(const Rows& rows) {
  std::vector<std::string> headings;
  for (const Column& column : rows.columns) {
    headings.push_back((column.left ? "<" : "") + column.heading +
                       (column.unit.empty() ? "" : " " + column.unit));
  }
  Table table(headings);
  for (const auto& cells : rows.cells) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < cells.size(); ++i)
      texts.push_back(cell_text(rows.columns[i], cells[i]));
    table.row(std::move(texts));
  }
  return (rows.title.empty() ? "" : rows.title + "\n") + table.text() + rows.footnote;
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
  if (cell.is_number_integer()) {
    return fmt::format("{}{}", cell.get<std::int64_t>(), column.suffix);
  }
  if (cell.is_number()) {
    return fmt::format("{:.{}f}{}", cell.get<double>(), column.digits, column.suffix);
  }
  return line(cell);
}

std::string text(const Document& document) {
  std::string all;
  for (const Block& block : document.blocks) {
    const auto* note = std::get_if<Note>(&block);
    const auto* rows = std::get_if<Rows>(&block);
    if (note == nullptr && (rows == nullptr || rows->searched)) continue;
    if (!all.empty()) all += "\n";
    all += note != nullptr ? block_text(*note) : block_text(*rows);
  }
  return all;
}

Json to_json(const Rows& table) {
  Json all = Json::array();
  for (const auto& cells : table.cells) {
    assert(cells.size() == table.columns.size());
    Json row = Json::object();
    for (std::size_t i = 0; i < cells.size(); ++i) row[table.columns[i].key] = cells[i];
    all.push_back(std::move(row));
  }
  return all;
}

std::string csv(const Rows& table) {
  std::vector<std::string> fields;
  for (const Column& column : table.columns) fields.push_back(column.key);
  std::string all = csv_line(fields);
  for (const auto& cells : table.cells) {
    fields.clear();
    for (const Json& cell : cells) {
      fields.push_back(cell.is_null()     ? ""
                       : cell.is_string() ? cell.get<std::string>()
                                          : line(cell));
    }
    all += csv_line(fields);
  }
  return all;
}

Json to_json(const Document& document) {
  Json blocks = Json::array();
  for (const Block& block : document.blocks) {
    blocks.push_back(std::visit([](const auto& one) { return block_json(one); }, block));
  }
  return {{"title", document.title},
          {"subtitle", document.subtitle},
          {"filters", document.filters},
          {"version", version()},
          {"blocks", std::move(blocks)}};
}

}  // namespace sim::report
