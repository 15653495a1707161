// cases.h — a file of cases, texts and what comes of each:
//
//     === a few words
//     the text
//     ---
//     what comes of it
//
// REHEARSE_UPDATE=1 writes what came into the file instead; look at the difference before
// committing it.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

namespace cases {

// `made` of each text of the file, which lies in the repository.
inline void hold(const std::string& file,
                 const std::function<std::string(const std::string&)>& made) {
  const std::string path = std::string(REHEARSE_SOURCE_DIR) + "/" + file;
  std::ifstream in(path);
  REQUIRE(in);
  std::string now, title, text, expected;
  bool behind = false;
  int count = 0;
  const auto close = [&] {
    if (title.empty()) return;
    ++count;
    std::string is = made(text);
    if (!is.empty() && is.back() != '\n') is += '\n';
    INFO(title << "\n" << text);
    if (std::getenv("REHEARSE_UPDATE") == nullptr) CHECK(is == expected);
    now += title + "\n" + text + "---\n" + is;
    title.clear(), text.clear(), expected.clear();
    behind = false;
  };
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("=== ", 0) == 0) {
      close();
      title = line;
    } else if (title.empty()) {
      now += line + "\n";
    } else if (line == "---") {
      behind = true;
    } else {
      (behind ? expected : text) += line + "\n";
    }
  }
  close();
  CHECK(count > 0);
  if (std::getenv("REHEARSE_UPDATE") != nullptr) std::ofstream(path) << now;
}

}  // namespace cases
