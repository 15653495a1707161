// tidy.cpp — is it still our style? Reads the sources as text: who includes whom, what is banned,
// how long lines and files are.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

const fs::path root = REHEARSE_SOURCE_DIR;

// What each room may use directly; it may also use what those may use. `main` is main.cpp.
const std::map<std::string, std::set<std::string>> may_use = {
    {"core", {}},
    {"model", {"core"}},
    {"schedule", {"core"}},
    {"memory", {"core"}},
    {"collective", {"core"}},
    {"topology", {"core"}},
    {"mesh", {"core"}},
    {"context", {"collective"}},
    {"offload", {"core"}},
    {"shell", {"core"}},
    {"device", {"model"}},
    {"network", {"collective", "topology", "mesh"}},
    {"workload", {"model", "schedule", "collective", "mesh", "context", "offload"}},
    {"replay", {"workload", "device", "memory", "network"}},
    {"config", {"workload", "topology", "device", "network", "memory", "shell"}},
    {"report", {"replay", "config", "memory"}},
    {"search", {"report"}},
    {"calibrate", {"search", "context", "offload"}},
    {"campaign", {"search"}},
    {"planner", {"search"}},
    {"command", {"calibrate", "campaign", "planner"}},
    {"main", {"command"}},
    {"python", {"command"}},
};

// A library and the only places whose sources may include it.
struct Library {
  std::string header;
  std::vector<std::string> places;
};
const std::vector<Library> libraries = {
    {"simgrid/", {"sim/network/simgrid/"}},
    {"mpi.h", {"sim/search/mpi/"}},
    {"pybind11/", {"sim/python/"}},
    {"boost/graph/", {"sim/topology/"}},
    {"boost/program_options", {"sim/command/"}},
    {"google/protobuf/", {"sim/config/", "sim/report/"}},
    {".pb.h", {"sim/config/", "sim/report/"}},
    {"yaml-cpp/", {"sim/config/"}},
};

struct Source {
  std::string path;  // relative to the root
  std::string room;  // of sim/; "main" for files beside main.cpp
  std::vector<std::string> lines;
};

std::vector<std::string> read_lines(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Every C++ and proto source under `folder`, in order of path.
std::vector<Source> sources(const std::string& folder) {
  std::vector<Source> found;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string suffix = entry.path().extension().string();
    if (!entry.is_regular_file()) continue;
    if (suffix != ".h" && suffix != ".cpp" && suffix != ".proto") continue;
    const fs::path relative = entry.path().lexically_relative(root);
    const auto parts = std::vector<fs::path>(relative.begin(), relative.end());
    found.push_back({relative.generic_string(), parts.size() > 2 ? parts[1].string() : "main",
                     read_lines(entry.path())});
  }
  std::sort(found.begin(), found.end(),
            [](const Source& a, const Source& b) { return a.path < b.path; });
  return found;
}

std::set<std::string> closure(const std::string& room) {
  std::set<std::string> all = {room};
  for (const std::string& below : may_use.at(room)) all.merge(closure(below));
  return all;
}

// The name between the quotes or brackets of an #include, "" for any other line.
std::string included(const std::string& line) {
  if (line.rfind("#include", 0) != 0) return "";
  const std::size_t open = line.find_first_of("\"<");
  const std::size_t close = line.find_first_of("\">", open + 1);
  if (open == std::string::npos || close == std::string::npos) return "";
  return line.substr(open + 1, close - open - 1);
}

bool allowed(const Library& library, const Source& source) {
  for (const std::string& place : library.places) {
    if (source.path.rfind(place, 0) == 0) return true;
  }
  return false;
}

std::size_t code_points(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool is_header(const Source& source) {
  return fs::path(source.path).extension() == ".h";
}

std::string at(const Source& source, std::size_t line) {
  return source.path + ":" + std::to_string(line + 1);
}

}  // namespace

TEST_CASE("tidy: rooms include only rooms below them") {
  for (const Source& source : sources("sim")) {
    INFO(source.path);
    REQUIRE(may_use.count(source.room) == 1);
    const std::set<std::string> below = closure(source.room);
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string name = included(source.lines[i]);
      if (name.rfind("sim/", 0) != 0) continue;
      const std::size_t slash = name.find('/', 4);
      const std::string room = slash == std::string::npos ? "main" : name.substr(4, slash - 4);
      INFO(at(source, i) << " includes " << name);
      CHECK(below.count(room) == 1);
    }
  }
}

TEST_CASE("tidy: each library lives in one place") {
  for (const Source& source : sources("sim")) {
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string name = included(source.lines[i]);
      for (const Library& library : libraries) {
        if (name.find(library.header) == std::string::npos) continue;
        INFO(at(source, i) << " includes " << name);
        CHECK(allowed(library, source));
      }
    }
  }
}

TEST_CASE("tidy: lines have at most 100 columns and no stray blanks") {
  for (const char* folder : {"sim", "tests"}) {
    for (const Source& source : sources(folder)) {
      for (std::size_t i = 0; i < source.lines.size(); ++i) {
        const std::string& line = source.lines[i];
        INFO(at(source, i));
        CHECK(code_points(line) <= 100);
        CHECK(line.find('\t') == std::string::npos);
        CHECK((line.empty() || line.back() != ' '));
      }
    }
  }
}

TEST_CASE("tidy: files fit in a sitting") {
  for (const Source& source : sources("sim")) {
    INFO(source.path << " has " << source.lines.size() << " lines");
    CHECK(source.lines.size() <= 500);
  }
}

TEST_CASE("tidy: every header and schema opens with its name and its purpose") {
  for (const Source& source : sources("sim")) {
    if (fs::path(source.path).extension() == ".cpp") continue;
    INFO(source.path);
    REQUIRE_FALSE(source.lines.empty());
    const std::string name = fs::path(source.path).filename().string();
    CHECK(source.lines[0].rfind("// " + name + " \u2014 ", 0) == 0);
    if (is_header(source)) {
      CHECK(std::count(source.lines.begin(), source.lines.end(), "#pragma once") == 1);
    }
  }
}

TEST_CASE("tidy: nothing is left undone and the library never prints or exits") {
  // Pieced together so that this file does not find itself.
  const std::vector<std::string> nowhere = {std::string("TO") + "DO", std::string("FIX") + "ME",
                                            std::string("XX") + "X"};
  const std::vector<std::string> not_in_rooms = {"std::cout", "std::cerr",  " printf(",
                                                 " exit(",    "std::exit(", "std::abort("};
  for (const char* folder : {"sim", "tests"}) {
    for (const Source& source : sources(folder)) {
      const bool helper = source.path.rfind("sim/network/simgrid/", 0) == 0;  // its own program
      for (std::size_t i = 0; i < source.lines.size(); ++i) {
        INFO(at(source, i) << ": " << source.lines[i]);
        for (const std::string& word : nowhere) {
          CHECK(source.lines[i].find(word) == std::string::npos);
        }
        if (std::string(folder) != "sim") continue;
        if (is_header(source)) CHECK(source.lines[i].rfind("using namespace", 0) != 0);
        if (source.room == "main" || helper) continue;
        for (const std::string& word : not_in_rooms) {
          CHECK(source.lines[i].find(word) == std::string::npos);
        }
      }
    }
  }
}

TEST_CASE("tidy: the top level is what the design fixes") {
  // Untracked folders (build, results of sweeps) are the user's own.
  for (const char* name : {"models", "topologies", "workloads", "calibration", "results", "tests",
                           "sim", "CMakeLists.txt", "CMakePresets.json", "LICENSE", "rehearse"}) {
    INFO(name);
    CHECK(fs::exists(root / name));
  }
}
