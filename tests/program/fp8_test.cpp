// fp8_test.cpp — casts to fp8: kernels over tensors with unknown scales, and the agreement of ranks
// on a scale.
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "tests/program/sample.h"

using namespace sim;
using namespace sim::program;

namespace {

struct Found {
  std::int64_t microbatches = 0, layers = 0;
  std::map<std::string, std::int64_t> count, bytes;  // of kernels, by name
  std::int64_t agreed = 0, followed = 0;             // all-reduces of a scale
};

Found found(const Plan& plan) {
  REQUIRE(problems(plan).empty());
  const Program program = sample::job(plan).classes[0];
  Found all{plan.microbatches(), plan.architecture.layers, {}, {}};
  sample::each_of_step(program, [&](const Instruction& i) {
    if (i.op == Op::kernel) {
      const model::Operation& operation = program.operations[i.index];
      const std::string name(operation.name);
      ++all.count[name];
      all.bytes[name] += operation.bytes.n;
    }
    if (i.op != Op::collective || program.labels[i.label] != "all-reduce of a scale") return;
    ++all.agreed;
    all.followed += program.transfers[i.index].followed;
  });
  return all;
}

Plan small() {
  Plan plan = sample::llama_8b();
  plan.architecture.layers = 3;
  plan.batch.global_batch = 8;
  plan.numerics.fp8 = true;
  return plan;
}

}  // namespace

TEST_CASE("program: a tensor that is cast with its own scale is read once more before") {
  Plan plan = small();
  const Found known = found(plan);
  CHECK(known.count.count("largest magnitude") == 0);
  CHECK(known.agreed == 0);
  plan.numerics.fp8_recipe = Fp8Recipe::tensorwise;
  const Found own = found(plan);
  const std::int64_t each = own.microbatches * own.layers;
  // For each layer: the inputs of projection and fc2, and the gradients of four outputs. Norms
  // compute the scale themselves.
  CHECK(own.count.at("largest magnitude") == 6 * each);
  CHECK(own.count.at("scale of fp8") == 8 * each);
  const std::int64_t tokens = plan.batch.sequence, tp = plan.mesh.tp;
  const std::int64_t hidden = 4096, ffn = 14336 / tp, qkv = (4096 + 2 * 1024) / tp;
  const std::int64_t columns = hidden / tp + ffn + qkv + 2 * ffn;  // of all tokens
  CHECK(own.bytes.at("largest magnitude") == 2 * tokens * (columns + 2 * hidden / tp) * each);
  // The norms write 16 bits, which a later kernel casts.
  CHECK(own.bytes.at("norm") - known.bytes.at("norm") == 2 * tokens * hidden / tp * each);
  CHECK(own.bytes.at("norm output to fp8") == 2 * 3 * tokens * hidden / tp * each);
  // Ranks agree on scales if the sequence is gathered: two norms' outputs, two outputs' gradients.
  CHECK(own.agreed == 4 * each);
  CHECK(own.followed == own.agreed);
  // Weights are cast once per step, after their maxima are found.
  CHECK(3 * own.bytes.at("largest magnitude of weights") * 2 ==
        3 * known.bytes.at("weights to fp8"));

  plan.mesh.sequence_parallel = false;
  CHECK(found(plan).agreed == 0);
  plan.numerics.fp8 = false;
  CHECK(problems(plan).front().message ==
        "fp8_recipe is of products in fp8; write fp8 true too, or leave it out");
}

TEST_CASE("program: a compiler finds largest magnitudes in the kernels that make tensors") {
  Plan plan = small();
  plan.numerics.fp8_recipe = Fp8Recipe::tensorwise;
  plan.stack.layer_kernels = LayerKernels::compiled;
  plan.sharding.data_parallel = DataParallelism::fsdp2;
  plan.stack.attention = AttentionBackend::flash;
  const Found own = found(plan);
  const std::int64_t each = own.microbatches * own.layers;
  CHECK(own.count.at("largest magnitude") == each);  // of attention's output
  CHECK(own.count.at("scale of fp8") == 8 * each);
  // The parts of a DTensor agree, however they are split.
  CHECK(own.agreed == 8 * each);
  CHECK(own.followed == 4 * each);
  plan.mesh.tp = 1;
  CHECK(found(plan).agreed == 0);
}
