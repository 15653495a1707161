// import_text.h — splits printed text into lines, words and numbers, for the importers.
//
// The importers of nvidia-smi, Slurm and ibnetdiscover output use it. A word is text between
// blanks.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace sim::input {

inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

inline std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = line.find_first_not_of(" \t", at);
    if (begin == std::string_view::npos) break;
    at = std::min(line.find_first_of(" \t", begin), line.size());
    words.push_back(line.substr(begin, at - begin));
  }
  return words;
}

// The text as a whole number of 0 or more; -1 if it is none.
inline int number_of(std::string_view text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? value : -1;
}

// "path:line" for a diagnostic; `line` counts from 0.
inline std::string at_line(const std::string& path, std::size_t line) {
  return fmt::format("{}:{}", path, line + 1);
}

// At most 60 characters of a word, for messages.
inline std::string shown(std::string_view text) {
  return std::string(text.substr(0, 60));
}

}  // namespace sim::input
