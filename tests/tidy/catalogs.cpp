// catalogs.cpp — is every catalog complete? A member is a file of its name and a row: a file that
// nobody lists, or a row without its file, fails here.
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>

#include "sim/cluster/collective/collective.h"
#include "sim/cluster/topology/graph.h"
#include "sim/job/context/context.h"
#include "sim/job/offload/offload.h"
#include "sim/job/schedule/schedule.h"

namespace fs = std::filesystem;

namespace {

// Sources of a room that hold one member each: those without a header of their own, except the
// catalog itself. Members are named with dashes, the room's machinery with underscores or one word
// and a header.
std::set<std::string> member_files(const std::string& room) {
  std::set<std::string> members;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(REHEARSE_SOURCE_DIR) / "sim" / room)) {
    fs::path path = entry.path();
    if (path.extension() != ".cpp" || path.stem() == "catalog") continue;
    if (!fs::exists(fs::path(path).replace_extension(".h"))) members.insert(path.stem().string());
  }
  return members;
}

template <class Catalog>
std::set<std::string> rows(const Catalog& catalog) {
  std::set<std::string> names;
  for (const auto& row : catalog) {
    INFO(row.name);
    CHECK(names.insert(std::string(row.name)).second);  // no name twice
    CHECK_FALSE(row.summary.empty());
    CHECK_FALSE(row.source.empty());
  }
  return names;
}

}  // namespace

TEST_CASE("tidy: every schedule is a file and a row") {
  CHECK(rows(sim::schedule::catalog()) == member_files("job/schedule"));
}

TEST_CASE("tidy: every collective algorithm is a file and a row") {
  CHECK(rows(sim::collective::catalog()) == member_files("cluster/collective"));
}

TEST_CASE("tidy: every way to share a sequence is a file and a row") {
  CHECK(rows(sim::context::catalog()) == member_files("job/context"));
}

TEST_CASE("tidy: every optimizer on the CPU is a file or a variant of one, and a row") {
  std::set<std::string> names = rows(sim::offload::catalog());
  names.erase("zero-3-flush");  // zero-3.cpp, with its gradients flushed otherwise
  CHECK(names == member_files("job/offload"));
}

TEST_CASE("tidy: every kind of fabric is a file and a row") {
  CHECK(rows(sim::topology::fabric_catalog()) == member_files("cluster/topology"));
}
