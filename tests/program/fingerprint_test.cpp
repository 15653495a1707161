// fingerprint_test.cpp — programs must not change unintentionally: plans that use every tensor, and
// random legal plans. Those of the grid are in tests/input/fingerprint_test.cpp.
#include "draw.h"
#include "sample.h"
#include "tests/program/fingerprints.h"

using namespace sim;
using namespace sim::program;

TEST_CASE(
    "program: the programs of the catalog and of plans drawn at random are as written down") {
  std::vector<std::string> lines;
  std::map<std::string, int> seen;
  for (const auto& [name, plan] : sample::catalog())
    lines.push_back(fmt::format("{} {} {}", fingerprints::of(plan), name, ++seen[name]));
  for (std::uint64_t number = 0; number < 2000; ++number) {
    const Plan plan = sample::draw(number);
    if (problems(plan).empty())
      lines.push_back(fmt::format("{} draw {}", fingerprints::of(plan), number));
  }
  // Plans of every schedule, with other options of a plan.
  for (std::uint64_t number = 1000; number < 1400; ++number)
    lines.push_back(
        fmt::format("{} legal {}", fingerprints::of(sample::draw_legal(number)), number));
  fingerprints::check("tests/program/fingerprints.txt", lines);
}

TEST_CASE("program: a program prints the same whatever the numbers of its slots and events are") {
  const Job job = sample::job(sample::llama_8b());
  Program other = job.classes.front();
  const std::string text = print(other);
  CHECK(text.find("alloc %0") != std::string::npos);
  for (Block& block : other.blocks)
    for (Instruction& i : block.code) {
      const bool slotted =
          i.op == Op::alloc || i.op == Op::free || i.op == Op::record_stream || i.op == Op::move;
      if (slotted && i.space == Space::local) i.index = 1000 - i.index;
      if (i.op == Op::move && i.value >> 32 == static_cast<int>(Space::local))
        i.value += 1000 - 2 * (i.value & 0xffffffff);
      if (i.event != 0) i.event = static_cast<std::uint8_t>(255 - i.event);
    }
  CHECK(print(other) == text);
  CHECK(fingerprint(other) == fingerprint(job.classes.front()));
}

TEST_CASE("program: a fingerprint sees one changed byte, stream, flag, order or holder") {
  const Job job = sample::job(sample::llama_8b());
  const Program& whole = job.classes.front();
  const auto changed = [&](Op op, auto change) {
    Program other = whole;
    for (Block& block : other.blocks)
      if (block.name == "layer backward")
        for (Instruction& i : block.code)
          if (i.op == op) {
            change(i, block);
            return fingerprint(other) != fingerprint(whole);
          }
    return false;
  };
  CHECK(changed(Op::alloc, [](Instruction& i, Block&) { ++i.value; }));
  CHECK(changed(Op::alloc, [](Instruction& i, Block&) { i.category = Category::other; }));
  CHECK(changed(Op::alloc, [](Instruction& i, Block&) { i.stream = Stream::reduce; }));
  CHECK(changed(Op::alloc, [](Instruction& i, Block&) { i.label = 0; }));
  CHECK(changed(Op::kernel, [](Instruction& i, Block&) { i.flags ^= overlapped; }));
  CHECK(changed(Op::kernel, [](Instruction& i, Block&) { i.index = 0; }));
  CHECK(changed(Op::collective, [](Instruction& i, Block&) { i.index = i.index == 0; }));
  CHECK(changed(Op::wait, [](Instruction& i, Block&) { i.event = 200; }));
  CHECK(changed(Op::free, [](Instruction& i, Block&) { ++i.index; }));
  CHECK(changed(Op::alloc, [](Instruction&, Block& b) { std::swap(b.code[3], b.code[4]); }));
}
