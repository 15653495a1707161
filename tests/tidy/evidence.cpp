// evidence.cpp — how much does each published comparison prove? Every page of results/ begins with
// a table of its evidence, and the tables of results/README.md repeat its verdict.
#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

const fs::path root = REHEARSE_SOURCE_DIR;

// The rows of the table, in this order.
constexpr std::array<const char*, 6> asked = {"The source measured",
                                              "The source states",
                                              "We chose, and why",
                                              "Fitted or chosen : compared",
                                              "Range",
                                              "Verdict"};

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// "| a | b |" -> {"a", "b"}.
std::vector<std::string> cells(const std::string& row) {
  std::vector<std::string> found;
  if (row.empty() || row.front() != '|') return found;
  std::size_t begin = 1;
  for (std::size_t end; (end = row.find('|', begin)) != std::string::npos; begin = end + 1) {
    const std::size_t first = row.find_first_not_of(' ', begin);
    const std::size_t last = row.find_last_not_of(' ', end - 1);
    found.push_back(first < end && last >= first ? row.substr(first, last - first + 1) : "");
  }
  return found;
}

bool is_verdict(const std::string& text) {
  return text == "checked" || text == "consistent" || text == "shown only";
}

// Folder of results/ -> its verdict; checks the table that the page begins with.
std::map<std::string, std::string> verdicts() {
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::directory_iterator(root / "results")) {
    if (!entry.is_directory()) continue;
    const std::string folder = entry.path().filename().string();
    INFO("results/" << folder << "/README.md");
    const std::vector<std::string> lines = lines_of(entry.path() / "README.md");
    REQUIRE(lines.size() > 4 + asked.size());
    CHECK(lines[0].rfind("# ", 0) == 0);
    CHECK(lines[2] == "| Evidence | |");
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const std::vector<std::string> row = cells(lines[4 + i]);
      INFO(lines[4 + i]);
      REQUIRE(row.size() == 2);
      CHECK(row[0] == asked[i]);
      CHECK(!row[1].empty());
      if (i == 1) {
        INFO("write what was read of the source: 'Read: ...' or 'Not read: ...'");
        CHECK(std::regex_search(row[1], std::regex("[Rr]ead( for this box)?: ")));
      }
    }
    std::string verdict = cells(lines[4 + asked.size() - 1])[1];
    std::erase(verdict, '*');
    INFO("verdict '" << verdict << "': write checked, consistent or shown only");
    CHECK(is_verdict(verdict));
    found[folder] = verdict;
  }
  return found;
}

// Folder -> verdicts, of the table of results/README.md with this first heading. Its last column is
// the verdict.
std::map<std::string, std::vector<std::string>> table(const std::string& heading) {
  std::map<std::string, std::vector<std::string>> found;
  const std::regex link(R"(\]\(([\w-]+)\))");
  bool in_table = false;
  for (const std::string& line : lines_of(root / "results/README.md")) {
    const std::vector<std::string> row = cells(line);
    if (row.empty()) {
      in_table = false;
      continue;
    }
    if (row.front() == heading && row.back() == "verdict") in_table = true;
    std::smatch at;
    if (in_table && std::regex_search(line, at, link)) found[at[1]].push_back(row.back());
  }
  return found;
}

}  // namespace

TEST_CASE("tidy: every page of results begins with its evidence, and the tables repeat it") {
  const std::map<std::string, std::string> pages = verdicts();
  CHECK(pages.size() >= 30);
  CHECK(std::ranges::count_if(pages, [](const auto& page) { return page.second == "checked"; }) >=
        8);
  const auto all = table("page");
  for (const auto& [folder, verdict] : pages) {
    INFO("results/README.md lists results/" << folder << " once, as '" << verdict << "'");
    REQUIRE(all.count(folder) == 1);
    CHECK(all.at(folder) == std::vector<std::string>{verdict});
  }
  CHECK(all.size() == pages.size());
  const auto systems = table("system");
  CHECK(systems.size() >= 7);
  for (const auto& [folder, named] : systems) {
    INFO("results/README.md, table of systems: " << folder);
    REQUIRE(pages.count(folder) == 1);
    for (const std::string& verdict : named) CHECK(verdict == pages.at(folder));
  }
}

TEST_CASE("tidy: transcripts are cut at a pattern, never at a line number") {
  std::vector<fs::path> documents = {root / "README.md", root / "results/README.md"};
  for (const char* guide : {"calibration", "topologies", "workloads"})
    documents.push_back(root / guide / "README.md");
  for (const auto& entry : fs::directory_iterator(root / "results"))
    if (entry.is_directory()) documents.push_back(entry.path() / "README.md");
  const std::regex by_number(R"(\|\s*(head|tail)\b|\bsed (-n )?'?\d+(,\d*)?[pqd])");
  for (const fs::path& document : documents) {
    for (const std::string& line : lines_of(document)) {
      if (line.rfind("$ ", 0) != 0) continue;
      INFO(document.lexically_relative(root).generic_string() << ": " << line);
      CHECK_FALSE(std::regex_search(line, by_number));
    }
  }
}
