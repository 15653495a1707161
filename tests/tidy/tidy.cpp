// tidy.cpp — is it still our style? Reads the sources as text: who includes whom, what is banned,
// how long lines and files are.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
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

// The libraries of sim/, by folder, and those that each may use directly; it may also use what
// those may use. A file belongs to the longest folder that is named here; main.cpp to "main".
const std::map<std::string, std::set<std::string>> may_use = {
    {"base", {}},
    {"model", {"base"}},
    {"job/schedule", {"base"}},
    {"job/mesh", {"base"}},
    {"job/offload", {"base"}},
    {"job/context", {"cluster/collective"}},
    {"cluster/collective", {"base"}},
    {"cluster/topology", {"base"}},
    {"cluster/device", {"model"}},
    {"cluster/network", {"cluster/collective", "cluster/topology", "job/mesh"}},
    {"allocator", {"base"}},
    {"program", {"model", "job/schedule", "job/mesh", "job/context", "job/offload"}},
    {"engine", {"program", "cluster/device", "cluster/network", "allocator"}},
    {"input/launch/shell", {"base"}},
    {"input",
     {"program", "cluster/topology", "cluster/device", "cluster/network", "allocator",
      "input/launch/shell"}},
    {"answer", {"engine", "input"}},
    {"output", {"answer"}},
    {"study", {"output"}},
    {"study/plan", {"study"}},
    {"study/campaign", {"study"}},
    {"calibrate", {"study"}},
    {"command", {"calibrate", "study/plan", "study/campaign"}},
    {"library", {"command"}},
    {"python", {"command"}},
    {"main", {"command"}},
};

// Inside of a library: the sub-folders that each folder may include. A folder may always include
// its own files. No folder may include one that includes it, directly or through others.
const std::map<std::string, std::set<std::string>> floors = {
    {"allocator", {"allocator/free_blocks"}},
    {"allocator/recorded", {"allocator", "allocator/free_blocks"}},
    {"allocator/sub_pools", {"allocator", "allocator/free_blocks"}},
    {"calibrate", {"calibrate/readers", "calibrate/rows", "calibrate/tables"}},
    {"calibrate/fit", {"calibrate/readers", "calibrate/rows"}},
    {"calibrate/readers", {"calibrate/rows"}},
    {"calibrate/runs", {"calibrate", "calibrate/fit", "calibrate/rows"}},
    {"calibrate/tables", {"calibrate/rows"}},
    {"calibrate/trace", {"calibrate/fit", "calibrate/readers"}},
    {"cluster/network/simgrid", {"cluster/network"}},
    {"command", {"command/common"}},
    {"command/calibrate", {"command/common"}},
    {"command/plan", {"command", "command/common"}},
    {"command/serve", {"command", "command/common"}},
    {"command/topo", {"command/common"}},
    {"engine/fast", {"engine/rank"}},
    {"engine/price", {"engine", "engine/rank"}},
    {"engine/rank", {"engine"}},
    {"engine/reference", {"engine", "engine/price", "engine/rank"}},
    {"engine/run", {"engine", "engine/fast", "engine/rank", "engine/reference", "engine/steady"}},
    {"engine/steady", {"engine/fast", "engine/rank"}},
    {"input/cluster", {"input/fields", "input/schema", "input/tables", "input/text"}},
    {"input/fields", {"input/schema", "input/text"}},
    {"input/frameworks", {"input/fields", "input/schema", "input/text"}},
    {"input/launch",
     {"input/fields", "input/launch/python", "input/models", "input/resolve", "input/schema",
      "input/tables", "input/text"}},
    {"input/models", {"input/schema", "input/text"}},
    {"input/plan",
     {"input/cluster", "input/fields", "input/frameworks", "input/launch", "input/models",
      "input/resolve", "input/schema", "input/tables", "input/text"}},
    {"input/profile", {"input/cluster", "input/schema", "input/text"}},
    {"input/resolve",
     {"input/cluster", "input/fields", "input/frameworks", "input/models", "input/schema",
      "input/tables"}},
    {"input/tables", {"input/schema", "input/text"}},
    {"input/text", {"input/schema"}},
    {"job/schedule/bidirectional", {"job/schedule"}},
    {"job/schedule/split_backward", {"job/schedule"}},
    {"job/schedule/vocabulary", {"job/schedule"}},
    {"output/documents", {"output", "output/memory", "output/perfetto"}},
    {"output/perfetto", {"output"}},
    {"program/autograd", {"program/ir", "program/parallel"}},
    {"program/build",
     {"program/ir", "program/layers", "program/layers/attention", "program/parallel",
      "program/parallel/ddp", "program/parallel/deepspeed", "program/parallel/fsdp",
      "program/parallel/offload", "program/parallel/pipeline", "program/plan"}},
    {"program/ir", {"program/plan"}},
    {"program/layers",
     {"program/autograd", "program/ir", "program/layers/attention", "program/layers/experts",
      "program/layers/linear", "program/parallel", "program/parallel/offload"}},
    {"program/layers/attention",
     {"program/autograd", "program/layers/experts", "program/layers/linear",
      "program/parallel/offload", "program/plan"}},
    {"program/layers/experts",
     {"program/autograd", "program/layers/linear", "program/parallel/offload"}},
    {"program/layers/linear", {"program/autograd", "program/plan"}},
    {"program/parallel", {"program/ir", "program/plan"}},
    {"program/parallel/ddp",
     {"program/ir", "program/layers/linear", "program/parallel", "program/parallel/deepspeed",
      "program/parallel/offload", "program/plan"}},
    {"program/parallel/deepspeed", {"program/parallel", "program/parallel/offload"}},
    {"program/parallel/fsdp",
     {"program/layers/linear", "program/parallel", "program/parallel/deepspeed"}},
    {"program/parallel/offload", {"program/autograd", "program/ir", "program/plan"}},
    {"program/parallel/pipeline", {"program/ir", "program/layers", "program/plan"}},
    {"program/plan/rules",
     {"program/build", "program/ir", "program/parallel/offload", "program/plan"}},
    {"study/plan", {"study/plan/launch"}},
    {"study/sweep/mpi", {"study/sweep"}},
    {"study/tune", {"study/sweep"}},
};

// A library and the only places whose sources may include it.
struct Library {
  std::string header;
  std::vector<std::string> places;
};
const std::vector<Library> libraries = {
    {"simgrid/", {"sim/cluster/network/simgrid/"}},
    {"mpi.h", {"sim/study/sweep/mpi/"}},
    {"pybind11/", {"sim/python/"}},
    {"boost/graph/", {"sim/cluster/topology/"}},
    {"boost/program_options", {"sim/command/"}},
    {"boost/asio", {"sim/command/serve/"}},
    {"boost/beast", {"sim/command/serve/"}},
    {"google/protobuf/", {"sim/input/", "sim/output/"}},
    {".pb.h", {"sim/input/", "sim/output/"}},
    {"yaml-cpp/", {"sim/input/"}},
};

struct Source {
  std::string path;    // relative to the root
  std::string folder;  // of sim/: "program/ir"; "" for files beside main.cpp
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
    const std::string inside = relative.lexically_relative(folder).parent_path().generic_string();
    found.push_back({relative.generic_string(), inside, read_lines(entry.path())});
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

// The library of a folder of sim/: the longest key of may_use that contains it.
std::string library_of(std::string folder) {
  for (; !folder.empty(); folder = fs::path(folder).parent_path().generic_string())
    if (may_use.count(folder) != 0) return folder;
  return "main";
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
    const std::string library = library_of(source.folder);
    const std::set<std::string> below = closure(library);
    const auto floor = floors.find(source.folder);
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string name = included(source.lines[i]);
      if (name.rfind("sim/", 0) != 0) continue;
      const std::string folder = fs::path(name.substr(4)).parent_path().generic_string();
      INFO(at(source, i) << " includes " << name);
      CHECK(below.count(library_of(folder)) == 1);
      if (folder == source.folder || library_of(folder) != library) continue;
      CHECK((floor != floors.end() && floor->second.count(folder) == 1));
    }
  }
}

TEST_CASE("tidy: no folder of a room includes itself through others") {
  for (const auto& [folder, below] : floors) {
    std::set<std::string> reached;
    std::vector<std::string> next(below.begin(), below.end());
    while (!next.empty()) {
      const std::string one = next.back();
      next.pop_back();
      if (!reached.insert(one).second) continue;
      const auto at = floors.find(one);
      if (at != floors.end()) next.insert(next.end(), at->second.begin(), at->second.end());
    }
    INFO(folder);
    CHECK(reached.count(folder) == 0);
  }
}

TEST_CASE("tidy: no folder has more than 25 files of one kind") {
  std::map<std::pair<std::string, std::string>, int> kinds;
  for (const Source& source : sources("sim"))
    ++kinds[{source.folder, fs::path(source.path).extension().string()}];
  for (const auto& [kind, count] : kinds) {
    INFO(kind.first << ", " << kind.second);
    CHECK(count <= 25);
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

// The formatter puts the last brace of a function below the first letter of its first line.
TEST_CASE("tidy: functions have at most 60 lines") {
  for (const Source& source : sources("sim")) {
    for (const std::string& indent : {std::string(), std::string("  ")}) {
      std::size_t first = 0;  // the last line that starts in this column
      for (std::size_t i = 0; i < source.lines.size(); ++i) {
        const std::string& line = source.lines[i];
        if (line.rfind(indent, 0) != 0 || line.size() == indent.size()) continue;
        const char begin = line[indent.size()];
        if (line == indent + "}") {
          const std::string& head = source.lines[first];
          INFO(at(source, first) << ": " << head);
          const bool is_function = head.find('(') != std::string::npos;
          CHECK((!is_function || i - first + 1 <= 60));
        }
        if (std::isalpha(static_cast<unsigned char>(begin)) != 0 || begin == '[') first = i;
      }
    }
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
      const bool helper =
          source.path.rfind("sim/cluster/network/simgrid/", 0) == 0;  // its own program
      for (std::size_t i = 0; i < source.lines.size(); ++i) {
        INFO(at(source, i) << ": " << source.lines[i]);
        for (const std::string& word : nowhere) {
          CHECK(source.lines[i].find(word) == std::string::npos);
        }
        if (std::string(folder) != "sim") continue;
        if (is_header(source)) CHECK(source.lines[i].rfind("using namespace", 0) != 0);
        if (source.folder.empty() || helper) continue;
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
