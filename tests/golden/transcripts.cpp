// transcripts.cpp — do the documents still tell the truth? Every block
//
//     ```console
//     $ ./rehearse list schedules
//     its output
//     ```
//
// of a README is run, and what it prints must be what stands there. REHEARSE_UPDATE=1 writes what
// was printed into the document instead; look at the difference before committing it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "tests/golden/program.h"

namespace {

namespace fs = std::filesystem;

// A command with the text that follows it, or a stretch of the document between commands.
struct Piece {
  std::string command;  // "": prose
  std::string text;
};

std::vector<Piece> split(const std::string& document) {
  std::vector<Piece> pieces(1);
  std::istringstream lines(document);
  bool console = false;
  for (std::string line; std::getline(lines, line);) {
    const bool fence = line.rfind("```", 0) == 0;
    if (fence && console) pieces.emplace_back();
    if (console && !fence && line.rfind("$ ", 0) == 0) {
      pieces.push_back({line.substr(2), ""});
      continue;
    }
    pieces.back().text += line + "\n";
    if (fence) console = !console && line == "```console";
  }
  return pieces;
}

std::string join(const std::vector<Piece>& pieces) {
  std::string document;
  for (const Piece& piece : pieces) {
    if (!piece.command.empty()) document += "$ " + piece.command + "\n";
    document += piece.text;
  }
  return document;
}

void hold_to_its_word(const fs::path& path) {
  INFO(path.string());
  const std::string document = golden::text_of(path.string());
  std::vector<Piece> pieces = split(document);
  REQUIRE(join(pieces) == document);
  const bool update = std::getenv("REHEARSE_UPDATE") != nullptr;
  const std::string folder = golden::scratch("transcript");
  for (Piece& piece : pieces) {
    if (piece.command.empty()) continue;
    INFO("$ " << piece.command);
    const golden::Finished finished = golden::run(piece.command, folder);
    if (update) {
      piece.text = finished.out;
    } else {
      CHECK(finished.out == piece.text);
    }
    INFO(finished.err);
    CHECK((finished.code == 0 || finished.code == 2));
  }
  if (update) golden::write(path.string(), join(pieces));
}

}  // namespace

TEST_CASE("golden: every command of the READMEs prints what they show") {
  const fs::path root = REHEARSE_SOURCE_DIR;
  std::vector<fs::path> documents = {root / "README.md"};
  for (const char* folder : {"sim", "results", "workloads", "topologies", "models"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().filename() == "README.md") documents.push_back(entry.path());
    }
  }
  std::sort(documents.begin(), documents.end());
  for (const fs::path& document : documents) hold_to_its_word(document);
}
