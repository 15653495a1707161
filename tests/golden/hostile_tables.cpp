// hostile_tables.cpp — a cell of a measured table that is no sensible number is refused or counted,
// in any column of any table.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/golden/program.h"

namespace {

namespace fs = std::filesystem;

// A line of a table as its cells, quoted ones with their quotes.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted)
      cells.emplace_back();
    else
      cells.back() += c;
  }
  return cells;
}

std::string joined(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : ",") + cell;
  return line + "\n";
}

}  // namespace

TEST_CASE("golden: numbers that none can be, in any column of any table, are no crash") {
  const std::string folder = golden::scratch("hostile-tables");
  for (const auto& entry : fs::directory_iterator(REHEARSE_SOURCE_DIR "/calibration/measured")) {
    if (entry.path().extension() != ".csv") continue;
    std::ifstream in(entry.path());
    std::string header, first;
    std::getline(in, header);
    std::getline(in, first);
    const std::vector<std::string> cells = cells_of(first);
    for (const char* hostile : {"nan", "inf", "-1", "0", "1e300"}) {
      std::string text = header + "\n";
      for (std::size_t column = 0; column < cells.size(); ++column) {
        std::vector<std::string> changed = cells;
        changed[column] = hostile;
        text += joined(changed);
      }
      golden::write(folder + "/table.csv", text);
      const golden::Finished finished = golden::run("./rehearse validate table.csv -q", folder);
      INFO(entry.path().filename() << " with " << hostile << "\n" << finished.err);
      CHECK((finished.code == 0 || finished.code == 2 || finished.code == 65));
    }
  }
}
