// fingerprints.h — compares programs with recorded fingerprints, one line per plan in a text file.
// REHEARSE_UPDATE_FINGERPRINTS=1 writes the present ones instead. Use it only if a change fixes a
// known fault or adds plans, and explain which lines changed and why.
#pragma once

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "sim/program/build/build.h"
#include "sim/program/ir/print.h"

namespace fingerprints {

// The fingerprint of all rank classes of a plan.
inline std::string of(const sim::program::Plan& plan) {
  std::uint64_t all = 0;
  const sim::program::Job job = sim::program::build(
      sim::program::valid(plan), {sim::Bytes{4 << 20}, sim::Bytes{8 << 20}, 108});
  for (const sim::program::Program& program : job.classes)
    all = (all ^ sim::program::fingerprint(program)) * 0x9e3779b97f4a7c15ull;
  return fmt::format("{:016x}", all);
}

// Checks "hash name" lines against `file`, relative to the root; the order of lines counts.
inline void check(const std::string& file, const std::vector<std::string>& lines) {
  const std::string path = REHEARSE_SOURCE_DIR "/" + file;
  if (std::getenv("REHEARSE_UPDATE_FINGERPRINTS")) {
    std::ofstream out(path);
    for (const std::string& line : lines) out << line << "\n";
    return;
  }
  std::ifstream in(path);
  std::map<std::string, std::string> written;
  for (std::string line; std::getline(in, line);) written[line.substr(17)] = line.substr(0, 16);
  std::string changed;
  int count = 0;
  const auto differs = [&](const std::string& name, const char* how) {
    if (++count <= 20) changed += name + ": " + how + "\n";
  };
  for (const std::string& line : lines) {
    const auto known = written.extract(line.substr(17));
    if (known.empty())
      differs(line.substr(17), "new");
    else if (known.mapped() != line.substr(0, 16))
      differs(line.substr(17), "the program differs");
  }
  for (const auto& [name, hash] : written) differs(name, "gone");
  INFO(file << ": " << count << " of " << lines.size() << " plans\n" << changed);
  CHECK(count == 0);
}

}  // namespace fingerprints
