// half_written.cpp — a command that is killed leaves the old file or the whole new one under the
// name that it was given, never a part.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/golden/program.h"
#include "tests/golden/writers.h"

using golden::run;
using golden::text_of;
namespace fs = std::filesystem;

namespace {

double seconds_of(const std::string& command, const std::string& folder) {
  const auto began = std::chrono::steady_clock::now();
  const golden::Finished done = run(command, folder);
  INFO(command << "\n" << done.err);
  REQUIRE((done.code == 0 || done.code == 2));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

void kill_each(const std::string& name, int kills) {
  const std::string folder = golden::writers_scratch(name);
  for (const golden::Writer& writer : golden::writers()) {
    const std::string command = writer.command + " >/dev/null";
    golden::place_old(writer, folder);
    const double whole_s = seconds_of(command, folder);
    std::vector<std::string> whole;
    for (const std::string& file : writer.files) {
      INFO(command << " writes " << file);
      whole.push_back(text_of(folder + "/" + file));
      REQUIRE(!whole.back().empty());
    }
    for (int i = 0; i < kills; ++i) {
      golden::place_old(writer, folder);
      run(fmt::format("timeout -s KILL {:.4f} {}", whole_s * (i + 1) / (kills + 1), command),
          folder);
      for (std::size_t f = 0; f < whole.size(); ++f) {
        const std::string path = folder + "/" + writer.files[f];
        const std::string left = fs::exists(path) ? text_of(path) : golden::old_text;
        INFO(command << ": kill " << i << " left " << left.size() << " of " << whole[f].size()
                     << " bytes in " << writer.files[f]);
        // Records are lines that are added one by one.
        const bool begun = path.ends_with(".jsonl") && golden::holds_records(left, whole[f]);
        CHECK((left == golden::old_text || left == whole[f] || begun));
      }
    }
  }
}

}  // namespace

TEST_CASE("golden: a killed command leaves whole files, a sample of kills") {
  kill_each("half-written", 2);
}

TEST_CASE("golden: sixty kills of each command that writes leave no half-written file",
          "[.campaign]") {
  kill_each("half-written-60", 60);
}
