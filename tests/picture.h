// picture.h — what is drawn or printed, held to a file beside the test. REHEARSE_UPDATE=1 writes it
// anew; what it then shows is for eyes to check.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace picture {

// How often the part is in the text, without overlaps.
inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++found;
  return found;
}

// `file`: below tests/, "cluster/topology/pictures/two-nodes.svg".
inline void same(const std::string& file, const std::string& drawn) {
  const std::filesystem::path path = std::filesystem::path(REHEARSE_SOURCE_DIR) / "tests" / file;
  if (std::getenv("REHEARSE_UPDATE") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << drawn;
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream known;
  known << in.rdbuf();
  INFO(file << " is not as it was; REHEARSE_UPDATE=1 writes it anew");
  CHECK(known.str() == drawn);
}

}  // namespace picture
