// documents.cpp — whole outputs of commands, compared with the files that documents.txt names.
// REHEARSE_UPDATE=1 writes them anew; review the difference.
#include <fstream>
#include <sstream>

#include "tests/golden/program.h"
#include "tests/picture.h"

namespace {

// The folder of the sources differs between machines and is replaced.
std::string without_place(std::string text) {
  const std::string place = std::string(REHEARSE_SOURCE_DIR) + "/";
  for (std::size_t at = 0; (at = text.find(place, at)) != text.npos;) text.erase(at, place.size());
  return text;
}

}  // namespace

TEST_CASE("golden: documents are as they were") {
  std::ifstream table(REHEARSE_SOURCE_DIR "/tests/golden/documents.txt");
  REQUIRE(table.good());
  int count = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    std::string name, command;
    words >> name >> std::ws;
    std::getline(words, command);
    const std::string folder = golden::scratch("documents");
    std::filesystem::create_directory_symlink(REHEARSE_SOURCE_DIR "/tests", folder + "/tests");
    const golden::Finished made = golden::run(command, folder);
    INFO(command << "\n" << made.err);
    picture::same("golden/documents/" + name, without_place(made.out));
    ++count;
  }
  CHECK(count > 30);
}
