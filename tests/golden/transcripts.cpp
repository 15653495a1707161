// transcripts.cpp — every command in a README prints the output shown there. Every block
//
//    ```console
//    $ ./rehearse list schedules
//    its output
//    ```
//
// of a README is run, and its output must equal the text in the block. REHEARSE_UPDATE=1 writes the
// output into the document instead; review the difference before committing it. Without the Python
// module the commands that need it are left out.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "tests/golden/program.h"

namespace {

namespace fs = std::filesystem;

// A command and the text after it, or a part of the document between commands.
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
      while (pieces.back().command.ends_with('\\') && std::getline(lines, line))
        pieces.back().command += "\n" + line;
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

void hold_to_its_word(const fs::path& path, const std::string& name) {
  const std::string document = golden::text_of(path.string());
  std::vector<Piece> pieces = split(document);
  REQUIRE(join(pieces) == document);
  const bool update = std::getenv("REHEARSE_UPDATE") != nullptr;
  std::string folder_name = "transcript-" + name;
  std::ranges::replace(folder_name, '/', '-');
  const std::string folder = golden::scratch(folder_name);
  const auto in_python = [](const std::string& text) {
    return text.find("PYTHONPATH=") != std::string::npos;
  };
  const bool python = !in_python(document) || golden::has_python(folder);
  for (Piece& piece : pieces) {
    if (piece.command.empty() || (!python && in_python(piece.command))) continue;
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

// One README as a test.
class Document : public Catch::ITestInvoker {
 public:
  Document(fs::path path, std::string name) : path_(std::move(path)), name_(std::move(name)) {}
  void invoke() const override { hold_to_its_word(path_, name_); }

 private:
  fs::path path_;
  std::string name_;
};

std::vector<fs::path> documents() {
  const fs::path root = REHEARSE_SOURCE_DIR;
  std::vector<fs::path> found = {root / "README.md"};
  for (const char* folder :
       {"sim", "results", "workloads", "topologies", "models", "calibration"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().filename() == "README.md") found.push_back(entry.path());
    }
  }
  std::erase_if(found, [](const fs::path& path) {
    return golden::text_of(path.string()).find("```console\n$ ") == std::string::npos;
  });
  std::sort(found.begin(), found.end());
  return found;
}

// Registers one test for each README that shows a command, by the name under which ctest lists it.
struct Register {
  Register() {
    for (const fs::path& path : documents()) {
      const std::string name = path.lexically_relative(REHEARSE_SOURCE_DIR).generic_string();
      Catch::AutoReg(
          new Document(path, name), CATCH_INTERNAL_LINEINFO, "",
          Catch::NameAndTags("golden: every command of " + name + " prints what it shows"));
    }
  }
};
const Register registered;

}  // namespace

TEST_CASE("golden: there are READMEs that show commands") {
  CHECK(documents().size() >= 10);
}
