// support.h — what the tests of this room share: files, comma-separated tables.
#pragma once

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

inline std::string memory_test_path(const std::string& name) {
  return std::string(REHEARSE_SOURCE_DIR) + "/tests/allocator/" + name;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != separator) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

// Rows by column name. No quoting: the tables here need none.
inline std::vector<std::map<std::string, std::string>> read_table(const std::string& path) {
  std::vector<std::map<std::string, std::string>> rows;
  std::vector<std::string> header;
  for (const std::string& line : split(read_file(path), '\n')) {
    if (line.empty()) continue;
    const std::vector<std::string> fields = split(line, ',');
    if (header.empty()) {
      header = fields;
      continue;
    }
    std::map<std::string, std::string>& row = rows.emplace_back();
    for (std::size_t i = 0; i < header.size() && i < fields.size(); ++i) row[header[i]] = fields[i];
  }
  return rows;
}
