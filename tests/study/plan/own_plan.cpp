// own_plan.cpp — the job of a launch file, and the best plan as changes of it.
#include "sim/study/plan/own_plan.h"

#include <algorithm>

#include "tests/input/support.h"
#include "tests/study/plan/sample.h"

using namespace sim;

namespace {

const std::string script =
    "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
    "--ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8 "
    "--seq-length 8192 --max-position-embeddings 8192 --swiglu --normalization RMSNorm "
    "--disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope "
    "--attention-dropout 0 --hidden-dropout 0 --bf16 --vocab-size 128256 "
    "--tokenizer-type NullTokenizer ";
const std::string degrees =
    "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --micro-batch-size 1 "
    "--global-batch-size 64 --sequence-parallel --tp-comm-overlap --use-distributed-optimizer "
    "--overlap-grad-reduce --overlap-param-gather --recompute-granularity full "
    "--recompute-method uniform --recompute-num-layers 1 ";

planner::OwnPlan own_of(support::Scratch& scratch, const std::string& flags,
                        const std::vector<std::string>& said = {}) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const std::string path = scratch.write("train.sh", script + flags);
  const std::vector<std::string> overrides = {"cluster=dgx-h100"};
  const auto file = planner::load_own(path, true, overrides);
  INFO((file ? "" : file.errors().front().message));
  REQUIRE(file);
  return {path, true, overrides, said, *file, {}, {}};
}

bool has(const std::vector<std::string>& all, const std::string& one) {
  return std::ranges::find(all, one) != all.end();
}

bool states(const std::vector<std::string>& all, const std::string& field) {
  return std::ranges::any_of(all, [&](const auto& one) { return one.starts_with(field + "="); });
}

}  // namespace

TEST_CASE("planner: the job of a launch file has what no search varies") {
  support::Scratch scratch;
  const planner::OwnPlan own = own_of(scratch, degrees);
  const std::vector<std::string> job = planner::job_of(own.file, {"fp8=true,false"});
  for (const char* one : {"architecture.layers=32", "framework=megatron-lm", "precision=bf16",
                          "tp_comm_overlap=true", "overlap_grad_reduce=true"})
    CHECK(has(job, one));
  for (const char* field :
       {"tp", "pp", "cp", "micro_batch", "recompute", "recompute_layers", "gpus", "cluster",
        "global_batch", "sequence", "distributed_optimizer", "fp8"})
    CHECK_FALSE(states(job, field));
  CHECK_FALSE(states(planner::job_of(own.file, {"precision=fp16"}), "precision"));
  // Settings of the line that change the user's plan, and settings that restrict the search.
  CHECK(planner::changes_of_job({"tp=2", "attention=flash", "fp8=true,false", "zero=1"}) ==
        std::vector<std::string>{"attention=flash"});
}

TEST_CASE("planner: every plan of a launch file's space is the file with changes") {
  support::Scratch scratch;
  for (const std::string& more : {std::string(), std::string("--cp-comm-type a2a "),
                                  std::string("--num-layers-per-virtual-pipeline-stage 4 "),
                                  std::string("--decoder-first-pipeline-num-layers 14 ")}) {
    const planner::OwnPlan own = own_of(scratch, degrees + more);
    planner::Question question =
        sample::question("", "dgx-h100", 16, 64, 8192, {"schedule=1f1b,interleaved-1f1b"});
    question.job = planner::job_of(own.file, question.settings);
    const planner::Space space = sample::space(question);
    const std::size_t step = space.cores().size() / 40 + 1;
    int named = 0, drawn = 0;
    for (std::size_t c = 0; c < space.cores().size(); c += step, ++drawn) {
      const planner::PlanShape& core = space.cores()[c];
      const program::Plan plan = space.plan(core, 0);
      const std::string words = planner::words_from_own(own, plan);
      INFO(more << space.words(core, 0) << "\n" << words);
      if (words.empty()) continue;
      ++named;
      const std::string start = "--megatron-args " + own.path + " cluster=dgx-h100";
      REQUIRE(words.starts_with(start));
      std::vector<std::string> settings = {"cluster=dgx-h100"};
      std::string rest = words.substr(start.size());
      for (std::size_t at = 1; at < rest.size();) {
        const std::size_t end = std::min(rest.find(' ', at), rest.size());
        settings.push_back(rest.substr(at, end - at));
        at = end + 1;
      }
      const auto back = planner::load_own(own.path, true, settings);
      REQUIRE(back);
      CHECK(planner::changes(*back->plan, plan, {}).empty());
    }
    INFO(named << " of " << drawn);
    CHECK(named >= drawn * 9 / 10);
  }
}

TEST_CASE("planner: changes leave out what the new plan ignores") {
  support::Scratch scratch;
  const program::Plan from = *own_of(scratch, degrees).file.plan;
  program::Plan to = from;
  to.mesh.tp = to.mesh.pp = 1;
  to.mesh.dp = 16;
  to.policy.recompute = program::Recompute::none;
  to.pipeline.schedule = "gpipe";
  const std::vector<planner::Change> all = planner::changes(from, to, {});
  REQUIRE(all.size() == 3);
  CHECK((all[0].field == "tp" && all[0].from == "4" && all[0].to == "1"));
  CHECK(all[1].field == "pp");
  CHECK((all[2].field == "recompute" && all[2].to == "none"));
  to.numerics.fp8 = true;
  CHECK(planner::changes(from, to, {}).size() == 3);
  CHECK(planner::changes(from, to, {"fp8=true,false"}).size() == 4);
}
