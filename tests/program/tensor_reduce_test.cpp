// tensor_reduce_test.cpp — sums over tensor-parallel ranks without sequence parallelism: their
// number per layer, and the products beside them.
#include <catch2/catch.hpp>
#include <string_view>

#include "sample.h"

using namespace sample;

namespace {

Plan halves_side_by_side() {
  Plan p = gpt();
  p.architecture.input_norms = model::InputNorms::shared;
  p.mesh.tp = 2;
  p.mesh.sequence_parallel = false;
  return p;
}

struct Sums {
  int forward = 0, backward = 0, beside = 0;  // `beside`: with a product
};

Sums sums_of(const Plan& plan) {
  REQUIRE(problems(plan).empty());
  const Job built = job(plan);
  const Program& program = built.classes.front();
  Sums sums;
  for (const Pass& pass : program.step)
    for (const Call& call : program.templates[pass.pattern].calls) {
      if (program.blocks[call.block].name.find("layer") == std::string_view::npos) continue;
      for (const Instruction& i : program.blocks[call.block].code) {
        if (i.op != Op::collective || program.labels[i.label] != "all-reduce") continue;
        const bool forward = program.templates[pass.pattern].kind == PassKind::forward;
        ++(forward ? sums.forward : sums.backward);
        sums.beside += (i.flags & overlapped) != 0;
      }
    }
  return sums;
}

}  // namespace

// Each half of a layer sums its output, and its input gradient beside the weight gradient.
TEST_CASE("program: a layer's halves are summed one by one, gradients beside products") {
  const Plan plan = halves_side_by_side();
  const int layers = static_cast<int>(plan.architecture.layers) * plan.microbatches();
  const Sums sums = sums_of(plan);
  CHECK(sums.forward == 2 * layers);
  CHECK(sums.backward == 2 * layers);
  CHECK(sums.beside == 2 * layers);
}

TEST_CASE("program: joined halves are summed once, their inputs' gradients each by itself") {
  Plan plan = halves_side_by_side();
  const int layers = static_cast<int>(plan.architecture.layers) * plan.microbatches();
  plan.stack.joined_halves = true;
  CHECK(sums_of(plan).forward == layers);
  CHECK(sums_of(plan).backward == 2 * layers);
  plan.policy.recompute = Recompute::full;
  CHECK(sums_of(plan).backward == 3 * layers);
  // If they run one after the other, the second half reads the output of the first.
  plan.architecture.input_norms = model::InputNorms::each;
  CHECK(sums_of(plan).forward == 2 * layers);
  plan.mesh.sequence_parallel = true;
  REQUIRE(problems(plan).size() == 1);
  CHECK(problems(plan).front().message.find("turn sequence_parallel off") != std::string::npos);
}

TEST_CASE("program: gradients that are summed behind the products wait for nothing beside them") {
  Plan plan = halves_side_by_side();
  plan.stack.overlap_tensor_reduce = false;
  const Sums sums = sums_of(plan);
  CHECK(sums.backward == sums_of(halves_side_by_side()).backward);
  CHECK(sums.beside == 0);
}
