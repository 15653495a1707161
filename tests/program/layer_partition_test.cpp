// layer_partition_test.cpp — numbers of layers that stages and chunks do not divide.
#include "sim/program/plan/layer_partition.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "sample.h"
#include "sim/program/plan/rules/rules.h"

using namespace sample;

namespace {

Plan of(int layers, int pp, int virtual_stages) {
  Plan p = llama_8b();
  p.architecture.layers = layers;
  p.mesh.pp = pp;
  p.pipeline.virtual_stages = virtual_stages;
  p.pipeline.schedule = virtual_stages > 1 ? "interleaved-1f1b" : "1f1b";
  p.batch.global_batch = p.mesh.dp * p.batch.micro_batch * 2 * pp;
  return p;
}

Diagnostics part_problems(const Plan& plan) {
  Diagnostics problems;
  rules::layer_partition(plan, problems);
  return problems;
}

std::vector<std::string> says(const Plan& plan) {
  std::vector<std::string> all;
  for (const Diagnostic& problem : part_problems(plan)) all.push_back(problem.message);
  return all;
}

std::vector<int> layers(const Plan& plan) {
  std::vector<int> all;
  for (int part = 0; part < count_parts(plan); ++part) all.push_back(part_layers(plan, part));
  return all;
}

}  // namespace

TEST_CASE("program: padding is taken from the last part, then from the first ones") {
  // 22 layers on 8 stages are 24 minus two.
  Plan plan = of(22, 8, 1);
  plan.pipeline.layer_split = LayerSplit::padded;
  CHECK(part_problems(plan).empty());
  CHECK(layers(plan) == std::vector<int>{2, 3, 3, 3, 3, 3, 3, 2});
  // With three chunks per stage the embedding and the head are chunks of their own.
  plan = of(22, 8, 3);
  plan.pipeline.layer_split = LayerSplit::padded;
  CHECK(part_problems(plan).empty());
  std::vector<int> expected(24, 1);
  expected.front() = expected.back() = 0;
  CHECK(layers(plan) == expected);
  // In a V the last part is on the stage of the first.
  plan = of(14, 4, 2);
  plan.pipeline.schedule = "zb-v";
  plan.pipeline.layer_split = LayerSplit::padded;
  CHECK(part_problems(plan).empty());
  CHECK(plan.chunk_layers(0, 0) == 1);
  CHECK(plan.chunk_layers(0, 1) == 1);
  CHECK(plan.chunk_layers(3, 0) == 2);
}

TEST_CASE("program: embedding and head count as layers and what is left goes to the first parts") {
  // torchtitan: 32 layers and one each for the ends on 8 parts: 34 = 2 x 5 + 6 x 4.
  Plan plan = of(32, 8, 1);
  plan.pipeline.layer_split = LayerSplit::weighted;
  CHECK(part_problems(plan).empty());
  CHECK(layers(plan) == std::vector<int>{4, 5, 4, 4, 4, 4, 4, 3});
}

TEST_CASE("program: every rule deals out every layer once") {
  for (const LayerSplit split : {LayerSplit::padded, LayerSplit::weighted})
    for (int pp = 1; pp <= 6; ++pp)
      for (int v = 1; v <= 3; ++v)
        for (int n = 1; n <= 40; ++n) {
          Plan plan = of(n, pp, v);
          plan.pipeline.layer_split = split;
          if (!part_problems(plan).empty()) continue;
          CAPTURE(pp, v, n);
          const std::vector<int> all = layers(plan);
          CHECK(std::accumulate(all.begin(), all.end(), 0) == n);
          for (int stage = 0; stage < pp; ++stage) {
            int sum = 0;
            for (int chunk = 0; chunk < v; ++chunk) sum += plan.chunk_layers(stage, chunk);
            // The ends may be chunks without layers.
            CHECK((sum > 0 || stage == 0 || stage == pp - 1));
          }
        }
}

TEST_CASE("program: a layout of Megatron-LM is read part by part") {
  CHECK(read_layout("Et*2|(tt|)*5t|tL").layers == std::vector<int>{2, 2, 2, 2, 2, 2, 1, 1});
  CHECK(read_layout("E|t|t|L").layers == std::vector<int>{0, 1, 1, 0});
  CHECK(read_layout("Ett,|tt|ttL").layers == std::vector<int>{2, 2, 2});
  CHECK(read_layout("E(t(t|)*2)*2L").layers == std::vector<int>{2, 1, 2, 1, 0});
  const auto problem = [](const char* text) { return read_layout(text).problem; };
  CHECK(read_layout("Ett|tm*2L").predicted == 2);
  CHECK(read_layout("Ett|tL").predicted == 0);
  CHECK(problem("Etmt|tL") == "an m elsewhere than right before the loss; write it there");
  CHECK(problem("tt|ttL") == "an embedding elsewhere than at the very begin; write one E there");
  CHECK(problem("Ett|tt") == "a loss elsewhere than at the very end; write one L there");
  CHECK(problem("Et*|L") == "a '*' without a number");
  CHECK(problem("E(tt|L") == "a '(' that is not closed");
  CHECK(problem("Ett)|L") == "a ')' that closes nothing");
  CHECK(problem("Ex|L") == "'x'; a layout is made of E t m L | ( ) * and numbers");
  CHECK(problem("E(((((t*9999)*9999)*9999)*9999)*9999)|L") ==
        "more stages and layers than a model can have");
  CHECK(problem(std::string(100000, '(').c_str()) == "parentheses within more than 16 others");
  CHECK(problem("") == "an embedding elsewhere than at the very begin; write one E there");
}

TEST_CASE("program: a layout is read as it was written") {
  for (const auto& [text, layers] : {std::pair{"Et*3|t|L", std::vector<int>{3, 1, 0}},
                                     std::pair{"E||tm*2L", std::vector<int>{0, 0, 1}},
                                     std::pair{"Et*7mL", std::vector<int>{7}}}) {
    const Layout read = read_layout(text);
    CHECK(read.layers == layers);
    CHECK(layout_text(read.layers, read.predicted) == text);
  }
}

TEST_CASE("program: a split backward pass needs layers in every part but the ends") {
  Plan plan = of(8, 4, 2);
  plan.pipeline.layers_of_parts = {0, 2, 1, 1, 2, 1, 1, 0};
  plan.pipeline.schedule = "zb-v";
  CHECK(part_problems(plan).empty());
  plan.pipeline.layers_of_parts = {2, 2, 1, 0, 1, 1, 1, 0};
  CHECK(says(plan) ==
        std::vector<std::string>{"part 3 of the model would have no layer, which schedule zb-v "
                                 "cannot split; write fewer stages or chunks"});
  plan.pipeline.schedule = "interleaved-1f1b";
  CHECK(part_problems(plan).empty());
}

TEST_CASE("program: listed parts must be as many as the plan has and hold every layer") {
  Plan plan = of(8, 4, 1);
  plan.pipeline.layers_of_parts = {1, 2, 3, 2};
  CHECK(part_problems(plan).empty());
  CHECK(layers(plan) == std::vector<int>{1, 2, 3, 2});
  plan.pipeline.layers_of_parts = {1, 2, 3};
  CHECK(says(plan) ==
        std::vector<std::string>{"layers are listed for 3 parts; pp x virtual_stages is 4"});
  plan.pipeline.layers_of_parts = {1, 2, 3, 3};
  CHECK(says(plan) ==
        std::vector<std::string>{"the parts have 9 layers together; the model has 8"});
  plan.pipeline.layers_of_parts = {4, 0, 2, 2};
  CHECK(says(plan) == std::vector<std::string>{"stage 1 would have no layer; write a smaller pp"});
  plan.pipeline.layers_of_parts = {5, 5, -2, 0};
  CHECK(says(plan) ==
        std::vector<std::string>{"part 2 of the model would have -2 layers; fewer stages, or "
                                 "embedding and head counted as fewer layers, would do"});
  // The embedding and the head may be chunks of their own.
  plan.pipeline.layers_of_parts = {0, 4, 4, 0};
  CHECK(part_problems(plan).empty());
  plan.pipeline.layer_split = LayerSplit::padded;
  CHECK(part_problems(plan).size() == 1);
}
