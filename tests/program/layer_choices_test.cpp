// layer_choices_test.cpp — layers that keep, swap or recompute by choice: their text, their rules,
// and the effect of each choice on the program.
#include "sim/program/plan/layer_choices.h"

#include <catch2/catch.hpp>
#include <map>

#include "sample.h"
#include "sim/program/ir/print.h"

using namespace sim;
using namespace sim::program;

namespace {

std::map<std::string, int> calls_of_step(const Program& program) {
  std::map<std::string, int> calls;
  for (const Pass& pass : program.step)
    for (const Call& call : program.templates[pass.pattern].calls)
      ++calls[program.blocks[call.block].name];
  return calls;
}

std::string field_of(const Plan& plan) {
  const auto found = problems(plan);
  return found.empty() ? "" : found.front().where;
}

}  // namespace

TEST_CASE("program: choices of layers are read as they are written") {
  for (const char* text : {"keep", "keep*2,swap*3,recompute", "recompute*32", "swap,keep"}) {
    const LayerChoices read = read_layer_choices(text);
    CHECK(read.problem.empty());
    CHECK(text_of(read.choices) == text);
  }
  CHECK(read_layer_choices("keep*2,swap*3").choices.size() == 5);
  for (const char* text :
       {"kept", "keep*0", "keep*", "keep*x", "keep*2x", "keep*2 ", "keep,,swap", "keep*99999"})
    CHECK_FALSE(read_layer_choices(text).problem.empty());
  // 65536 layers, and no more in total.
  CHECK(read_layer_choices("keep*65536").choices.size() == 65536);
  CHECK(read_layer_choices("keep*65535,swap").choices.size() == 65536);
  for (const char* text : {"keep*65537", "keep*65536,swap", "keep*65535,swap*2"})
    CHECK_FALSE(read_layer_choices(text).problem.empty());
}

TEST_CASE("program: layers that all keep, or all run again, are as without a choice") {
  Plan plan = sample::llama_8b();
  const std::string kept = print(sample::job(plan).classes[0]);
  plan.policy.choices.assign(32, LayerChoice::keep);
  CHECK(print(sample::job(plan).classes[0]) == kept);
  plan.policy.choices.assign(32, LayerChoice::recompute);
  const std::string chosen = print(sample::job(plan).classes[0]);
  plan.policy = {};
  plan.policy.recompute = Recompute::full;
  plan.policy.recompute_method = RecomputeMethod::block;
  plan.policy.recompute_layers = 32;
  CHECK(print(sample::job(plan).classes[0]) == chosen);
}

TEST_CASE("program: each layer does what was chosen for it") {
  Plan plan = sample::llama_8b();
  plan.policy.choices = read_layer_choices("swap,keep*9,swap*2,recompute*19,keep").choices;
  REQUIRE(problems(plan).empty());
  const Program program = sample::job(plan).classes[0];
  auto calls = calls_of_step(program);
  const int m = plan.microbatches();
  for (const char* move :
       {"copy of a layer to the CPU", "offload of a layer", "reload of a layer", "layer is back"})
    CHECK(calls[move] == 3 * m);
  CHECK(calls["free layer input"] == 19 * m);

  // A copy down may last until the next swapped layer is done; a copy up starts when that layer is
  // back.
  std::vector<std::pair<std::string, int>> moves;
  for (const Pass& pass : program.step) {
    const Template& t = program.templates[pass.pattern];
    if (pass.microbatch != 0 || (t.kind != PassKind::forward && t.kind != PassKind::backward))
      continue;
    for (const Call& call : t.calls) {
      const std::string& name = program.blocks[call.block].name;
      if (name == "copy of a layer to the CPU") moves.emplace_back("down", call.layer);
      if (name == "offload of a layer") moves.emplace_back("away", call.layer);
      if (name == "reload of a layer") moves.emplace_back("up", call.layer);
      if (name == "layer is back") moves.emplace_back("there", call.layer);
    }
  }
  const std::vector<std::pair<std::string, int>> wanted = {
      {"down", 0}, {"away", 0},   {"down", 10}, {"away", 10},  {"down", 11}, {"away", 11},
      {"up", 11},  {"there", 11}, {"up", 10},   {"there", 10}, {"up", 0},    {"there", 0}};
  CHECK(moves == wanted);
}

TEST_CASE("program: choices without a layer, or that nothing could hide, are refused") {
  Plan plan = sample::llama_8b();
  plan.policy.choices.assign(31, LayerChoice::keep);
  CHECK(field_of(plan) == "layer_choices");
  plan.policy.choices.assign(32, LayerChoice::swap);
  CHECK(field_of(plan) == "layer_choices");
  plan.policy.choices.assign(32, LayerChoice::keep);
  CHECK(field_of(plan).empty());
  plan.policy.offload_layers = 3;
  CHECK(field_of(plan) == "layer_choices");
}
