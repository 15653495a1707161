// context_test.cpp — programs of every context-parallel method: bytes in closed form, the order of
// instructions, and impossible shapes.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <numeric>

#include "sample.h"
#include "sim/program/plan/context_plan.h"

using namespace sim;
using namespace sim::program;
using collective::Kind;

namespace {

Plan shared(std::string_view way, int cp, int ulysses = 0) {
  Plan p = sample::llama_8b();  // tp 2: 16 heads, 4 key-value heads of 128 a rank
  p.architecture.layers = 1;
  p.mesh.cp = cp;
  p.mesh.context = way;
  p.mesh.ulysses = ulysses;
  p.batch.global_batch = p.mesh.dp;
  p.batch.sequence = 4096;
  return p;
}

mesh::Communicator who(Stream stream) {
  return stream == Stream::cp        ? mesh::Communicator::cp
         : stream == Stream::cp_ring ? mesh::Communicator::ring
                                     : mesh::Communicator::ulysses;
}

// Bytes that a rank sends in blocks with a name.
std::int64_t sent(const Job& job, const std::string& block, Kind kind) {
  const Program& program = job.classes.front();
  std::int64_t bytes = 0;
  for (const Pass& pass : program.step)
    for (const Call& call : program.templates[pass.pattern].calls) {
      if (program.blocks[call.block].name != block) continue;
      for (const Instruction& i : program.blocks[call.block].code) {
        if (i.op != Op::collective) continue;
        const Transfer& t = program.transfers[i.index];
        const bool of_context = t.communicator == Stream::cp || t.communicator == Stream::cp_ring ||
                                t.communicator == Stream::cp_exchange;
        if (!of_context || t.kind != kind) continue;
        const auto ranks =
            static_cast<std::int64_t>(job.mesh.groups(who(t.communicator)).ranks.front().size());
        bytes += kind == Kind::ring_exchange ? t.bytes.n : t.bytes.n / ranks * (ranks - 1);
      }
    }
  return bytes;
}

// The instructions of the context's streams and of attention in order, as "compute kernel query
// layout".
std::string picture(const Program& program, const std::string& name) {
  const auto block = std::ranges::find(program.blocks, name, &Block::name);
  std::string text;
  bool inside = false;
  for (const Instruction& i : block->code) {
    const std::string& label = program.labels[i.label];
    if (label == "exchange layout" || label == "key value gather" || label == "cat k v")
      inside = true;
    if (label == "row-parallel output" || label == "cat qkv gradient") inside = false;
    if (!inside) continue;
    if (i.op == Op::kernel) text += fmt::format("{}: {}\n", program::name(i.stream), label);
    if (i.op == Op::collective)
      text += fmt::format("{} -> {}: {}\n", program::name(i.stream),
                          program::name(program.transfers[i.index].communicator), label);
    if (i.op == Op::wait) text += fmt::format("{} waits\n", program::name(i.stream));
  }
  return text;
}

}  // namespace

TEST_CASE("program: Ulysses exchanges q, k, v and the output, and their gradients") {
  for (const int cp : {2, 4, 8, 16}) {
    const Plan plan = shared("ulysses", cp);
    REQUIRE(problems(plan).empty());
    const Job job = sample::job(plan);
    // S b d x 2 bytes per head; 4 groups are repeated until cp divides them.
    const std::int64_t head = 4096 / cp * 128 * 2, keys = std::lcm(4, cp);
    CHECK(sent(job, "layer forward", Kind::all_to_all) ==
          head * (2 * 16 + 2 * keys) * (cp - 1) / cp);
    CHECK(sent(job, "layer backward", Kind::all_to_all) ==
          head * (3 * 16 + 2 * keys) * (cp - 1) / cp);
    CHECK(sent(job, "layer forward", Kind::ring_exchange) == 0);
  }
}

TEST_CASE("program: gathered keys come twice and their gradients are scattered once") {
  for (const int cp : {2, 4, 8}) {
    const Job job = sample::job(shared("all-gather", cp));
    const std::int64_t keys = std::int64_t{4096} * 4 * 128 * 2;
    CHECK(sent(job, "layer forward", Kind::all_gather) == 2 * keys * (cp - 1) / cp);
    CHECK(sent(job, "layer backward", Kind::all_gather) == 2 * keys * (cp - 1) / cp);
    CHECK(sent(job, "layer backward", Kind::reduce_scatter) == 2 * keys * (cp - 1) / cp);
  }
}

TEST_CASE("program: two levels exchange among neighbours and go round what is left") {
  for (const char* way : {"hierarchical", "usp"})
    for (const int ulysses : {1, 2, 4, 8}) {
      // It never repeats its 4 groups.
      if (ulysses == 8 && std::string_view(way) == "hierarchical") continue;
      const Plan plan = shared(way, 8, ulysses);
      CAPTURE(way, ulysses);
      REQUIRE(problems(plan).empty());
      const Job job = sample::job(plan);
      const std::int64_t head = 4096 / 8 * 128 * 2, keys = std::lcm(4, ulysses);
      const std::int64_t ring = 8 / ulysses;
      CHECK(sent(job, "layer forward", Kind::all_to_all) ==
            head * (2 * 16 + 2 * keys) * (ulysses - 1) / ulysses);
      // TransformerEngine exchanges the output once more, yunchang only its gradient.
      const bool engine = std::string_view(way) == "hierarchical";
      CHECK(sent(job, "layer backward", Kind::all_to_all) ==
            head * ((engine ? 3 : 2) * 16 + 2 * keys) * (ulysses - 1) / ulysses);
      // A ring moves k and v with u times the tokens and 1/u of the heads. Backward: k, v, dk and
      // dv. yunchang's gradients are in fp32 and travel the whole ring.
      CHECK(sent(job, "layer forward", Kind::ring_exchange) == (ring - 1) * 2 * head * keys);
      const std::int64_t rounds = engine ? 2 * ring - 2 : ring - 1 + 2 * ring;
      CHECK(sent(job, "layer backward", Kind::ring_exchange) ==
            (ring == 1 ? 0 : rounds * 2 * head * keys));
    }
}

TEST_CASE("program: every way to share a sequence computes the same scores") {
  const auto flops = [](const Plan& plan, model::OperationKind kind) {
    double sum = 0;
    const Job job = sample::job(plan);
    for (const Program& program : job.classes)
      sample::each_of_step(program, [&](const Instruction& i) {
        if (i.op == Op::kernel && program.operations[i.index].kind == kind)
          sum += program.operations[i.index].flops;
      });
    return sum;
  };
  for (const auto kind :
       {model::OperationKind::attention_forward, model::OperationKind::attention_backward}) {
    const double alone = flops(shared("ring", 1), kind);
    for (const context::Method& method : context::catalog())
      CHECK(flops(shared(method.name, 4), kind) == Approx(alone));
  }
}

TEST_CASE("program: an exchange of heads lays out one tensor while another travels") {
  const Job job = sample::job(shared("ulysses", 4));
  CHECK(picture(job.classes.front(), "layer forward") == R"(compute: exchange layout
compute -> cp: head exchange
compute: exchange layout
compute -> cp: head exchange
cp compute waits
cp compute: exchange layout
compute: exchange layout
compute -> cp: head exchange
cp compute waits
cp compute: exchange layout
cp compute waits
cp compute: exchange layout
compute waits
compute: attention
compute: exchange layout
compute -> cp: head exchange
cp compute waits
cp compute: exchange layout
compute waits
)");
}

TEST_CASE("program: gathered keys come first, then each chunk runs on a stream of its own") {
  const Job job = sample::job(shared("all-gather", 2));
  CHECK(picture(job.classes.front(), "layer forward") == R"(compute -> cp: key value gather
compute: order of chunks
compute -> cp: key value gather
compute: order of chunks
cp compute waits
compute: attention
cp compute: attention
compute: copy output
cp compute: copy output
compute waits
)");
}

TEST_CASE("program: a way to share a sequence that cannot be is refused with what would do") {
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(sample::rules(shared("ulises", 2)), "ulysses"));
  Plan plan = shared("ulysses", 32);
  plan.batch.sequence = 8192;
  CHECK(has(sample::rules(plan),
            "cp: context ulysses, cp 32: 16 heads of a rank are not shared evenly by 32 ranks; cp "
            "may be 1, 2, 4, 8 or 16"));
  CHECK(has(sample::rules(shared("hierarchical", 8, 8)), "ulysses may be 1, 2 or 4"));
  CHECK(has(sample::rules(shared("usp", 8, 3)), "ulysses may be 1, 2, 4 or 8"));
  CHECK(has(sample::rules(shared("ring", 8, 2)), "leave it out"));
  plan = shared("all-gather", 2);
  plan.batch.packed_document = 512;
  CHECK(has(sample::rules(plan), "write context ring"));
  plan = shared("all-gather", 2);
  plan.architecture.sliding_window = 1024;
  CHECK(has(sample::rules(plan), "write context ulysses"));
  plan.mesh.context = "ulysses";
  CHECK(sample::rules(plan).empty());
}
