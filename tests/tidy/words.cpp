// words.cpp — can a stranger read it? Comments and documents as text: the files that they name must
// exist, tables must keep their columns, and words without a meaning outside of this project are
// banned.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

const fs::path root = REHEARSE_SOURCE_DIR;

struct Line {
  std::string path;  // relative to the root
  std::size_t number = 0;
  std::string text;      // of a comment without its slashes, or of a document
  bool of_file = false;  // in the comment that a file opens with
};

std::vector<fs::path> files(const std::vector<std::string>& folders,
                            const std::set<std::string>& suffixes) {
  std::vector<fs::path> found;
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file() && suffixes.count(entry.path().extension().string()) != 0)
        found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

// Whole-line comments of the sources of sim/.
std::vector<Line> comments() {
  std::vector<Line> lines;
  for (const fs::path& path : files({"sim"}, {".h", ".cpp"})) {
    std::ifstream in(path);
    std::string text;
    bool opens = true;
    for (std::size_t number = 1; std::getline(in, text); ++number) {
      const std::size_t at = text.find_first_not_of(' ');
      const bool comment = at != std::string::npos && text.compare(at, 2, "//") == 0;
      opens &= comment;
      if (comment)
        lines.push_back(
            {path.lexically_relative(root).generic_string(), number, text.substr(at + 2), opens});
    }
  }
  return lines;
}

// Paragraphs of the documents, without what stands in fences.
std::vector<Line> documents() {
  std::vector<Line> lines;
  std::vector<fs::path> all =
      files({"sim", "models", "topologies", "workloads", "calibration", "results"}, {".md"});
  all.push_back(root / "README.md");
  for (const fs::path& path : all) {
    std::ifstream in(path);
    std::string text;
    bool fence = false;
    for (std::size_t number = 1; std::getline(in, text); ++number) {
      if (text.rfind("```", 0) == 0) fence = !fence;
      if (!fence) lines.push_back({path.lexically_relative(root).generic_string(), number, text});
    }
  }
  return lines;
}

// The anchor of a heading: "## 2. A `plan`" -> "2-a-plan".
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading.substr(heading.find(' ') + 1)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (c == ' ') anchor += '-';
  }
  return anchor;
}

}  // namespace

TEST_CASE("tidy: links of documents lead to files and headings") {
  const std::vector<Line> lines = documents();
  std::set<std::string> headings;  // "path#anchor"
  for (const Line& line : lines)
    if (line.text.starts_with("#")) headings.insert(line.path + "#" + anchor_of(line.text));
  const std::regex link(R"(\]\(([^)\s]+)\))");
  for (const Line& line : lines) {
    for (std::sregex_iterator at(line.text.begin(), line.text.end(), link), end; at != end; ++at) {
      const std::string target = (*at)[1];
      if (target.find("://") != std::string::npos) continue;
      const std::size_t mark = target.find('#');
      const fs::path folder = fs::path(line.path).parent_path();
      const std::string path =
          mark == 0 ? line.path
                    : (folder / target.substr(0, mark)).lexically_normal().generic_string();
      INFO(line.path << ":" << line.number << " links " << target);
      CHECK(fs::exists(root / path));
      if (mark != std::string::npos) CHECK(headings.count(path + target.substr(mark)) == 1);
    }
  }
}

TEST_CASE("tidy: a file comment names files that exist") {
  std::set<std::string> names;
  for (const fs::path& path : files({"sim", "tests"}, {".h", ".cpp", ".proto"}))
    names.insert(path.filename().string());
  // Files of PyTorch, TransformerEngine, SimGrid and Chakra. Others stand in brackets:
  // [fused_kernels/layer_norm.cpp].
  names.insert({"ProcessGroupNCCL.cpp", "quantizer.cpp", "normalization.cpp", "network_ns3.cpp",
                "et_def.proto"});
  const std::regex quoted(R"(\[[^\]]*\])"), named(R"([\w./-]*\b[\w-]+\.(h|cpp|proto)\b)");
  for (const Line& line : comments()) {
    if (!line.of_file) continue;
    const std::string text = std::regex_replace(line.text, quoted, "");
    for (std::sregex_iterator at(text.begin(), text.end(), named), end; at != end; ++at) {
      INFO(line.path << ":" << line.number << " names " << at->str());
      CHECK(names.count(fs::path(at->str()).filename().string()) == 1);
    }
  }
}

TEST_CASE("tidy: tables in comments keep their columns") {
  // A formatter that joins the lines of a table leaves runs of blanks inside of a line of prose.
  const std::regex joined(R"(^ \S.*[a-z,;:] {3,}\S+.*[a-z,;:] {3,}\S)");
  for (const Line& line : comments()) {
    INFO(line.path << ":" << line.number << ":" << line.text);
    CHECK_FALSE(std::regex_search(line.text, joined));
  }
}

TEST_CASE("tidy: comments and guides use the words of the field") {
  const std::regex banned(
      "\\b(stands? alike|such a one|in silence|nobody (says|said|looks|asks|knows)|"
      "held? to (it|them|each other)|(is|are) (said|told) where|"
      "behind (it|them|the step|the decision))\\b");
  const std::vector<std::string> places = {
      "sim/",        "README.md",  "calibration/README.md", "models/",
      "topologies/", "workloads/", "results/README.md"};
  std::vector<Line> all = comments();
  for (Line& line : documents()) all.push_back(std::move(line));
  std::erase_if(all, [&](const Line& line) {
    return std::ranges::none_of(
        places, [&](const std::string& place) { return line.path.rfind(place, 0) == 0; });
  });
  for (const Line& line : all) {
    if (!std::regex_search(line.text, banned)) continue;
    FAIL_CHECK(line.path << ":" << line.number << ": " << line.text);
  }
}

TEST_CASE("tidy: README.md has at most 200 lines") {
  std::ifstream in(root / "README.md");
  std::size_t lines = 0;
  for (std::string text; std::getline(in, text);) ++lines;
  CHECK(lines > 100);
  CHECK(lines <= 200);
}

TEST_CASE("tidy: each room has a README of at most 80 lines") {
  for (const auto& room : fs::directory_iterator(root / "sim")) {
    if (!room.is_directory() || room.path().filename() == "schemas") continue;
    const fs::path path = room.path() / "README.md";
    INFO(path);
    REQUIRE(fs::exists(path));
    std::ifstream in(path);
    std::size_t lines = 0;
    for (std::string text; std::getline(in, text);) ++lines;
    CHECK(lines <= 80);
  }
}

TEST_CASE("tidy: the slow tests that are named exist") {
  std::string all;
  for (const fs::path& path : files({"tests"}, {".cpp"})) {
    std::ifstream in(path);
    for (std::string text; std::getline(in, text);) {
      const std::size_t begins = text.find_first_not_of(' ');
      if (begins != std::string::npos) all += text.substr(begins);
    }
  }
  // Names of two lines: literals that follow one another.
  for (std::size_t at = 0; (at = all.find("\"\"", at)) != std::string::npos;) all.erase(at, 2);
  std::ifstream in(root / "tests" / "slow.txt");
  for (std::string name; std::getline(in, name);) {
    if (name.rfind("#", 0) == 0) continue;
    INFO(name);
    CHECK(all.find('"' + name + '"') != std::string::npos);
  }
}
