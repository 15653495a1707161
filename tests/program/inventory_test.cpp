// inventory_test.cpp — compares INVENTORY.md with the programs of a catalog of plans, label by
// label.
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <string>

#include "sample.h"

namespace {

// The first cells of table rows that are code: "| `label` | ...".
std::set<std::string> named() {
  std::ifstream file(REHEARSE_SOURCE_DIR "/sim/program/INVENTORY.md");
  REQUIRE(file.good());
  std::set<std::string> labels;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("| `", 0) != 0) continue;
    const std::size_t end = line.find('`', 3);
    REQUIRE(end != std::string::npos);
    labels.insert(line.substr(3, end - 3));
  }
  return labels;
}

std::set<std::string> allocated() {
  std::set<std::string> labels;
  for (const auto& [name, plan] : sample::catalog()) {
    const auto job = sample::job(plan);
    for (const auto& program : job.classes)
      for (const auto& block : program.blocks)
        for (const auto& i : block.code)
          if (i.op == sample::Op::alloc) labels.insert(program.labels[i.label]);
  }
  return labels;
}

std::string without(const std::set<std::string>& all, const std::set<std::string>& these) {
  std::string text;
  for (const std::string& label : all)
    if (!these.count(label)) text += label + "\n";
  return text;
}

}  // namespace

TEST_CASE("program: the inventory names every tensor that a program allocates and no other") {
  const auto in_text = named();
  const auto in_code = allocated();
  CHECK(in_code.size() > 100);
  CHECK(without(in_code, in_text) == "");  // allocated but not described
  CHECK(without(in_text, in_code) == "");  // described but never allocated
}
