// mixture_test.cpp — layers with experts: saved and sent bytes by the dispatcher's formulas, the
// parameters of a rank, drawn routes, and impossible plans.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "sample.h"
#include "sim/program/ir/routes.h"

namespace {

using namespace sim;
using namespace sim::program;

std::string first_problem(const Plan& plan) {
  const Diagnostics found = problems(plan);
  return found.empty() ? "" : found.front().where + ": " + found.front().message;
}

// Bytes that the forward pass of a layer with experts leaves in the layer's slots, by label.
std::map<std::string, std::int64_t> saved_of(const Plan& plan) {
  const Job job = sample::job(plan);
  const Program& p = job.classes.front();
  std::map<std::string, std::int64_t> bytes;
  for (const Block& block : p.blocks) {
    if (block.name != "layer forward" || !bytes.empty()) continue;
    for (const Instruction& i : block.code) {
      if (i.space != Space::layer) continue;
      if (i.op == Op::alloc) bytes[p.labels[i.label]] += i.value;
    }
    if (!bytes.count("router logits")) bytes.clear();
  }
  return bytes;
}

// Names, labels and streams of the instructions in the first block with that name.
std::vector<std::string> issued(const Program& p, std::string_view block_name) {
  std::vector<std::string> found;
  for (const Block& block : p.blocks) {
    if (block.name != block_name) continue;
    for (const Instruction& i : block.code) {
      const std::string on = i.stream == Stream::side ? " on side" : "";
      if (i.op == Op::kernel) found.push_back(std::string(p.operations[i.index].name) + on);
      if (i.op == Op::collective) found.push_back(std::string(p.labels[i.label]) + on);
      if (i.op == Op::alloc) found.push_back("alloc " + std::string(p.labels[i.label]) + on);
    }
    if (std::ranges::count(found, "router") > 0) break;
    found.clear();
  }
  return found;
}

std::ptrdiff_t place(const std::vector<std::string>& in, std::string_view what) {
  const auto at = std::ranges::find(in, what);
  CAPTURE(what);
  REQUIRE(at != in.end());
  return at - in.begin();
}

// Bytes of each collective in the step's first pass that has it.
std::int64_t bytes_of(const Plan& plan, std::string_view label) {
  const Job job = sample::job(plan);
  const Program& p = job.classes.front();
  for (const Block& block : p.blocks)
    for (const Instruction& i : block.code)
      if (i.op == Op::collective && p.labels[i.label] == label) return p.transfers[i.index].bytes.n;
  return 0;
}

}  // namespace

TEST_CASE("mixture: a layer saves what the formulas of its dispatcher say") {
  // For R = n K rows: input 2 h, output of the product up 4 f, activation 2 f, probabilities 4.
  // Router: logits, probabilities and map of n E, and the row map 4 n (2 E + 1).
  const Plan plan = sample::mixture();
  const std::int64_t n = 2048, rows = 2 * n, h = 1024, f = 1024, experts = 8;
  auto saved = saved_of(plan);
  CHECK(saved["expert input"] == 2 * rows * h);
  CHECK(saved["expert fc1 output"] == 4 * rows * f);
  CHECK(saved["expert activation output"] == 2 * rows * f);
  CHECK(saved["expert probabilities"] == 4 * rows);
  CHECK(saved["router logits"] == 2 * n * experts);
  CHECK(saved["row id map"] == 4 * n * (2 * experts + 1));
  CHECK(saved["expert norm output"] == 2 * n * h);
  // Two tensor-parallel ranks share the experts: half the tokens each, all rows, half the columns.
  Plan split = plan;
  split.mesh.tp = split.mesh.etp = 2;
  saved = saved_of(split);
  CHECK(saved["expert input"] == 2 * rows * h);
  CHECK(saved["expert fc1 output"] == 4 * rows * f / 2);
  CHECK(saved["expert norm output"] == n * h);
}

TEST_CASE("mixture: what leaves a rank is its copies, or one for each rank with DeepEP") {
  Plan plan = sample::mixture();
  CHECK(bytes_of(plan, "dispatch") == 2 * 2048 * 2 * 1024);
  CHECK(bytes_of(plan, "dispatch scores") == 4 * 2048 * 2);
  // All copies; the network computes from its nodes how many travel.
  plan.experts.dispatcher = Dispatcher::flex;
  CHECK(bytes_of(plan, "dispatch") == 2 * 2048 * 2 * 1024);
  CHECK(bytes_of(plan, "dispatch scores") == 0);
  plan.experts.dispatcher = Dispatcher::alltoall;
  plan.experts.capacity_factor = 0.5;
  CHECK(bytes_of(plan, "dispatch") == 2 * 2048 * 1024);
}

TEST_CASE("mixture: a token of K choices has experts on so many places") {
  // With 4 places 4 (1 - (3/4)^2); with 1 place 1.
  CHECK(Choices{2}.places(4) == Approx(1.75));
  CHECK(Choices{8}.places(1) == Approx(1));
  // DeepSeek-V3: 8 choices in 4 of 8 groups, a group per node: 4 (1 - (3/4)^8) nodes; of 64 ranks
  // the 32 of these groups.
  CHECK(Choices{8, 8, 4}.places(8) == Approx(4 * (1 - std::pow(0.75, 8))));
  CHECK(Choices{8, 8, 4}.places(64) == Approx(32 * (1 - std::pow(31.0 / 32, 8))));
  // Two groups per place: 4 of 8 groups miss a place with 6/8 x 5/7 x 4/6 x 3/5 = 3/14.
  const double left = 4 * (1 - 3.0 / 14);
  CHECK(Choices{8, 8, 4}.places(4) == Approx(left * (1 - std::pow(1 - 1 / left, 8))));
}

TEST_CASE("mixture: shares that are given say how many rows each expert gets") {
  Plan plan = sample::mixture();
  plan.experts.routing = Routing::skewed;
  // Ranks 0 ... 3 hold two experts each; the first rank receives half of all.
  plan.experts.shares = {{0.25, 0.25, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05}};
  const std::int64_t n = 2048;
  const Routes routes = drawn_routes(plan, n, {1, 2, false});
  std::int64_t first = 0, all = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    all += routes.rows[i];
    if (i % 4 == 0) first += routes.rows[i];
  }
  // 4 sources of 2 n choices: 8 n / 2, with a deviation of sqrt(8 n / 4) = 64.
  CHECK(std::abs(first - 4 * n) < 5 * 64);
  CHECK(all == Approx(8 * n).epsilon(0.01));
}

TEST_CASE("mixture: the ranks of a job hold each expert once and the rest whole") {
  for (const auto& [name, plan] : sample::mixtures()) {
    if (plan.mesh.tp > 1 || plan.architecture.predicted_tokens > 0 || plan.trains_adapters())
      continue;
    CAPTURE(name);
    const model::Architecture& a = plan.architecture;
    const Job job = sample::job(plan);
    std::int64_t held = 0;
    for (int stage = 0; stage < plan.mesh.pp; ++stage)
      held += job.classes[static_cast<std::size_t>(job.mesh.class_of({stage, 0, 0, 0}))].parameters;
    const std::int64_t of_expert =
        3 * a.hidden * a.experts.ffn + (a.linear_bias ? 2 * a.experts.ffn + a.hidden : 0);
    const std::int64_t local = model::mixture_count(a) * a.experts.count / plan.mesh.ep * of_expert;
    std::int64_t expected = model::parameters(a);
    CHECK(held + (plan.mesh.ep - 1) * local == expected);
  }
}

TEST_CASE("mixture: routes are drawn by seed, layer and microbatch, and lose no token") {
  Plan plan = sample::mixture();
  plan.experts.routing = Routing::random;
  const std::int64_t n = 2048;
  const auto load = [&](const RouteKey& key, int place) {
    return drawn_load(plan, n, key, {place});
  };
  std::int64_t arriving = 0, sent = 0;
  for (int place = 0; place < 4; ++place) {
    arriving += load({1, 2, false}, place).arriving;
    sent += load({1, 2, false}, place).sent;
  }
  CHECK(arriving == sent);
  CHECK(sent == Approx(4 * 2 * n).epsilon(0.01));
  CHECK(load({1, 2, false}, 0).arriving == load({1, 2, false}, 0).arriving);
  CHECK(load({1, 2, false}, 0).arriving != load({1, 3, false}, 0).arriving);
  CHECK(load({1, 2, false}, 0).arriving != load({2, 2, false}, 0).arriving);
  // Equal probabilities: the fullest of four ranks is within 5 sigma of the mean n K, sigma^2 about
  // 3/4 n K x 4/4.
  const std::int64_t even = load({1, 2, false}, 0).busiest;
  CHECK(even < 2 * n + 5 * 64);
  plan.experts.routing = Routing::skewed;
  plan.experts.skew = 0;
  CHECK(load({1, 2, false}, 0).busiest < 2 * n + 5 * 64);
  plan.experts.skew = 1;
  CHECK(load({1, 2, false}, 0).busiest > 2 * n * 5 / 4);
  plan.experts.seed = 2;
  CHECK(load({1, 2, false}, 0).arriving > 0);
}

TEST_CASE("mixture: ranks with routes of their own are classes of their own") {
  Plan plan = sample::mixture();
  CHECK(sample::job(plan).classes.size() == 2);
  plan.experts.routing = Routing::random;
  const Job job = sample::job(plan);
  CHECK(job.classes.size() == 8);
  CHECK(job.classes[1].expert_ranks == std::vector<int>{1});
}

TEST_CASE("mixture: a shared expert beside the exchanges is issued behind each of them") {
  Plan plan = sample::mixture();
  sample::make_latent(plan);
  plan.experts.shared_overlap = true;
  const Program p = sample::job(plan).classes.front();
  const auto forward = issued(p, "layer forward");
  CHECK(place(forward, "dispatch") < place(forward, "shared fc1 on side"));
  CHECK(place(forward, "shared fc1 on side") < place(forward, "expert fc1"));
  CHECK(place(forward, "combine") < place(forward, "shared fc2 on side"));
  CHECK(place(forward, "shared fc2 on side") < place(forward, "unpermute"));
  CHECK(place(forward, "alloc shared fc1 output on side") > 0);
  // The dispatch of the gradients carries the rows that combine sends back.
  const auto backward = issued(p, "layer backward");
  CHECK(place(backward, "dispatch") < place(backward, "shared fc2 on side"));
  CHECK(place(backward, "shared fc2 on side") < place(backward, "expert fc2"));
  CHECK(place(backward, "combine") < place(backward, "shared fc1 on side"));
  CHECK(place(backward, "shared fc1 on side") < place(backward, "unpermute gradient"));
}

TEST_CASE("mixture: with sequence parallelism an overlapped shared expert saves whole rows") {
  // 2 T h bytes; without overlap they are gathered again in the backward pass.
  Plan plan = sample::mixture();
  sample::make_latent(plan);
  plan.mesh.tp = 2;
  plan.mesh.etp = 1;
  CHECK(saved_of(plan).count("shared expert input") == 0);
  plan.experts.shared_overlap = true;
  CHECK(saved_of(plan)["shared expert input"] == 2 * 2048 * 1024);
}

TEST_CASE("mixture: what hidden exchanges make lies in the second stream's pool") {
  Plan plan = sample::mixture();
  plan.experts.overlaps_all_to_all = true;
  const Program p = sample::job(plan).classes.front();
  const auto forward = issued(p, "layer forward");
  for (const char* label : {"dispatched tokens", "returned tokens", "mixture output"})
    CHECK(place(forward, fmt::format("alloc {} on side", label)) > 0);
  CHECK(place(forward, "alloc expert input") > 0);
  CHECK(std::ranges::count(forward, "alloc residual stream on side") == 1);
}

TEST_CASE("mixture: frozen experts save no inputs of their products, and have no gradients") {
  Plan plan = sample::mixture();
  auto saved = saved_of(plan);
  CHECK(saved.count("expert input") == 1);
  plan.lora.rank = 16;
  plan.lora.fc1 = plan.lora.fc2 = false;
  saved = saved_of(plan);
  CHECK(saved.count("expert input") == 0);
  CHECK(saved.count("expert activation output") == 0);
  CHECK(saved.count("expert fc1 output") == 1);
  const auto backward = issued(sample::job(plan).classes.front(), "layer backward");
  // One product for each input gradient, none for the weight.
  CHECK(std::ranges::count(backward, "expert fc1") == 1);
  CHECK(std::ranges::count(backward, "expert fc2") == 1);
  sample::make_latent(plan);
  CHECK(first_problem(plan) ==
        "lora_modules: latent attention has no linear_qkv, and adapters of its narrow and wide "
        "products are not simulated; write lora_modules linear_proj");
}

TEST_CASE("mixture: experts of a rank share an adapter, whose gradients their ranks sum") {
  // r (h + 2 f) for the products up and r (f + h) for those down, in each layer.
  Plan plan = sample::mixture();
  const std::int64_t h = 1024, f = 1024, r = 16;
  plan.lora.rank = r;
  plan.lora.qkv = plan.lora.fc1 = plan.lora.fc2 = false;
  const std::int64_t without = sample::job(plan).classes.front().parameters;
  plan.lora.fc1 = plan.lora.fc2 = true;
  CHECK(sample::job(plan).classes.front().parameters == without + 2 * r * (h + 2 * f + f + h));
  CHECK(bytes_of(plan, "adapter gradient of experts") == 2 * r * h);
  // If one rank has all experts, there is no rank to sum with.
  Plan alone = plan;
  alone.mesh.ep = 1;
  CHECK(bytes_of(plan, "adapter gradient of experts") > 0);
  CHECK(bytes_of(alone, "adapter gradient of experts") == 0);
  // The adapter's own input is saved, unlike that of the frozen product.
  auto saved = saved_of(plan);
  CHECK(saved["expert input"] == 2 * 2 * 2048 * h);
  CHECK(saved["expert adapter's narrow rows"] == 2 * 2 * 2 * 2048 * r);
  plan.mesh.tp = 2;
  CHECK(first_problem(plan) ==
        "lora_modules: adapters of experts are simulated where one rank has the whole of each; "
        "write etp 1, or write lora_modules without linear_fc1 and linear_fc2");
}

TEST_CASE("mixture: each module that predicts has parameters, a layer, a head and a loss") {
  Plan plan = sample::mixture();
  sample::make_latent(plan);
  const auto last = [&](int modules) {
    plan.architecture.predicted_tokens = modules;
    const Job job = sample::job(plan);
    const Program& p = job.classes[static_cast<std::size_t>(job.mesh.class_of({1, 0, 0, 0}))];
    std::ptrdiff_t heads = 0;
    for (const Block& block : p.blocks)
      if (block.name == "head and loss" && heads == 0)
        heads = std::ranges::count_if(block.code, [&](const Instruction& i) {
          return i.op == Op::kernel && p.operations[i.index].name == "head";
        });
    return std::pair{p.parameters, heads};
  };
  const auto one = last(1), two = last(2), three = last(3);
  CHECK(one.second == 2);
  CHECK(three.second == 4);
  // Norms 3 h, the joining product 2 h^2, and a layer: no second table.
  const std::int64_t h = 1024;
  CHECK(two.first - one.first == three.first - two.first);
  CHECK(last(0).first + two.first - one.first + 32000 * h == one.first);
  CHECK(two.first - one.first > 2 * h * h + 3 * h);
}

TEST_CASE("mixture: keys and values of latent attention go around a ring in their own widths") {
  // 2 bytes x 1,024 tokens x 16 heads x (96 + 64).
  Plan plan = sample::mixture();
  sample::make_latent(plan);
  plan.mesh.cp = 2;
  CHECK(bytes_of(plan, "ring exchange") == 2 * 1024 * 16 * (96 + 64));
  plan.mesh.context = "ulysses";
  CHECK(bytes_of(plan, "head exchange") == 2 * 1024 * 16 * 96);
  plan.mesh.context = "usp";
  CHECK(first_problem(plan) ==
        "context: context usp has one size for keys and values, which latent attention has not; "
        "write context ring, all-gather, ulysses or hierarchical");
}

TEST_CASE("mixture: impossible plans are refused with what would do") {
  Plan plan = sample::mixture();
  CHECK(first_problem(plan).empty());
  plan.mesh.ep = 3;
  CHECK(first_problem(plan) == "ep: ep 3 does not divide the 8 experts; ep may be 1, 2, 4 or 8");
  plan = sample::mixture();
  plan.mesh.ep = 8;
  CHECK(first_problem(plan) ==
        "ep: etp x ep = 1 x 8 does not divide the tp x cp x dp = 4 ranks of a stage; the experts' "
        "degrees must");
  plan = sample::mixture();
  plan.architecture.experts.top_k = 9;
  CHECK(first_problem(plan) == "model: each token goes to 9 of 8 experts; there may be 1 to 8");
  plan = sample::mixture();
  plan.experts.capacity_factor = 1e-4;
  CHECK(first_problem(plan).starts_with(
      "capacity_factor: capacity_factor 0.0001 leaves an expert 0.0512 of 2048 tokens"));
  plan = sample::mixture();
  plan.architecture.experts.layers = "([0]*1+[1]*4)";
  CHECK(first_problem(plan) ==
        "architecture: expert_layers \"([0]*1+[1]*4)\" speaks of 5 layers, the model has 4");
  plan = sample::mixture();
  plan.architecture.experts.count = 0;
  CHECK(first_problem(plan) == "ep: ep 4 needs a mixture of experts; small mixture is dense");
  plan = sample::mixture();
  plan.mesh.tp = 2;
  plan.mesh.sequence_parallel = false;
  CHECK(first_problem(plan) ==
        "sequence_parallel: experts with tensor parallelism need sequence_parallel; turn it on");
  plan = sample::mixture();
  plan.experts.shared_overlap = true;
  CHECK(first_problem(plan) ==
        "shared_expert_overlap: shared_expert_overlap needs a shared expert, which the model has "
        "not; leave it out");
  sample::make_latent(plan);
  plan.experts.overlaps_all_to_all = true;
  CHECK(first_problem(plan) ==
        "shared_expert_overlap: shared_expert_overlap does not go with overlap_expert_all_to_all, "
        "which hides the same exchanges; turn one of them off");
  plan.experts.shared_overlap = false;
  plan.architecture.predicted_tokens = 2;
  CHECK(first_problem(plan) ==
        "mtp_layers: overlap_expert_all_to_all goes with one module that predicts more tokens, not "
        "2; write mtp_layers 1 or 0");
}

TEST_CASE("program: gradients of experts by grouped_gemm are made whole and added to main_grad") {
  Plan plan = sample::mixture();
  const auto adds = [](const Plan& p) {
    const Job made = sample::job(p);
    const std::vector<std::string> found = issued(made.classes.front(), "layer backward");
    return std::pair{std::ranges::count(found, "main_grad add"),
                     std::ranges::count(found, "alloc gradient of all experts")};
  };
  CHECK(adds(plan) == std::pair<std::ptrdiff_t, std::ptrdiff_t>{0, 0});
  plan.experts.legacy_grouped_gemm = true;
  CHECK(adds(plan) == std::pair<std::ptrdiff_t, std::ptrdiff_t>{2, 2});
  // The gradient exists before the product that fills it, and the product reads no main_grad.
  const Job made = sample::job(plan);
  const std::vector<std::string> found = issued(made.classes.front(), "layer backward");
  const std::ptrdiff_t gradient = place(found, "alloc gradient of all experts");
  CHECK(found[static_cast<std::size_t>(gradient) + 1] == "expert fc2");
  CHECK(found[static_cast<std::size_t>(gradient) + 2] == "main_grad add");
  for (const model::Operation& o : made.classes.front().operations)
    if (o.name == "expert fc1" || o.name == "expert fc2") CHECK_FALSE(o.accumulates_fp32);
  plan.numerics.fp8 = true;
  CHECK(first_problem(plan) ==
        "legacy_grouped_gemm: legacy_grouped_gemm multiplies in 16 bits; write fp8 false");
}
