// offload_test.cpp — copies to the CPU and back: bytes in closed form, and their dependencies.
#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "sample.h"
#include "sim/program/parallel/offload/host_memory.h"

using namespace sim;
using namespace sim::program;

namespace {

// Bytes of a step's work on each host stream.
std::map<Stream, std::int64_t> moved(const Program& program) {
  std::map<Stream, std::int64_t> bytes;
  sample::each_of_step(program, [&](const Instruction& i) {
    if (i.op != Op::kernel) return;
    if (i.stream == Stream::pcie_up || i.stream == Stream::pcie_down || i.stream == Stream::cpu)
      bytes[i.stream] += program.operations[i.index].bytes.n;
  });
  return bytes;
}

int count(const Program& program, Stream stream) {
  int kernels = 0;
  sample::each_of_step(
      program, [&](const Instruction& i) { kernels += i.op == Op::kernel && i.stream == stream; });
  return kernels;
}

}  // namespace

TEST_CASE("program: offloaded layers go down and come back once a microbatch") {
  Plan plan = sample::llama_8b();
  CHECK(moved(sample::job(plan).classes[0]).empty());
  for (const int layers : {1, 20, 31}) {
    plan.policy.offload_layers = layers;
    const Program program = sample::job(plan).classes[0];
    // INVENTORY.md section 8: the saved tensors of a layer, and 16 bytes of random state.
    const std::int64_t bytes = plan.microbatches() * layers * (570'982'400LL + 16);
    CHECK(moved(program)[Stream::pcie_down] == bytes);
    CHECK(moved(program)[Stream::pcie_up] == bytes);
  }
}

TEST_CASE("program: Adam on the CPU has its gradients brought down and sends parameters up") {
  for (const double share : {0.25, 0.5, 1.0})
    for (const bool overlaps : {false, true}) {
      Plan plan = sample::llama_8b();
      plan.optimizer.precision_aware = true;
      plan.optimizer.offload_fraction = share;
      plan.optimizer.overlap_offload = overlaps;
      REQUIRE(problems(plan).empty());
      const Program program = sample::job(plan).classes[0];
      auto bytes = moved(program);
      const std::int64_t elements = bytes[Stream::pcie_down] / 4;
      // Whole tensors are offloaded, so a little more than the share of the rank's elements.
      const double owned = static_cast<double>(program.parameters) / plan.mesh.dp;
      CHECK(static_cast<double>(elements) >= share * owned * 0.99);
      CHECK(static_cast<double>(elements) <= (share + 0.05) * owned + 1e6);
      CHECK(bytes[Stream::pcie_up] == bytes[Stream::pcie_down]);
      CHECK(bytes[Stream::cpu] == 28 * elements);
      CHECK(count(program, Stream::cpu) == count(program, Stream::pcie_down));
      CHECK((count(program, Stream::cpu) > 1) == overlaps);
    }
}

TEST_CASE("program: the CPUs hold 16 bytes of each offloaded element") {
  Plan plan = sample::llama_8b();
  plan.optimizer.precision_aware = true;
  CHECK(host_bytes(plan) == 0);
  plan.optimizer.offload_fraction = 0.5;
  const auto all = static_cast<double>(model::parameters(plan.architecture));
  // Norms are whole on every tensor-parallel rank.
  const double norms = 65 * 4096, tp = plan.mesh.tp;
  CHECK(host_bytes(plan) == Approx(0.5 * 16 * (all + (tp - 1) * norms) / 8).epsilon(1e-9));
}

// Llama's last stage holds half of the layers, the final norm and the output table; the first one
// holds the input table.
TEST_CASE("program: of stages the CPUs hold what the fullest one has") {
  Plan plan = sample::llama_8b();
  plan.optimizer.precision_aware = true;
  plan.optimizer.offload_fraction = 1;
  plan.mesh.tp = 1;
  plan.mesh.dp = 4;
  plan.mesh.pp = 2;
  const auto all = static_cast<double>(model::parameters(plan.architecture));
  const double table = 128256.0 * 4096, norm = 4096;
  CHECK(host_bytes(plan) ==
        Approx(16 * ((all - 2 * table - norm) / 2 + table + norm) / 4).epsilon(1e-9));
}

// ZeRO-3 sends M + M + M per step (arXiv:2306.10209, table 1). Quantised weights halve the first,
// second copies keep the second in the node, and quantised gradients quarter the third.
TEST_CASE("program: ZeRO++ sends what its paper says") {
  Plan plan = sample::llama_8b();
  plan.architecture.layers = 4;
  plan.mesh.tp = 1;
  plan.mesh.dp = 8;
  plan.batch.global_batch = 8;
  plan.sharding.data_parallel = DataParallelism::fsdp2;
  plan.numerics.fp32_gradients = false;
  const auto sent = [](const Plan& p, Stream who) {
    const Program program = sample::job(p).classes[0];
    std::map<collective::Kind, std::int64_t> bytes;
    sample::each_of_step(program, [&](const Instruction& i) {
      if (i.op != Op::collective) return;
      const Transfer& t = program.transfers[i.index];
      if (t.communicator == who && t.bytes.n > 4096) bytes[t.kind] += t.bytes.n;
    });
    return bytes;
  };
  using collective::Kind;
  const auto plain = sent(plan, Stream::shard);
  const std::int64_t gradients = plain.at(Kind::reduce_scatter);
  plan.sharding.fsdp.quantized_weights = true;
  plan.sharding.fsdp.secondary = 4;
  plan.sharding.fsdp.quantized_gradients = true;
  REQUIRE(problems(plan).empty());
  const auto across = sent(plan, Stream::shard), near = sent(plan, Stream::shard_near),
             far = sent(plan, Stream::shard_far);
  // The forward pass gathers the layers and the root, the backward pass the layers again.
  const std::int64_t forward = 2 * across.at(Kind::all_gather);
  CHECK(forward + near.at(Kind::all_gather) == plain.at(Kind::all_gather));
  CHECK(near.at(Kind::all_to_all) == gradients / 4);
  CHECK(far.at(Kind::all_to_all) == gradients / 16);
  CHECK(across.count(Kind::reduce_scatter) == 0);
  plan.sharding.fsdp.secondary = 3;
  CHECK(problems(plan).front().message.find("it may be 1, 2, 4 or 8") != std::string::npos);
  plan.sharding.fsdp.secondary = 1;
  CHECK(problems(plan).front().message.find("GPUs of a node") != std::string::npos);
}
