// axonn_ranking.cpp — plans of AxoNN, ranked by the replay and by the ranker of AxoNN's authors.
// Their ranker divides bytes by rates measured on Perlmutter.
//
// The ranker [axonn-ai/Megatron-AxoNN examples/comm_model.py, rates as of commit 660a224 of
// axonn-ai/axonn; arXiv:2305.13525 section VI] adds the collectives of each product of a layer. The
// levels are nested: columns, rows, depth, data. A collective of g ranks, around levels of `inner`
// ranks, takes bytes / rate(inner, g) + 9 us x g. The result says which plan communicates least,
// not how long a step takes.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/calibrate/ranking.h"
#include "sim/input/plan/plan.h"

using namespace sim;

namespace {

struct Grid {
  int rows, columns, depth, data;
};
struct Model {
  const char* name;
  int layers, hidden, heads, least_tensor, gpus, batch;
};
constexpr double sequence = 2048, GiB = 1024.0 * 1024 * 1024;

// The rate of a collective in GiB/s.
double rate(int inner, int ranks) {
  if (inner * ranks > 4) return 59.52 / std::min(4, inner);
  if (inner == 1 && ranks == 4) return 225;
  return 76;
}

// The communication of a product with a weight [out, in]. Its rows lie over the grid's rows, or
// over its columns if `turned`.
double product(const Model& m, const Grid& g, double in, double out, bool turned) {
  const double tokens = m.batch / double(g.data) / g.depth * sequence;
  const double weight = in * out / (double(g.rows) * g.columns);
  const auto all_but_one = [](int ranks) { return double(ranks - 1) / ranks; };
  const double columns_carry = turned ? in / g.rows : out / g.rows;
  const double rows_carry = turned ? out / g.columns : in / g.columns;
  const double bytes[] = {2 * all_but_one(g.columns) * tokens * columns_carry * 2,
                          2 * all_but_one(g.rows) * tokens * rows_carry * 2,
                          3 * all_but_one(g.depth) * weight * 2,
                          4 * all_but_one(g.data) * weight / g.depth * 2};
  const int ranks[] = {g.columns, g.rows, g.depth, g.data};
  double seconds = 0;
  for (int level = 0, inner = 1; level < 4; inner *= ranks[level++])
    if (ranks[level] > 1)
      seconds += bytes[level] / GiB / rate(inner, ranks[level]) + 9e-6 * ranks[level];
  return seconds;
}

double ranked(const Model& m, const Grid& g) {
  const double h = m.hidden;
  return m.layers * (product(m, g, h, 3 * h, false) + product(m, g, h, h, true) +
                     product(m, g, h, 4 * h, false) + product(m, g, 4 * h, h, true));
}

std::vector<Grid> grids(const Model& m) {
  std::vector<Grid> all;
  for (int columns = 1; columns <= m.gpus; columns *= 2)
    for (int rows = 1; rows * columns <= m.gpus; rows *= 2)
      for (int depth = 1; depth * rows * columns <= m.gpus; depth *= 2) {
        const int data = m.gpus / (depth * rows * columns);
        const bool runs = m.heads % rows == 0 && m.batch % (data * depth) == 0;
        if (runs && depth * rows * columns >= m.least_tensor)
          all.push_back({rows, columns, depth, data});
      }
  return all;
}

double replayed(const Model& m, const Grid& g, answer::Sites& sites) {
  const auto plan = input::load_plan(
      "",
      {"framework=axonn", "model=gpt3-175b", "cluster=perlmutter", "sequence=2048",
       fmt::format("architecture.name={}", m.name), fmt::format("architecture.layers={}", m.layers),
       fmt::format("architecture.hidden={}", m.hidden),
       fmt::format("architecture.ffn={}", 4 * m.hidden),
       fmt::format("architecture.heads={}", m.heads),
       fmt::format("architecture.kv_heads={}", m.heads), fmt::format("gpus={}", m.gpus),
       fmt::format("tp={}", g.rows * g.columns), fmt::format("tensor_columns={}", g.columns),
       fmt::format("tensor_depth={}", g.depth), fmt::format("global_batch={}", m.batch),
       fmt::format("micro_batch={}", m.batch / (g.data * g.depth))});
  REQUIRE(plan);
  const auto site = sites.of(plan->machine);
  REQUIRE(site);
  engine::Options options;
  options.memory = engine::MemoryDetail::none;
  return static_cast<double>(
      answer::evaluate(answer::checked(plan->plan, **site), options).run.step_time.ps);
}

}  // namespace

TEST_CASE("ranking: grids of tensors are in the order of AxoNN's ranker") {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  for (const Model& m :
       {Model{"gpt-5b", 24, 4096, 32, 4, 64, 256}, Model{"gpt-20b", 32, 7168, 56, 16, 256, 1024}}) {
    answer::Sites sites;
    std::vector<double> theirs, ours;
    for (const Grid& g : grids(m)) {
      theirs.push_back(ranked(m, g));
      ours.push_back(replayed(m, g, sites));
    }
    INFO(m.name << ": " << ours.size() << " grids, " << calibrate::spearman(theirs, ours));
    CHECK(ours.size() >= 50);
    CHECK(calibrate::spearman(theirs, ours) >= 0.95);
  }
}
