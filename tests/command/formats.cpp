// formats.cpp — the fields, columns and readers in sim/formats.md agree with the tables of the
// program. REHEARSE_UPDATE=1 writes the generated parts anew.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include "sim/calibrate/readers/reader.h"
#include "sim/command/common/field_values.h"
#include "sim/output/record.h"

using namespace sim;
using namespace sim::command;

namespace {

// The text of a Markdown table cell, with '|' escaped.
std::string cell(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '|' ? "\\|" : std::string(1, c);
  return safe;
}

std::string fields(const std::string& of) {
  std::string text = "| field | type | default | what it is |\n|---|---|---|---|\n";
  for (const FieldEntry& entry : all_fields()) {
    if (entry.of != of) continue;
    const input::FieldText& field = entry.text;
    text += fmt::format("| `{}` | {}{} | {} | {} |\n", field.name, cell(field.type),
                        field.unit.empty() ? "" : ", " + field.unit, cell(field.otherwise),
                        cell(field.line));
  }
  return text;
}

// The fields of blocks in lists.
std::string block_fields() {
  std::string text = "| field | type | default | what it is |\n|---|---|---|---|\n";
  for (const input::Field& row : input::cluster_block_fields()) {
    const input::FieldText field = input::cluster_field_text(row);
    text += fmt::format("| `{}` | {}{} | {} | {} |\n", field.name, cell(field.type),
                        field.unit.empty() ? "" : ", " + field.unit, cell(field.otherwise),
                        cell(field.line));
  }
  return text;
}

std::string record_columns() {
  std::string text = "| column | unit | what |\n|---|---|---|\n";
  for (const output::Column& column : output::record_columns())
    text += fmt::format("| `{}` | {} | {} |\n", column.key, column.unit, column.heading);
  return text;
}

std::string readers() {
  std::string text = "| format | what it holds | described in |\n|---|---|---|\n";
  for (const calibrate::Reader& reader : calibrate::readers())
    text += fmt::format("| {} | {} | {} |\n", reader.name, cell(std::string(reader.summary)),
                        cell(std::string(reader.source)));
  return text;
}

const std::map<std::string, std::function<std::string()>>& parts() {
  static const std::map<std::string, std::function<std::string()>> all = {
      {"fields of a plan", [] { return fields("plan"); }},
      {"fields of a cluster", [] { return fields("cluster"); }},
      {"fields of blocks in lists", block_fields},
      {"columns of results.csv", record_columns},
      {"readers", readers},
  };
  return all;
}

std::string begin_of(const std::string& part) {
  return "<!-- generated: " + part + " -->\n";
}
constexpr const char* end_mark = "<!-- end -->\n";

// The document with every generated part replaced by the program's text.
std::string filled(std::string document) {
  for (const auto& [part, text] : parts()) {
    INFO(part);
    const std::size_t begin = document.find(begin_of(part));
    REQUIRE(begin != std::string::npos);
    const std::size_t from = begin + begin_of(part).size();
    const std::size_t to = document.find(end_mark, from);
    REQUIRE(to != std::string::npos);
    document.replace(from, to - from, text());
  }
  return document;
}

}  // namespace

TEST_CASE("command: the generated parts of sim/formats.md are those of the program's tables") {
  const std::string path = std::string(REHEARSE_SOURCE_DIR) + "/sim/formats.md";
  std::stringstream read;
  read << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string expected = filled(read.str());
  if (std::getenv("REHEARSE_UPDATE") != nullptr)
    std::ofstream(path, std::ios::binary) << expected;
  else
    CHECK(read.str() == expected);
}

TEST_CASE("command: sim/formats.md names every command's document") {
  std::stringstream read;
  read << std::ifstream(std::string(REHEARSE_SOURCE_DIR) + "/sim/formats.md").rdbuf();
  for (const char* document : {"run",
                               "explain",
                               "sweep",
                               "whatif",
                               "schedule",
                               "campaign",
                               "campaign-variants",
                               "topo",
                               "topo-time",
                               "topo-packets",
                               "topo-place",
                               "topo-export",
                               "topo-import",
                               "written",
                               "memory_estimate",
                               "memory_replay",
                               "calibrate",
                               "validate",
                               "compare",
                               "doc",
                               "list",
                               "check",
                               "error",
                               "shard"}) {
    INFO(document);
    CHECK(read.str().find(fmt::format("`rehearse/{}/", document)) != std::string::npos);
  }
}
