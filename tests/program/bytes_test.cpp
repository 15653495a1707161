// bytes_test.cpp — bytes of single tensors at single moments, if a source defines them. Each case
// names the section of sim/program/INVENTORY.md.
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <string>

#include "sample.h"

using namespace sim;
using namespace sim::program;

namespace {

// Calls `look` when `label` has been allocated inside a block; `times`: at most that often.
void when(const Program& program, const std::string& block, const std::string& label,
          const std::function<void(const sample::Walk&)>& look, int times = 1) {
  sample::Walk walk(program);
  walk.run(program.setup);
  walk.run(program.first_step);
  int seen = 0;
  walk.run(program.step, [&](const Instruction& i, const Block& b, const sample::Walk& w) {
    if (i.op == Op::alloc && b.name == block && w.name(i) == label && seen++ < times) look(w);
  });
  CHECK(seen > 0);
}

Plan one_layer(Plan plan) {
  plan.architecture.layers = 1;
  return plan;
}

}  // namespace

TEST_CASE("program: a GPT layer with unfused attention keeps s b h (34 + 5 a s / h)") {
  Plan plan = sample::gpt();
  REQUIRE(problems(plan).empty());
  const auto left = sample::left_by(sample::job(plan).classes[0], "layer forward");
  std::int64_t sum = 0;
  for (const auto& [label, bytes] : left) sum += bytes;
  // Korthikanti et al. 2022 (arXiv 2205.05198), equation 1, without parallelism. It omits the
  // statistics of the norms: mu and rsigma of two norms, 4 bytes per token each.
  const std::int64_t s = 2048, h = 1024, a = 16;
  CHECK(sum == 34 * s * h + 5 * a * s * s + 16 * s);
  // q, k and v are views of one tensor (section 14).
  CHECK(left.at("mixed qkv") == 2 * s * 3 * h);
  CHECK(left.count("query") == 0);
  CHECK(left.count("value") == 0);
}

// Section 16: one byte per element in the buffer and one in its transposed copy, instead of two and
// two. The data-parallel gather halves as well.
TEST_CASE("program: matrices held in fp8 are two bytes an element instead of four") {
  Plan plan = sample::llama_8b();
  plan.numerics.fp8 = true;
  const auto held = [](const Plan& p) {
    const Program program = sample::job(p).classes[0];
    sample::Walk walk(program);
    walk.run(program.setup);
    walk.run(program.first_step);
    std::int64_t gathered = 0;
    sample::each_of_step(program, [&](const Instruction& i) {
      if (i.op != Op::collective) return;
      const Transfer& t = program.transfers[i.index];
      if (t.kind == collective::Kind::all_gather && t.communicator == Stream::dp_cp)
        gathered += t.bytes.n;
    });
    return std::map<std::string, std::int64_t>{
        {"buffer", walk.bytes("parameter buffer")},
        {"cast", walk.bytes("weights in fp8")},
        {"transposed", walk.bytes("transposed weights in fp8")},
        {"gradients", walk.bytes("gradient buffer")},
        {"gathered", gathered}};
  };
  auto wide = held(plan);
  plan.numerics.fp8_parameters = true;
  REQUIRE(problems(plan).empty());
  auto narrow = held(plan);
  const std::int64_t matrices = wide.at("cast") / 2;
  CHECK(matrices > 0);
  CHECK(narrow.at("cast") == 0);
  CHECK(narrow.at("transposed") == matrices);
  CHECK(narrow.at("buffer") == wide.at("buffer") - matrices);
  CHECK(narrow.at("gradients") == wide.at("gradients"));
  CHECK(narrow.at("gathered") == wide.at("gathered") - matrices);
  plan.numerics.fp8 = false;
  CHECK(problems(plan).front().message == "fp8_parameters needs products in fp8; write fp8 true");
  plan.numerics.fp8 = true;
  plan.sharding.data_parallel = DataParallelism::fsdp1;
  REQUIRE(!problems(plan).empty());
  CHECK(problems(plan).front().message.find("fp8_parameters: fsdp1's flat parameters") == 0);
}

TEST_CASE("program: unfused attention with grouped queries saves keys and values of all heads") {
  Plan plan = sample::llama_8b();
  plan.batch.sequence = 2048;
  plan.stack.attention = AttentionBackend::unfused;
  const auto left = sample::left_by(sample::job(plan).classes[0], "layer forward");
  const std::int64_t rows = 2 * 2048 * 2048;  // s x a d / t in bf16
  CHECK(left.at("keys of all heads") == rows);
  CHECK(left.at("values of all heads") == rows);
  CHECK(left.at("query") == rows);
  CHECK(left.count("key") == 0);
  CHECK(left.count("mixed qkv") == 0);
}

TEST_CASE("program: scores live until the module returns and softmax works in place up to 4096") {
  for (const std::int64_t sequence : {2048, 8192}) {
    Plan plan = one_layer(sample::gpt());
    plan.batch.sequence = sequence;
    CAPTURE(sequence);
    const Program program = sample::job(plan).classes[0];
    const std::int64_t scores = 2 * 16 * sequence * sequence;
    when(program, "layer forward", "context by head",
         [&](const sample::Walk& w) { CHECK(w.bytes("scores") == scores); });
    int gradients = 0;
    when(program, "layer backward", "gradient of softmax",
         [&](const sample::Walk&) { ++gradients; });
    const auto count = [&](const std::string& label) {
      return std::count(program.labels.begin(), program.labels.end(), label);
    };
    CHECK(gradients == 1);
    CHECK(count("gradient of masked scores") == (sequence > 4096 ? 1 : 0));
    // PyTorch's masking saves the mask; the kernel needs none.
    when(program, "layer backward", "gradient of probabilities", [&](const sample::Walk& w) {
      CHECK(w.bytes("attention mask") == (sequence > 4096 ? sequence * sequence : 0));
    });
  }
}

TEST_CASE("program: selective recomputation saves the arguments of the core of attention") {
  Plan plan = sample::llama_8b();
  plan.policy.recompute = Recompute::selective;
  const Program program = sample::job(plan).classes[0];
  const auto left = sample::left_by(program, "layer forward");
  // The value is a view of qkv's output: 8192 x (2048 + 2 x 512).
  CHECK(left.at("mixed qkv") == 2 * 8192 * 3072);
  CHECK(left.at("query") == 2 * 8192 * 2048);
  CHECK(left.at("key") == 2 * 8192 * 512);
  CHECK(left.count("value") == 0);
  CHECK(left.count("lse") == 0);
  // The projection frees its input explicitly before the core is recomputed.
  plan = one_layer(plan);
  when(sample::job(plan).classes[0], "layer backward", "value",
       [](const sample::Walk& w) { CHECK(w.bytes("attention output") == 0); });
}

TEST_CASE("program: without saving a layer holds q and k until attention returns") {
  Plan plan = one_layer(sample::llama_8b());
  plan.policy.recompute = Recompute::full;
  when(sample::job(plan).classes[0], "layer forward without saving", "row-parallel output",
       [](const sample::Walk& w) {
         CHECK(w.bytes("query") == 2 * 8192 * 2048);
         CHECK(w.bytes("key") == 2 * 8192 * 512);
         CHECK(w.bytes("attention output") == 2 * 8192 * 2048);
         CHECK(w.bytes("value") == 0);
         CHECK(w.bytes("lse") == 0);
       });
}

TEST_CASE("program: ring attention holds all its buffers and partial outputs until it returns") {
  Plan plan = one_layer(sample::llama_8b());
  plan.mesh.cp = 4;
  REQUIRE(problems(plan).empty());
  const Job job = sample::job(plan);
  const std::int64_t S = 2048, query = 2 * S * 2048, kv = 2 * 2 * S * 512, lse = 4 * 16 * S;
  for (int r = 0; r < 4; ++r) {
    CAPTURE(r);
    const Program& program = job.classes[static_cast<std::size_t>(r)];
    when(program, "layer forward", "lse", [&](const sample::Walk& w) {
      CHECK(w.bytes("k and v of the ring") == 4 * kv);
      // Step 0 and steps 1..r have whole queries, the others half of them.
      CHECK(w.bytes("partial output") == query * (1 + r) + query / 2 * (3 - r));
      CHECK(w.bytes("running statistics in fp64") == 2 * lse);
      // Halves of the last two steps, held by Python variables.
      const int first = 2 - std::min(2, 3 - r);
      CHECK(w.bytes("second half of q") == 0);  // one sequence: a view
      CHECK(w.bytes("first half of k and v") == first * kv / 2);
    });
    // Rotated keys stay a variable of Attention.forward; the copy of v was freed with the module.
    when(program, "layer forward", "row-parallel output", [&](const sample::Walk& w) {
      CHECK(w.bytes("key") == kv / 2);
      CHECK(w.bytes("value") == 0);
      CHECK(w.bytes("k and v of the ring") == kv);
    });
  }
  // Odd steps allocate from the second stream's pool.
  const Program& program = job.classes[1];
  const auto block = std::find_if(program.blocks.begin(), program.blocks.end(),
                                  [](const Block& b) { return b.name == "layer forward"; });
  REQUIRE(block != program.blocks.end());
  std::map<std::string, std::int64_t> second;
  for (const Instruction& i : block->code)
    if (i.op == Op::alloc && i.stream == Stream::cp_compute)
      second[program.labels[i.label]] += i.value;
  // Rank 1: step 1 (whole queries, half the keys; it requests buffer 2) and step 3 (half queries).
  CHECK(second.at("k and v of the ring") == kv);
  CHECK(second.at("partial output") == query + query / 2);
}

TEST_CASE("program: a ring's backward returns dk and dv as views of one buffer") {
  for (const AttentionBackend backend : {AttentionBackend::flash, AttentionBackend::cudnn}) {
    Plan plan = one_layer(sample::llama_8b());
    plan.mesh.cp = 4;
    plan.stack.attention = backend;
    const Job job = sample::job(plan);
    const std::int64_t S = 2048, query = 2 * S * 2048, kv = 2 * 2 * S * 512, lse = 4 * 16 * S;
    // The backward pass of rank 1: second halves, second halves (steps 3, 2), first keys, its own.
    const Program& program = job.classes[1];
    when(program, "layer backward", "key gradient before rope", [&](const sample::Walk& w) {
      CHECK(w.bytes("ring buffer of kv and dkv") == 2 * kv);
      CHECK(w.bytes("dk") + w.bytes("dv") == 0);
      CHECK(w.bytes("dq") == query);
      CHECK(w.bytes("dq of the step") + w.bytes("dkv of the step") == 0);
    });
    int step = 0;
    when(
        program, "layer backward", "softmax_d",
        [&](const sample::Walk& w) {
          CAPTURE(step);
          CHECK(w.bytes("ring buffer of kv and dkv") == 4 * kv);
          CHECK(w.bytes("second half of lse") == lse / 2);
          // Whether the previous step's results still live while this step's kernel runs.
          const bool cudnn = backend == AttentionBackend::cudnn;
          CHECK(w.count("dq of the step") == (cudnn && step > 0 ? 2 : 1));
          CHECK(w.bytes("second half of q") == 0);  // one sequence: a view
          CHECK(w.bytes("first half of k and v") == (step == 2 ? kv / 2 : 0));
          ++step;
        },
        4);
    CHECK(step == 4);
  }
}

TEST_CASE("program: a ring copies halves of q, out and dout of two sequences, not of one") {
  for (const int batch : {1, 2}) {
    Plan plan = one_layer(sample::llama_8b());
    plan.mesh.cp = 4;
    plan.batch.micro_batch = batch;
    REQUIRE(problems(plan).empty());
    const Job job = sample::job(plan);
    const std::int64_t half = batch == 1 ? 0 : 2 * 2 * 1024 * 2048;  // bf16, two sequences
    const std::int64_t kv = 2 * 2 * batch * 2048 * 512;
    // Rank 1: forward steps 2 and 3, backward steps 0 and 1.
    when(job.classes[1], "layer forward", "lse",
         [&](const sample::Walk& w) { CHECK(w.bytes("second half of q") == 2 * half); });
    int step = 0;
    when(
        job.classes[1], "layer backward", "softmax_d",
        [&](const sample::Walk& w) {
          CAPTURE(batch, step);
          for (const char* name : {"second half of q", "second half of out", "second half of dout"})
            CHECK(w.bytes(name) == (step < 2 ? half : 0));
          CHECK(w.bytes("first half of k and v") == (step == 2 ? kv / 2 : 0));
          ++step;
        },
        4);
    CHECK(step == 4);
  }
}

TEST_CASE("program: flash attention's dq accumulator rounds heads up to 32 columns") {
  Plan plan = one_layer(sample::llama_8b());
  plan.architecture.head_dim = 80;
  plan.architecture.hidden = 2560;
  plan.mesh.tp = 1;
  when(sample::job(plan).classes[0], "layer backward", "dq_accum",
       [](const sample::Walk& w) { CHECK(w.bytes("dq_accum") == 4LL * (8192 + 128) * 32 * 96); });
}

TEST_CASE("program: without atomics each split of flash attention's dq has an accumulator") {
  Plan plan = one_layer(sample::llama_8b());
  plan.mesh.tp = 1;
  const auto accumulator = [&](std::int64_t splits) {
    CAPTURE(splits);
    int seen = 0;
    when(sample::job(plan).classes[0], "layer backward", "dq_accum", [&](const sample::Walk& w) {
      CHECK(w.bytes("dq_accum") == splits * 4 * (8192 + 128) * 32 * 128);
      ++seen;
    });
    CHECK(seen == 1);
  };
  accumulator(1);
  plan.stack.deterministic = true;
  accumulator(4);  // ceil(108 SMs / 32 heads)
  std::int64_t blocks = 0, read = 0;
  const Job split = sample::job(plan);
  for (const model::Operation& o : split.classes[0].operations) {
    if (o.kind == model::OperationKind::attention_backward) blocks = o.blocks;
    if (o.name == "sum dq over splits") read = o.bytes.n;
  }
  CHECK(blocks == 4 * 32);
  CHECK(read == 3LL * 4 * (8192 + 128) * 32 * 128);
  plan.stack.attention = AttentionBackend::cudnn;
  const Job whole = sample::job(plan);
  for (const model::Operation& o : whole.classes[0].operations) {
    CHECK(o.name != "sum dq over splits");
    if (o.kind == model::OperationKind::attention_backward) CHECK(o.blocks == 0);
  }
}

TEST_CASE("program: attention's output is turned where the core has the batch first") {
  struct Case {
    AttentionBackend attention;
    bool rope_fusion, batch_first_core;
    int batch;
    bool turned;
  };
  for (const Case& c : {Case{AttentionBackend::flash, true, true, 2, true},
                        Case{AttentionBackend::flash, false, false, 2, true},
                        Case{AttentionBackend::flash, true, true, 1, false},
                        Case{AttentionBackend::cudnn, true, true, 2, true},
                        Case{AttentionBackend::cudnn, false, true, 2, false},
                        Case{AttentionBackend::cudnn, true, false, 2, false}}) {
    CAPTURE(static_cast<int>(c.attention), c.rope_fusion, c.batch_first_core, c.batch);
    Plan plan = one_layer(sample::llama_8b());
    plan.stack.attention = c.attention;
    plan.stack.rope_fusion = c.rope_fusion;
    plan.stack.batch_first_core = c.batch_first_core;
    plan.batch.micro_batch = c.batch;
    bool turned = false;
    const Job job = sample::job(plan);
    for (const model::Operation& o : job.classes[0].operations)
      turned = turned || o.name == "projection input";
    CHECK(turned == c.turned);
  }
}

TEST_CASE("program: without sequence parallelism the norm output is cleared behind its product") {
  for (const bool sp : {true, false}) {
    CAPTURE(sp);
    Plan plan = one_layer(sample::llama_8b());
    plan.mesh.sequence_parallel = sp;
    const std::int64_t norm = 2 * (sp ? 4096 : 8192) * 4096;
    when(sample::job(plan).classes[0], "layer backward", "norm input gradient",
         [&](const sample::Walk& w) { CHECK(w.bytes("norm output") == norm * (sp ? 2 : 1)); });
  }
}

TEST_CASE("program: the gradient behind dropout and a norm's bias have tensors of their own") {
  Plan plan = one_layer(sample::gpt());
  const Program program = sample::job(plan).classes[0];
  when(program, "layer backward", "fc2 input gradient", [](const sample::Walk& w) {
    CHECK(w.bytes("dropout gradient") == 2 * 2048 * 1024);
    CHECK(w.bytes("gradient stream") == 2 * 2048 * 1024);
  });
  when(program, "layer backward", "norm bias gradient parts", [](const sample::Walk& w) {
    CHECK(w.bytes("norm weight gradient parts") == 4 * 108 * 1024);
    CHECK(w.bytes("norm bias gradient parts") == 4 * 108 * 1024);
  });
}

TEST_CASE("program: learned positions have no backward pass of layout changes") {
  Plan plan = one_layer(sample::gpt());
  plan.stack.attention = AttentionBackend::flash;
  const Program program = sample::job(plan).classes[0];
  when(program, "layer backward", "mixed qkv gradient", [](const sample::Walk& w) {
    CHECK(w.bytes("query gradient before rope") == 0);
    CHECK(w.bytes("dq") == 2 * 2048 * 1024);
  });
}

TEST_CASE("program: the embedding is reduced, summed and cut as Megatron-LM does it") {
  // Learned positions and sequence parallelism: whole rows are all-reduced; the shard is a clone.
  Plan plan = sample::gpt();
  plan.mesh.tp = 2;
  const auto kinds = [](const Program& program, const std::string& name) {
    std::map<collective::Kind, std::int64_t> bytes;
    for (const Block& block : program.blocks)
      if (block.name == name) {
        for (const Instruction& i : block.code)
          if (i.op == Op::collective) {
            const Transfer& t = program.transfers[i.index];
            if (t.communicator == Stream::tp) bytes[t.kind] += t.bytes.n;
          }
        break;
      }
    return bytes;
  };
  const std::int64_t full = 2 * 2048 * 1024;
  Program program = sample::job(plan).classes[0];
  CHECK(kinds(program, "embedding").at(collective::Kind::all_reduce) == full);
  CHECK(kinds(program, "embedding").count(collective::Kind::reduce_scatter) == 0);
  when(program, "embedding", "embedding shard", [&](const sample::Walk& w) {
    CHECK(w.bytes("embedding rows") + w.bytes("position rows") + w.bytes("rows with positions") ==
          3 * full);
    CHECK(w.bytes("embedding shard") == full / 2);
  });

  // No sequence parallelism, one sequence: the lookup itself is the first layer's input.
  plan = sample::llama_8b();
  plan.mesh.sequence_parallel = false;
  program = sample::job(plan).classes[0];
  CHECK(sample::left_by(program, "embedding").at("residual stream") == 2 * 8192 * 4096);
  CHECK(std::count(program.labels.begin(), program.labels.end(), "embedding rows") == 0);
}

TEST_CASE("program: the embedding's backward sums rows in fp32 segments") {
  // 8192 ids, 64128 rows: at most 8192 segments, cut every 10 rows.
  when(sample::job(sample::llama_8b()).classes[0], "embedding backward",
       "embedding gradient by segment", [](const sample::Walk& w) {
         CHECK(w.bytes("embedding gradient by segment") == 4LL * (819 + 8192) * 4096);
         CHECK(w.bytes("embedding gradient") == 2LL * 64128 * 4096);
         CHECK(w.bytes("masked gradient") == 2LL * 8192 * 4096);
         CHECK(w.bytes("gathered gradient") == 0);
       });
  // Up to 3072 ids rows are added without sorting.
  const Program small = sample::job(sample::gpt()).classes[0];
  CHECK(std::count(small.labels.begin(), small.labels.end(), "sorted ids") == 0);
}

TEST_CASE("program: cross entropy holds three times the logits in both directions") {
  const Plan plan = sample::llama_8b();
  const Program program = sample::job(plan).classes[0];
  const std::int64_t l = 2LL * 8192 * 64128;  // L, the bf16 logits: 1002 MiB
  when(program, "head and loss", "row maximum", [&](const sample::Walk& w) {
    CHECK(w.bytes("logits") + w.bytes("fp32 logits, then softmax") == 3 * l);
  });
  when(program, "head and loss backward", "logits gradient", [&](const sample::Walk& w) {
    CHECK(w.bytes("logits gradient") + w.bytes("fp32 logits, then softmax") == 3 * l);
    // forward_step's local variables are freed; tensors that autograd saved are not.
    CHECK(w.bytes("labels") == 0);
    CHECK(w.bytes("tokens") == 0);
    CHECK(w.bytes("token losses") == 0);
    CHECK(w.bytes("loss mask") == 4 * 8192);
    CHECK(w.bytes("masked target") == 8 * 8192);
  });
}
