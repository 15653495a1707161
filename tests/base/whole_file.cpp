// whole_file.cpp — a file is there with its whole content, or the old one stays.
#include "sim/base/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

using sim::WholeFile;
namespace fs = std::filesystem;

namespace {

fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::temp_directory_path() / ("rehearse_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::ptrdiff_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

}  // namespace

TEST_CASE("whole_file: the new content appears with commit, not before") {
  const fs::path folder = fresh_folder("whole_file");
  const std::string path = folder / "file";
  REQUIRE(sim::write_whole(path, "old").empty());
  WholeFile file;
  REQUIRE(file.open(path).empty());
  CHECK(file.write("new").empty());
  CHECK(text_of(path) == "old");
  CHECK(file.commit().empty());
  CHECK(text_of(path) == "new");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("whole_file: without commit the old file stays and nothing else is left") {
  const fs::path folder = fresh_folder("whole_file_dropped");
  const std::string path = folder / "file";
  REQUIRE(sim::write_whole(path, "old").empty());
  {
    WholeFile file;
    REQUIRE(file.open(path).empty());
    CHECK(file.write("half").empty());
  }
  CHECK(text_of(path) == "old");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("whole_file: two writers of one file do not mix their content") {
  const fs::path folder = fresh_folder("whole_file_two");
  const std::string path = folder / "file";
  WholeFile one, two;
  REQUIRE(one.open(path).empty());
  REQUIRE(two.open(path).empty());
  CHECK(one.write("one").empty());
  CHECK(two.write("second").empty());
  CHECK(two.commit().empty());
  CHECK(one.commit().empty());
  CHECK(text_of(path) == "one");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("whole_file: a link stays, and permissions stay") {
  const fs::path folder = fresh_folder("whole_file_link");
  REQUIRE(sim::write_whole(folder / "file", "old").empty());
  fs::permissions(folder / "file", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("file", folder / "link");
  REQUIRE(sim::write_whole(folder / "link", "new").empty());
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(text_of(folder / "file") == "new");
  CHECK(fs::status(folder / "file").permissions() ==
        (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("whole_file: a descriptor of this process is continued where it stands") {
  const fs::path folder = fresh_folder("whole_descriptor");
  const std::string path = (folder / "log").string(), link = (folder / "link").string();
  std::ofstream(path) << "kept\n";
  const int log = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  REQUIRE(log >= 0);
  const std::string own = "/dev/fd/" + std::to_string(log);
  fs::create_symlink(own, link);
  CHECK(sim::write_whole(own, "one\n").empty());
  CHECK(sim::write_whole("/proc/self/fd/" + std::to_string(log), "two\n").empty());
  CHECK(sim::write_whole(link, "three\n").empty());
  CHECK(text_of(path) == "kept\none\ntwo\nthree\n");
  CHECK(fs::is_symlink(link));
  ::close(log);
  CHECK_FALSE(sim::write_whole(own, "four\n").empty());
  CHECK(files_in(folder) == 2);
}

TEST_CASE("whole_file: names of 255 bytes, full devices, loops of links and missing folders") {
  const fs::path folder = fresh_folder("whole_file_names");
  const std::string longest = folder / std::string(255, 'a');
  CHECK(sim::write_whole(longest, "x").empty());
  CHECK(text_of(longest) == "x");
  CHECK(sim::write_whole(folder / std::string(256, 'a'), "x").find("File name too long") !=
        std::string::npos);
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  CHECK(sim::write_whole(folder / "a", "x").find("Too many levels") != std::string::npos);
  CHECK(sim::write_whole(folder / "no" / "such", "x").find("No such file") != std::string::npos);
  CHECK(sim::write_whole("/dev/full", "x") == "/dev/full: No space left on device");
}
