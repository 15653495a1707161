#include "sim/input/plan/plan.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "sim/input/cluster/cluster.h"
#include "sim/input/plan/grid.h"
#include "sim/input/plan/search.h"
#include "sim/input/plan/whatif.h"
#include "support.h"

using sim::input::load_megatron;
using sim::input::load_plan;
using support::contains;
using support::problems;
using support::replaced;

namespace {

const std::string plan_text = R"(# a plan
model: "llama-3.1-8b"
cluster: "abci-a"
gpus: 16
tp: 4
pp: 2
micro_batch: 2
global_batch: 1024
sequence: 8192
)";

std::string with(const std::string& from, const std::string& to) {
  static support::Scratch scratch;
  return problems(load_plan(scratch.write("p.textproto", replaced(plan_text, from, to))));
}

}  // namespace

TEST_CASE("input: a plan file becomes a plan on a machine") {
  support::Scratch scratch;
  const auto file = load_plan(scratch.write("p.textproto", plan_text));
  CAPTURE(problems(file));
  REQUIRE(file);
  CHECK(file->name == "p");
  CHECK(file->plan->architecture.layers == 32);
  CHECK(file->plan->mesh.dp == 2);  // 16 / (4 x 2)
  CHECK(file->plan->microbatches() == 256);
  CHECK(file->plan->pipeline.schedule == "1f1b");
  CHECK(file->plan->stack.attention == sim::program::AttentionBackend::flash);
  CHECK(file->plan->sharding.overlap_param_gather);
  CHECK(file->machine.cluster.name == "abci-a");
}

TEST_CASE("input: what is wrong with the plan and with its cluster is said at once") {
  support::Scratch scratch;
  const std::string path = scratch.write("p.textproto", plan_text);
  const std::string cluster = scratch.write("c.textproto", "name: \"c\"\nnodes: 0\n");
  const std::string all = problems(load_plan(path, {"cluster=" + cluster, "tp=3"}));
  CAPTURE(all);
  CHECK(contains(all, "'nodes' is 0"));
  CHECK(contains(all, "tp 3 does not divide the 32 attention heads"));
  // The plan's own values break a rule, too.
  const std::string values = problems(load_plan(path, {"cluster=" + cluster, "pp=0"}));
  CAPTURE(values);
  CHECK(contains(values, "'nodes' is 0"));
  CHECK(contains(values, "pp"));
}

TEST_CASE("input: settings that are nearly right say how to write them") {
  support::Scratch scratch;
  const std::string path = scratch.write("p.textproto", plan_text);
  const auto said = [&](const std::string& setting) {
    return problems(load_plan(path, {setting}));
  };
  CHECK(contains(said("seq=8k"), "'sequence' is a whole number, got '8k'; write 8192 or 8000"));
  CHECK(contains(said("gpus=1M"), "write 1048576 or 1000000"));
  for (const char* sequence : {"8_192", "8,192", "8'192", "8192.0", "\"8192\""}) {
    INFO(sequence);
    CHECK(contains(said(std::string("seq=") + sequence),
                   fmt::format("'sequence' is a whole number, got '{}'; write 8192", sequence)));
  }
  CHECK(contains(said("tp=4GiB"), "write one between 1 and 1048576, without a unit"));
  CHECK(contains(said("tp=50%"), "write one between 1 and 1048576, without a unit"));
  CHECK(contains(said("tp=\u0668"), "in the digits 0 to 9"));
  CHECK(contains(said("tp=99999999999999999999"), "it must be between 1 and 1048576"));
  CHECK(contains(said("tp=08"), "'tp' has leading zeros"));
  CHECK(contains(said("capacity_factor=50%"), "write 0.5"));
  CHECK(contains(said("node.gpus=8x"), "write one between 1 and 1024, without a unit"));
  CHECK(contains(said("architecture={layers: 4}"),
                 "'architecture' is a block; set its fields one by one: architecture.name=..."));
  CHECK(contains(said("fsdp=true"), "fsdp.reshard_after_forward=..."));
}

TEST_CASE("input: lengths of slices are words without gaps, none longer than the sequence") {
  support::Scratch scratch;
  const std::string path = scratch.write("p.textproto", plan_text);
  const auto said = [&](const std::string& slices) {
    return problems(load_plan(path, {"schedule=terapipe", "slices=" + slices}));
  };
  for (const char* wrong : {"4096,", ",4096", "4096,,4096", "8193,1", "0",
                            "9223372036854775807,9223372036854775807,8194"}) {
    INFO(wrong);
    CHECK(contains(said(wrong), "is neither a number of slices"));
  }
  CHECK(!contains(said("4096,4096"), "slices"));
  CHECK(!contains(said("4"), "slices"));
}

TEST_CASE("input: microbatches of replicas are words without gaps, with runs of equal ones") {
  support::Scratch scratch;
  const std::string path = scratch.write("p.textproto", plan_text);
  const auto said = [&](const std::string& counts) {
    return problems(load_plan(path, {"replica_microbatches=" + counts}));
  };
  for (const char* wrong : {"4,", ",4", "4,,4", "0", "4,-1", "x4", "2x", "2x0", "0x2", "2x4x1",
                            "16777217", "1048577x1", "999999x1,999999x1", "even"}) {
    INFO(wrong);
    CHECK(contains(said(wrong), "is no number of microbatches of a replica; write balanced"));
  }
  CHECK(!contains(said("4,4"), "is no number"));
  for (const char* most : {"16777216", "1048576x1", "1048575x1,1"}) {
    INFO(most);
    CHECK(!contains(said(most), "is no number"));
  }
  CHECK(contains(said("1048576x1,1"), "'1' is no number"));
  CHECK(!contains(said("balanced"), "replica_microbatches"));
  const auto read = load_plan(path, {"dp=3", "gpus=3", "tp=1", "pp=1", "cp=1", "micro_batch=1",
                                     "global_batch=10", "replica_microbatches=2x4,2"});
  REQUIRE(read);
  CHECK(read->plan->batch.replica_microbatches == std::vector{4, 4, 2});
}

TEST_CASE("input: variants have names of their own, and at most so many are tried") {
  support::Scratch scratch;
  const auto said = [&](const std::string& text) {
    return problems(sim::input::load_whatif(scratch.write("variants.textproto", text)));
  };
  const std::string two =
      "variant { name: \"a\" set: \"tp=2\" }\nvariant { name: \"b\" set: \"tp=4\" }\n";
  const auto read = sim::input::load_whatif(scratch.write(
      "both.textproto", "plan: \"p\"\nset: \"pp=2\"\n" + two +
                            "vary { key: \"cp\" value: \"1\" value: \"2\" }\n"
                            "vary { key: \"ep\" value: \"1\" value: \"8\" value: \"4\" }\n"));
  REQUIRE(read);
  CHECK(read->plan == "p");
  CHECK(read->settings == std::vector<std::string>{"pp=2"});
  std::string names;
  for (const sim::input::Variant& one : read->variants) names += one.name + ", ";
  CHECK(names == "a, b, cp=1 ep=1, cp=1 ep=8, cp=1 ep=4, cp=2 ep=1, cp=2 ep=8, cp=2 ep=4, ");
  CHECK(read->variants.back().settings == std::vector<std::string>{"cp=2", "ep=4"});
  CHECK(contains(said(two + "variant { name: \"a\" set: \"tp=8\" }\n"),
                 "two variants are named 'a'"));
  const auto many = [&](std::size_t of_vary) {
    std::string text = two + "vary { key: \"seed\"";
    for (std::size_t i = 0; i < of_vary; ++i) text += " value: \"" + std::to_string(i) + "\"";
    return said(text + " }\n");
  };
  constexpr std::size_t most = sim::input::max_variants;
  CHECK(many(most - 2).empty());
  CHECK(contains(many(most - 1), std::to_string(most + 1)));
  CHECK(contains(many(most + 1), "variants.textproto:3"));
}

TEST_CASE("input: a file of another kind says what it is") {
  const std::string plan = support::in_repository("workloads/llama-2-7b-64.textproto");
  CHECK(contains(problems(sim::input::load_grid(plan)),
                 "is a plan, not a grid; `rehearse run` runs it"));
  CHECK(contains(problems(sim::input::load_cluster(plan)), "is a plan, not a cluster; "));
  CHECK(contains(problems(sim::input::load_whatif(plan)), "is a plan, not variants; "));
  // An error in a setting, or in a file with mostly the fields of its kind, is reported itself.
  CHECK(contains(problems(sim::input::find_cluster("dgx-h100", "", {{"fabric.kind=foo"}})),
                 "'kind' is one of single_switch"));
  support::Scratch scratch;
  const std::string search =
      "model: \"llama-3.1-8b\" cluster: \"dgx-h100\" gpus: 16 bach: 64 sequence: 8192";
  CHECK(contains(problems(sim::input::load_search(scratch.write("s.textproto", search))),
                 "'Search' has no field 'bach'; did you mean 'batch'?"));
  const std::string grid = support::in_repository("workloads/paper-454.textproto");
  CHECK(contains(problems(load_plan(grid)), "is a grid, not a plan; `rehearse sweep` runs it"));
  const std::string cluster = support::in_repository("topologies/dgx-h100.textproto");
  CHECK(contains(problems(load_plan(cluster)), "is a cluster, not a plan"));
  const std::string variants =
      support::in_repository("results/korthikanti-2022-tables-4-5/layers.textproto");
  CHECK(contains(problems(load_plan(variants)),
                 "holds variants, not a plan; `rehearse whatif --variants"));
  const std::string script = support::in_repository("workloads/jobs/slurm.sh");
  CHECK(contains(problems(load_plan(script)),
                 "is what a run is started with, not a plan; --megatron-args " + script));
}

TEST_CASE("input: settings of the command line replace those of the file") {
  support::Scratch scratch;
  const std::string path = scratch.write("p.textproto", plan_text);
  const auto file =
      load_plan(path, {"tp=2", "tensor-model-parallel-size=8", "mbs=1", "sequence_parallel=off",
                       "allocator_options=roundup_power2_divisions:[256:1,>:2]"});
  CAPTURE(problems(file));
  REQUIRE(file);
  CHECK(file->plan->mesh.tp == 8);  // the last one holds
  CHECK(file->plan->mesh.dp == 1);  // follows the world
  CHECK(file->plan->batch.micro_batch == 1);
  CHECK_FALSE(file->plan->mesh.sequence_parallel);
  CHECK(file->plan->environment.allocator_options == "roundup_power2_divisions:[256:1,>:2]");

  const auto by_dp = load_plan(path, {"dp=16"});
  CAPTURE(problems(by_dp));
  REQUIRE(by_dp);
  CHECK(by_dp->plan->world() == 128);
  const auto by_nodes = load_plan(path, {"nodes=4"});
  REQUIRE(by_nodes);
  CHECK(by_nodes->plan->world() == 32);
  const auto chunks = load_plan(path, {"num-layers-per-virtual-pipeline-stage=4"});
  REQUIRE(chunks);
  CHECK(chunks->plan->pipeline.virtual_stages == 4);  // 32 / (2 x 4)
  CHECK(chunks->plan->pipeline.schedule == "interleaved-1f1b");
  const auto other = load_plan(path, {"cluster=dgx-h100"});
  REQUIRE(other);
  CHECK(other->plan->stack.attention == sim::program::AttentionBackend::cudnn);
}

TEST_CASE("input: a plan may come from settings alone and describe its own network") {
  support::Scratch scratch;
  const auto file =
      load_plan("", {"cluster=dgx-h100", "architecture.layers=8", "architecture.hidden=1024",
                     "architecture.heads=16", "architecture.vocab=50257", "gpus=8", "tp=2",
                     "gbs=64", "seq=2048"});
  CAPTURE(problems(file));
  REQUIRE(file);
  CHECK(file->plan->architecture.ffn == 4096);
  CHECK(file->plan->architecture.head_dim == 64);
  CHECK(file->plan->mesh.dp == 4);
}

TEST_CASE("input: what is described beside a model changes it") {
  const std::vector<std::string> rest = {"cluster=dgx-h100", "gpus=8", "gbs=64", "seq=2048"};
  const auto with = [&](std::vector<std::string> settings, const std::string& path = "") {
    settings.insert(settings.end(), rest.begin(), rest.end());
    const auto file = load_plan(path, settings);
    CAPTURE(problems(file));
    REQUIRE(file);
    return file->plan->architecture;
  };
  const auto base = with({"model=llama-2-7b"});
  for (const bool first : {true, false}) {  // in either order
    const auto deep = first ? with({"architecture.layers=64", "model=llama-2-7b"})
                            : with({"model=llama-2-7b", "architecture.layers=64"});
    CHECK(deep.layers == 64);
    CHECK(deep.hidden == base.hidden);
    CHECK(deep.ffn == base.ffn);
    CHECK(deep.name == "llama-2-7b (layers 64)");
  }
  const auto wide = with({"model=llama-2-7b", "architecture.heads=64"});
  CHECK(wide.kv_heads == 64);  // as many as heads, as before
  CHECK(wide.head_dim == 128);
  CHECK(with({"model=llama-3.1-8b", "architecture.heads=64"}).kv_heads == 8);
  const auto fewer = with({"model=deepseek-v3", "architecture.num_experts=128"});
  CHECK(fewer.experts.count == 128);
  CHECK(fewer.experts.top_k == 8);
  CHECK(fewer.latent.kv_rank == 512);

  // A dense model gets experts with the width of its MLP, and two of them per token.
  const auto made = with({"model=llama-2-7b", "architecture.num_experts=8"});
  CHECK(made.experts.count == 8);
  CHECK(made.experts.top_k == 2);
  CHECK(made.experts.ffn == made.ffn);

  support::Scratch scratch;
  const std::string both =
      scratch.write("p.textproto", "model: \"llama-2-7b\" architecture { layers: 16 norm: layer }");
  CHECK(with({}, both).layers == 16);
  CHECK(with({}, both).norm == sim::model::Norm::layer);
  CHECK(with({"architecture.layers=8"}, both).name == "llama-2-7b (layers 8, norm layer)");
  // Another model does not take over the changed fields.
  CHECK(with({"model=llama-3.1-8b"}, both).layers == 32);
  CHECK(contains(problems(load_plan(both, {"architecture.layers=0"})), "between 1 and 4096"));
}

TEST_CASE("input: wrong settings are named with the nearest right one") {
  support::Scratch scratch;
  const std::string path = scratch.write("p.textproto", plan_text);
  const std::string all = problems(load_plan(
      path, {"tpp=4", "mbs", "gbs=many", "tp=-2", "pp=0", "model=", "precision=bf61", "source=x"}));
  CAPTURE(all);
  CHECK(contains(all, "no setting 'tpp'; did you mean 'tp'?"));
  CHECK(contains(all, "'mbs' is not key=value"));
  CHECK(contains(all, "'global_batch' is a whole number, got 'many'"));
  CHECK(contains(all, "'tp' is -2; it must be between 1 and"));
  CHECK(contains(all, "'pp' is 0; it must be between 1 and"));
  CHECK(contains(all, "'model' has no value"));
  CHECK(contains(all, "did you mean 'bf16'?"));
  CHECK(contains(all, "no setting 'source'"));
}

TEST_CASE("input: text in a setting cannot smuggle in another field") {
  support::Scratch scratch;
  const std::string path = scratch.write("p.textproto", plan_text);
  CHECK_FALSE(load_plan(path, {"tp=4 pp: 4"}));
  const auto file = load_plan(path, {"allocator_options=x\" tp: 8 name: \"y"});
  CHECK(contains(problems(file), "unknown allocator option"));
  CHECK(contains(problems(file), "tp: 8 name: "));
}

TEST_CASE("input: misspelt keys of a plan are named with their place") {
  CHECK(contains(with("tp: 4", "tpp: 4"),
                 "p.textproto:5:1: 'Plan' has no field 'tpp'; did you "
                 "mean 'tp'?"));
  CHECK(contains(with("tp: 4", "tensor_model_parallel_siz: 4"), "'tensor_model_parallel_siz'"));
  CHECK(with("tp: 4", "tensor_model_parallel_size: 4").empty());
  CHECK(contains(with("llama-3.1-8b", "llama-3.1-9b"),
                 "p.textproto:2:8: there is no model "
                 "'llama-3.1-9b'; did you mean "
                 "'llama-3.1-8b'?"));
  CHECK(contains(with("abci-a", "abci-b"), "did you mean 'abci-a'?"));
  CHECK(contains(with("sequence: 8192", ""), "'Plan' needs the field 'sequence'"));
}

TEST_CASE("input: impossible plans say the rule at the field that breaks it") {
  CHECK(contains(with("tp: 4", "tp: 3"),
                 "p.textproto:4:7: 16 GPUs do not factor into tp x cp x "
                 "pp = 6; write a multiple of 6"));
  CHECK(contains(with("tp: 4", "tp: 3"), "p.textproto:5:5: tp 3 does not divide the 32 attention"));
  CHECK(contains(with("pp: 2", "pp: 2 dp: 3"), "dp 3 x tp x cp x pp = 24 is not the 16 GPUs"));
  CHECK(contains(with("gpus: 16", "gpus: 16 nodes: 3"), "gpus 16 and nodes 3 (of 8 GPUs each)"));
  CHECK(contains(with("gpus: 16", ""), "say how many GPUs run"));
  CHECK(contains(with("gpus: 16", "gpus: 2048"), "2048 GPUs; abci-a has 960"));
  CHECK(contains(with("gpus: 16\ntp: 4\npp: 2", "gpus: 12\ntp: 4\npp: 1"),
                 "12 GPUs are not whole nodes of 8; write 8 or 16"));
  CHECK(contains(with("\"abci-a\"\ngpus: 16", "\"gb200-nvl72\"\ngpus: 128"),
                 "128 GPUs are not whole nodes of 72; write 72 or 144, or cluster.node.gpus=64 "
                 "cluster.node.nics=64: 64 "
                 "of each 72"));
  CHECK(contains(with("sequence: 8192", "sequence: 8192 schedule: \"1f1bb\""),
                 "did you mean '1f1b'?"));
  CHECK(contains(with("tp: 4", "tp: 1048576 cp: 1048576"), "more than 1048576 ranks"));
}

TEST_CASE("input: an order of ranks names every degree above 1") {
  const auto said = [](const std::string& order) {
    const auto file =
        load_plan("", {"model=llama-2-7b", "cluster=dgx-h100", "gpus=16", "tp=2", "pp=2",
                       "global_batch=16", "sequence=4096", "rank_order=" + order});
    return file ? "" : file.errors().front().message;
  };
  CHECK(said("tp-cp-ep-dp-pp") == "");
  CHECK(said("pp-dp-tp") == "");  // cp is 1
  CHECK(said("tp-pp") ==
        "the order 'tp-pp' leaves out dp, which is 4; name all degrees above 1, for example "
        "tp-cp-ep-dp-pp");
  CHECK(said("tp-zp") != "");
  const auto file =
      load_plan("", {"model=llama-2-7b", "cluster=dgx-h100", "gpus=16", "tp=2", "pp=2",
                     "global_batch=16", "sequence=4096", "rank_order=tp-pp-dp"});
  REQUIRE(file);
  CHECK(file->plan->mesh.rank_order !=
        load_plan("", {"model=llama-2-7b", "cluster=dgx-h100", "gpus=16", "tp=2", "pp=2",
                       "global_batch=16", "sequence=4096"})
            ->plan->mesh.rank_order);
}

TEST_CASE("input: every plan of workloads loads") {
  support::Scratch scratch;
  struct Case {
    const char* name;
    int world, dp;
  };
  for (const Case& one : {Case{"llama-2-7b-64", 64, 4}, Case{"gpt3-175b-1024", 1024, 16},
                          Case{"llama-3.1-70b-64", 64, 4}, Case{"llama-3.1-405b-16384", 16384, 128},
                          Case{"llama-3.1-8b-abci", 16, 2}}) {
    const auto file =
        load_plan(support::in_repository(std::string("workloads/") + one.name + ".textproto"));
    CAPTURE(one.name, problems(file));
    REQUIRE(file);
    CHECK(file->plan->world() == one.world);
    CHECK(file->plan->mesh.dp == one.dp);
  }
}

TEST_CASE("input: a launch script of Megatron-LM is read as pasted") {
  support::Scratch scratch;
  const std::string script = R"(#!/bin/bash
# 8B on two nodes
export CUDA_DEVICE_MAX_CONNECTIONS=1
export TORCH_NCCL_AVOID_RECORD_STREAMS=1
GPUS_PER_NODE=8
TP=4
DISTRIBUTED_ARGS="--nproc_per_node ${GPUS_PER_NODE} --nnodes 2 --node_rank $RANK"
GPT_ARGS="
    --tensor-model-parallel-size $TP \
    --pipeline-model-parallel-size 2 \
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 \
    --num-attention-heads 32 --group-query-attention --num-query-groups 8 \
    --seq-length 8192 --max-position-embeddings 8192 \
    --position-embedding-type rope --normalization RMSNorm --swiglu \
    --disable-bias-linear --untie-embeddings-and-output-weights \
    --attention-dropout 0 --hidden-dropout 0 \
    --micro-batch-size 1 --global-batch-size 1024 --lr 3.0e-5 --split 949,50,1 \
    --bf16 --use-distributed-optimizer --overlap-grad-reduce --tp-comm-overlap"
torchrun $DISTRIBUTED_ARGS pretrain_gpt.py $GPT_ARGS \
    --sequence-parallel \
    --tokenizer-type Llama3Tokenizer
)";
  const auto file = load_megatron(scratch.write("train.sh", script),
                                  {"cluster=abci-a", "architecture.vocab=128256"});
  CAPTURE(problems(file));
  REQUIRE(file);
  const sim::program::Plan& plan = file->plan;
  CHECK(plan.mesh.tp == 4);
  CHECK(plan.mesh.pp == 2);
  CHECK(plan.mesh.dp == 2);
  CHECK(plan.architecture.kv_heads == 8);
  CHECK(plan.architecture.norm == sim::model::Norm::rms);
  CHECK_FALSE(plan.architecture.linear_bias);
  CHECK_FALSE(plan.architecture.tied_embeddings);
  // The network equals the published config.
  CHECK(sim::model::parameters(plan.architecture) == 8'030'261'248);
  CHECK(plan.mesh.sequence_parallel);
  CHECK(plan.numerics.fp32_gradients);  // Megatron-LM turns it on with bf16
  CHECK(plan.environment.avoid_record_streams);
  CHECK_FALSE(plan.sharding.overlap_param_gather);  // not in the script
  CHECK(plan.stack.tp_comm_overlap);

  // A model by name stands for the flags of the network.
  const auto named =
      load_megatron(scratch.path("train.sh"), {"cluster=abci-a", "model=llama-3.1-8b"});
  REQUIRE(named);
  CHECK(named->plan->architecture.vocab == 128256);
}

TEST_CASE("input: what a launch script leaves to the shell is reported where a plan needs it") {
  support::Scratch scratch;
  const std::string all = problems(
      load_megatron(scratch.write("train.sh",
                                  "--tensor-model-parallel-size $TP \\\n"
                                  "--pipeline-model-paralel-size 2 --lr $LR\n"
                                  "--micro-batch-size $((2*2)) --global-batch-size 8 --bf16\n"
                                  "--seq-length ${SEQ:-2048}"),
                    {"cluster=abci-a", "model=llama-3.1-8b", "gpus=8"}));
  CAPTURE(all);
  CHECK(contains(all, "train.sh:1:1: the value of --tensor-model-parallel-size is $TP, which"));
  CHECK(contains(all,
                 "train.sh:2:1: Megatron-LM has no flag --pipeline-model-paralel-size; did "
                 "you mean --pipeline-model-parallel-size?"));
  CHECK_FALSE(contains(all, "micro-batch-size"));
  CHECK_FALSE(contains(all, "LR"));
  CHECK_FALSE(contains(all, "SEQ"));
}

TEST_CASE("input: a GPT of Megatron-LM has its defaults") {
  support::Scratch scratch;
  const auto file = load_megatron(
      scratch.write("train.sh",
                    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 "
                    "--seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 "
                    "--micro-batch-size 4 --global-batch-size 256 --fp16 "
                    "--recompute-activations --transformer-impl local"),
      {"cluster=dgx-a100", "gpus=8"});
  CAPTURE(problems(file));
  REQUIRE(file);
  const auto& a = file->plan->architecture;
  CHECK(a.position == sim::model::Position::learned);
  CHECK(a.norm == sim::model::Norm::layer);
  CHECK(a.activation == sim::model::Activation::gelu);
  CHECK(a.tied_embeddings);
  CHECK(a.linear_bias);
  CHECK(a.ffn == 8192);
  CHECK(a.hidden_dropout == 0.1);
  CHECK(file->plan->numerics.precision == sim::model::Precision::fp16);
  CHECK_FALSE(file->plan->numerics.fp32_gradients);
  CHECK_FALSE(file->plan->sharding.distributed_optimizer);
  CHECK(file->plan->policy.recompute == sim::program::Recompute::selective);
  CHECK(file->plan->stack.attention == sim::program::AttentionBackend::unfused);
}

TEST_CASE("input: launch scripts that make no sense end quickly") {
  support::Scratch scratch;
  std::string dollars(200'000, '$'), quotes(200'000, '"'), words;
  for (int i = 0; i < 200'000; ++i) words += "--x y ";
  for (const std::string& text : {dollars, quotes, words, std::string("$("), std::string("\\"),
                                  std::string("${"), std::string("'"), std::string(1000, '\0')})
    CHECK_FALSE(load_megatron(scratch.write("t.sh", text), {}));
}

TEST_CASE("input: options of the allocator are checked with the plan") {
  support::Scratch scratch;
  const auto plan =
      load_plan("", {"model=llama-2-7b", "cluster=abci-a", "gpus=8", "tp=8", "global_batch=8",
                     "sequence=1024", "allocator_options=expandable_segment:True"});
  REQUIRE_FALSE(plan);
  REQUIRE(plan.errors().size() == 1);
  CHECK(plan.errors().front().message.find("expandable_segment") != std::string::npos);
  CHECK(load_plan("", {"model=llama-2-7b", "cluster=abci-a", "gpus=8", "tp=8", "global_batch=8",
                       "sequence=1024", "allocator_options=max_split_size_mb:128"}));
}

TEST_CASE("input: of the ways to say how layers are split the last one that is said holds") {
  support::Scratch scratch;
  const std::string path =
      scratch.write("p.textproto", plan_text + "account_for_embedding: true\n");
  const auto split = [&](const std::vector<std::string>& settings) {
    const auto file = load_plan(path, settings);
    CAPTURE(problems(file));
    REQUIRE(file);
    return file->plan->pipeline;
  };
  CHECK(split({"layer_split=padded"}).account_for_embedding == false);
  CHECK(split({"layers=balanced"}).layer_split == sim::program::LayerSplit::balanced);
  const auto listed = split({"pipeline_layout=Et*15|t*17L"});
  CHECK(listed.layers_of_parts == std::vector<int>{15, 17});
  CHECK_FALSE(listed.account_for_embedding);
  CHECK(split({"first_stage_layers=15"}).first_stage_layers == 15);
  const auto weighted = split({"layer_split=weighted", "head_layers=3"});
  CHECK(weighted.layer_split == sim::program::LayerSplit::weighted);
  CHECK(weighted.head_layers == 3);
}
