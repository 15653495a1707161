// adapter_test.cpp — the effects of training only low-rank adapters (INVENTORY.md, section 17).
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "sample.h"

using namespace sim;
using namespace sim::program;

namespace {

// Llama-3.1-8B at tp 2, rank 16, with an adapter only on linear_qkv.
Plan adapted() {
  Plan plan = sample::llama_8b();
  plan.lora.rank = 16;
  plan.lora.projection = plan.lora.fc1 = plan.lora.fc2 = false;
  return plan;
}

const std::int64_t tokens = 8192, hidden = 4096;

std::int64_t total(const std::map<std::string, std::int64_t>& bytes, const std::string& label) {
  const auto found = bytes.find(label);
  return found == bytes.end() ? 0 : found->second;
}

// Bytes that remain after set-up, by label.
std::int64_t set_up(const Program& program, const std::string& label) {
  sample::Walk walk(program);
  std::int64_t sum = 0;
  walk.run(program.setup, [&](const Instruction& i, const Block&, const sample::Walk& w) {
    if (i.op == Op::alloc && w.name(i) == label) sum += i.value;
  });
  return sum;
}

}  // namespace

TEST_CASE("program: a frozen product saves no input and an adapter the gathered one") {
  const auto left = sample::left_by(sample::job(adapted()).classes[0], "layer forward");
  CHECK(total(left, "norm output") == 0);
  CHECK(total(left, "activation output") == 0);
  CHECK(total(left, "gathered norm output") == 2 * tokens * hidden);
  CHECK(total(left, "adapter's narrow rows") == 2 * tokens * 16);
  CHECK(total(left, "residual stream") == 2 * 2 * tokens * hidden / 2);  // input and middle
  CHECK(total(left, "fc1 output") == 2 * tokens * 14336);
  Plan everywhere = adapted();
  everywhere.lora.fc2 = true;
  const auto more = sample::left_by(sample::job(everywhere).classes[0], "layer forward");
  CHECK(total(more, "activation output") == 2 * tokens * 7168);
}

TEST_CASE("program: in fp8 an adapter has an input of its own in 16 bits") {
  Plan plan = adapted();
  plan.numerics.fp8 = true;
  const auto left = sample::left_by(sample::job(plan).classes[0], "layer forward");
  CHECK(total(left, "gathered norm output") == 0);
  CHECK(total(left, "adapter input") == 2 * tokens * hidden);
}

TEST_CASE("program: an adapter with dropout keeps a copy of its input and a mask") {
  Plan plan = adapted();
  plan.lora.dropout = true;
  const auto left = sample::left_by(sample::job(plan).classes[0], "layer forward");
  CHECK(total(left, "gathered norm output") == 0);
  CHECK(total(left, "adapter's dropped input") == 2 * tokens * hidden);
  CHECK(total(left, "adapter's dropout mask") == tokens * hidden);
}

TEST_CASE("program: a value that is a view keeps the whole output of its product") {
  // 32 query heads and 8 of keys and values, 128 wide: 4096 + 2 x 1024 columns, in 16 bits.
  Plan plan = sample::llama_8b();
  plan.mesh.tp = 1;
  plan.stack.layer_kernels = LayerKernels::compiled;
  plan.stack.attention = AttentionBackend::flash;
  plan.sharding.data_parallel = DataParallelism::fsdp2;
  const auto kept = [&] {
    return sample::left_by(sample::job(plan).classes[0], "layer forward");
  };
  CHECK(total(kept(), "mixed qkv") == 2 * tokens * (4096 + 2 * 1024));
  CHECK(total(kept(), "value") == 0);
  plan.stack.separate_products = true;
  CHECK(total(kept(), "mixed qkv") == 0);
  CHECK(total(kept(), "value") == 2 * tokens * 1024);
}

TEST_CASE("program: adapters behind row-parallel products trade columns for rows") {
  // A gather brings all columns of all rows, U = 2 T h. The all-to-all exchanges a rank's columns
  // of all rows for all columns of its rows, U / 2 at tp 2 [NeMo parallel_adapters.py:
  // all2all_hp2sp]. Two of four adapters extend row-parallel products; the others gather rank 16.
  Plan plan = sample::llama_8b();
  plan.lora.rank = 16;
  const auto exchanged = [](const Plan& of, std::string_view block, collective::Kind kind) {
    const Program program = sample::job(of).classes[0];
    const auto found = std::ranges::find(program.blocks, block, &Block::name);
    REQUIRE(found != program.blocks.end());
    std::int64_t bytes = 0;
    for (const Instruction& i : found->code)
      if (i.op == Op::collective && program.labels[i.label] == "adapter exchange" &&
          program.transfers[i.index].kind == kind)
        bytes += program.transfers[i.index].bytes.n;
    return bytes;
  };
  using collective::Kind;
  const std::int64_t whole = 2 * tokens * hidden, narrow = 2 * tokens * 16;
  CHECK(exchanged(plan, "layer forward", Kind::all_gather) == 2 * (whole + narrow));
  CHECK(exchanged(plan, "layer backward", Kind::all_gather) == 2 * whole);
  plan.lora.all_to_all = true;
  CHECK(exchanged(plan, "layer forward", Kind::all_gather) == 2 * narrow);
  CHECK(exchanged(plan, "layer forward", Kind::all_to_all) == 2 * whole / 2);
  CHECK(exchanged(plan, "layer backward", Kind::all_gather) == 0);
  CHECK(exchanged(plan, "layer backward", Kind::all_to_all) == 2 * whole / 2);
  plan.mesh.sequence_parallel = false;  // then every rank needs all rows
  CHECK(exchanged(plan, "layer forward", Kind::all_to_all) == 0);
  CHECK(exchanged(plan, "layer forward", Kind::all_gather) == 2 * (whole + narrow));
}

TEST_CASE("program: only adapters have gradients and state") {
  const Program program = sample::job(adapted()).classes[0];
  // A: 16 / 2 rows of 4096; B: rows of q, k and v of one of two ranks, 16 wide; 32 layers.
  const std::int64_t width = (4096 + 2 * 1024) / 2, elements = 32 * (8 * 4096 + width * 16);
  CHECK(set_up(program, "adapter.linear_in") == 2 * 32 * 8 * 4096);
  CHECK(set_up(program, "adapter.linear_out") == 2 * 32 * width * 16);
  const std::int64_t buffer = set_up(program, "gradient buffer");
  CHECK(buffer >= 4 * elements);
  CHECK(buffer < 4 * elements + 4 * 4096);  // padding
  CHECK(set_up(program, "linear_fc1.weight") == 2LL * 32 * 14336 * 4096);
  for (const model::Operation& o : program.operations)
    if (o.kind == model::OperationKind::gemm && o.role == model::GemmRole::weight_gradient) {
      INFO(o.name);
      CHECK(o.name == "adapter weight");
    }
}

TEST_CASE("program: an offloaded layer holds nothing once the next one is done") {
  Plan plan = sample::llama_8b();
  const std::int64_t all = sample::at_head(plan);
  plan.policy.offload_layers = 20;
  REQUIRE(problems(plan).empty());
  // Section 8: the saved tensors of a layer, and 16 bytes of random state.
  CHECK(all - sample::at_head(plan) == 20LL * (570'982'400 + 16));
  plan.policy.offload_layers = 32;
  CHECK(problems(plan).front().message ==
        "offload_layers is 32; it must be 0 to 31, all layers but one");
}

TEST_CASE("program: adapters that cannot be are refused with what would do") {
  Plan plan = adapted();
  plan.lora.rank = 7;
  CHECK(problems(plan).front().message == "lora_rank 7 must be a multiple of tp 2, at most 65536");
  plan = adapted();
  plan.lora.qkv = false;
  CHECK(problems(plan).front().message.find("lora_modules names no module") == 0);
  plan = sample::llama_8b();
  plan.numerics.fp8_parameters = true;
  CHECK(problems(plan).front().message.find("fp8_parameters needs products in fp8") == 0);
}
