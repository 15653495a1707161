// capture.cpp — `rehearse capture`: writes one Python file that measures a node at the shapes of a
// plan. The file is calibration/capture/capture.py with the shapes in the place of @WORK@.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/command/common/command.h"
#include "sim/command/common/watch.h"
#include "sim/input/plan/plan.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"
#include "sim/output/json.h"
#include "sim/program/build/build.h"

namespace sim::command {

namespace {

using output::Json;

const char* role_text(model::GemmRole role) {
  return role == model::GemmRole::forward          ? "forward"
         : role == model::GemmRole::input_gradient ? "input_gradient"
                                                   : "weight_gradient";
}

// Each shape of the plan's kernels once, over all rank classes, in the order of their size.
struct KernelShapes {
  Json products = Json::array(), grouped = Json::array(), attention = Json::array();

  explicit KernelShapes(const program::Job& job) {
    std::set<std::vector<std::int64_t>> seen;
    for (const program::Program& program : job.classes)
      for (const model::Operation& o : program.operations) {
        if (!seen.insert(key(o)).second) continue;
        if (o.kind == model::OperationKind::gemm) add_product(o);
        if (o.kind == model::OperationKind::attention_forward) add_attention(o);
      }
  }

 private:
  static std::vector<std::int64_t> key(const model::Operation& o) {
    return {static_cast<std::int64_t>(o.kind),
            static_cast<std::int64_t>(o.role),
            o.m,
            o.n,
            o.k,
            o.batch,
            o.heads,
            o.kv_heads,
            o.head_dim,
            o.query,
            o.key,
            o.causal};
  }
  void add_product(const model::Operation& o) {
    Json shape = {{"m", o.m}, {"n", o.n}, {"k", o.k}, {"role", role_text(o.role)}};
    if (o.batch == 1) return products.push_back(std::move(shape));
    shape["batch"] = o.batch;
    grouped.push_back(std::move(shape));
  }
  void add_attention(const model::Operation& o) {
    attention.push_back({{"batch", o.batch},
                         {"heads", o.heads},
                         {"kv_heads", o.kv_heads},
                         {"head_dim", o.head_dim},
                         {"query", o.query},
                         {"key", o.key},
                         {"causal", o.causal}});
  }
};

Json work_of(const input::PlanFile& file, const program::Job& job, const std::string& name,
             std::int64_t minutes) {
  const program::Plan& plan = file.plan;
  const model::Architecture& a = plan.architecture;
  const std::int64_t tokens = plan.batch.sequence * plan.batch.micro_batch / plan.mesh.cp;
  const std::int64_t shard = std::max<std::int64_t>(1, tokens / plan.mesh.tp);
  KernelShapes shapes(job);
  Json passes = Json::array({Json::array({tokens, a.hidden})});
  if (shard != tokens) passes.push_back(Json::array({shard, a.hidden}));
  passes.push_back(Json::array({tokens, std::max<std::int64_t>(1, a.ffn / plan.mesh.tp)}));
  return {
      {"plan", name},
      {"minutes", minutes},
      {"precision", plan.numerics.fp8                                   ? "fp8"
                    : plan.numerics.precision == model::Precision::fp16 ? "fp16"
                                                                        : "bf16"},
      {"products", std::move(shapes.products)},
      {"grouped", std::move(shapes.grouped)},
      {"attention", std::move(shapes.attention)},
      {"passes", std::move(passes)},
      {"layer", {{"hidden", a.hidden}, {"heads", a.heads}, {"ffn", a.ffn}, {"tokens", tokens}}}};
}

}  // namespace

int run_capture(const Arguments& arguments, Globals globals) {
  Options options("capture");
  declare_plan(options);
  options.output("output,o", "FILE", "the Python file (capture.py)")
      .value("minutes", "N", "time that the measurements may take (10)")
      .flag("overwrite", "replace a file that is there")
      .words(0, 1000)
      .parse(arguments, globals);
  const std::string path = options.text("output", "capture.py");
  keep_file(options, path);
  const input::PlanFile file = load_plan(options, globals);
  answer::Sites sites;
  const answer::CheckedPlan plan = checked(file, sites);
  const std::string name = options.words().empty()
                               ? file.plan->architecture.name
                               : fmt::format("{}", fmt::join(options.words(), " "));
  const std::string work =
      work_of(file, plan.job(), name, options.number("minutes", 10, 1, 600)).dump();
  std::string text =
      need(input::read_file(input::repository_root() + "/calibration/capture/capture.py"));
  const std::string mark = "@WORK@";
  text.replace(text.find(mark), mark.size(), work);
  save(path, text);
  say_written(
      globals, path,
      fmt::format("{0}: written; next, on the node: python3 {0} --out measured.json", path));
  return exit_yes;
}

}  // namespace sim::command
