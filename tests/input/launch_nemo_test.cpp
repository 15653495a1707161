// launch_nemo_test.cpp — Python scripts of NeMo 2. The texts are this project's own. Their form
// follows public scripts and recipes.
#include <catch2/catch.hpp>

#include "sim/input/launch/launch.h"
#include "sim/input/launch/nemo_script.h"
#include "sim/input/plan/plan.h"
#include "sim/model/architecture.h"
#include "support.h"

using sim::input::load_megatron;
using support::contains;
using support::problems;

namespace {

struct Read {
  sim::Result<sim::input::PlanFile> file;
  std::string notes;
};

Read read(const std::string& text, std::vector<std::string> more = {}) {
  support::Scratch scratch;
  more.push_back("cluster=dgx-h100");
  Read all{load_megatron(scratch.write("pretrain.py", text), more), ""};
  if (all.file)
    for (const std::string& note : all.file->notes) all.notes += note + "\n";
  return all;
}

sim::program::Plan plan_of(const std::string& text, const std::vector<std::string>& more = {}) {
  const Read all = read(text, more);
  CAPTURE(problems(all.file));
  REQUIRE(all.file);
  return all.file->plan;
}

// Objects by name, as a script without nemo_run has them.
const std::string head = R"(import torch
import torch.nn.functional as F
from megatron.core.distributed import DistributedDataParallelConfig as McoreDDP
from megatron.core.optimizer import OptimizerConfig
from nemo import lightning as nl
from nemo.collections import llm
from nemo.collections.nlp.modules.common.tokenizer_utils import get_nmt_tokenizer
)";
const std::string script = head + R"(
tp = 2
tokenizer = get_nmt_tokenizer("null", "NullTokenizer", vocab_size=31_999)
data = llm.MockDataModule(seq_length=4096, micro_batch_size=2, global_batch_size=64,
                          tokenizer=tokenizer)
config = llm.LlamaConfig(
    num_layers=8,  # few
    hidden_size=2 * 1024,
    ffn_hidden_size=5504,
    num_attention_heads=16,
    num_query_groups=8,
    seq_length=4096,
    recompute_granularity="selective",
    recompute_modules=["core_attn", "mlp"],
)
strategy = nl.MegatronStrategy(
    tensor_model_parallel_size=tp,
    pipeline_model_parallel_size=2,
    pipeline_dtype=torch.bfloat16,
    sequence_parallel=True,
    ddp=McoreDDP(overlap_grad_reduce=True, overlap_param_gather=True),
)
trainer = nl.Trainer(devices=8, num_nodes=2, max_steps=10, strategy=strategy,
                     plugins=nl.MegatronMixedPrecision(precision="bf16-mixed"))
optim = nl.MegatronOptimizerModule(
    config=OptimizerConfig(optimizer="adam", lr=3e-4, use_distributed_optimizer=True, bf16=True))

if __name__ == "__main__":
    llm.pretrain(llm.LlamaModel(config, tokenizer=tokenizer), data, trainer, optim=optim)
)";

}  // namespace

TEST_CASE("nemo: a script that builds its objects") {
  const Read all = read(script);
  CAPTURE(problems(all.file));
  REQUIRE(all.file);
  CHECK(all.notes == "");
  const sim::program::Plan plan = all.file->plan;
  CHECK(plan.world() == 16);
  CHECK(plan.mesh.tp == 2);
  CHECK(plan.mesh.pp == 2);
  CHECK(plan.mesh.sequence_parallel);
  CHECK(plan.batch.sequence == 4096);
  CHECK(plan.batch.micro_batch == 2);
  CHECK(plan.batch.global_batch == 64);
  CHECK(plan.sharding.distributed_optimizer);
  CHECK(plan.sharding.overlap_grad_reduce);
  CHECK(plan.numerics.fp32_gradients);
  CHECK(plan.policy.recompute == sim::program::Recompute::selective);
  CHECK(plan.policy.recompute_modules.mlp);
  const sim::model::Architecture& network = plan.architecture;
  CHECK(network.layers == 8);
  CHECK(network.hidden == 2048);
  CHECK(network.kv_heads == 8);
  CHECK(network.vocab == 32000);
  CHECK(network.norm == sim::model::Norm::rms);
  CHECK(network.activation == sim::model::Activation::swiglu);
  CHECK_FALSE(network.linear_bias);
  CHECK_FALSE(network.tied_embeddings);
}

TEST_CASE("nemo: a recipe with its own values and those of the script") {
  const std::string recipe = R"(
import nemo_run as run
from nemo.collections import llm

def configure(nodes: int = 1, gpus_per_node: int = 8):
    recipe = llm.llama3_8b.pretrain_recipe(num_nodes=nodes, num_gpus_per_node=gpus_per_node)
    recipe.trainer.strategy.tensor_model_parallel_size = 4
    recipe.trainer.strategy.context_parallel_size = 1
    recipe.data.global_batch_size = 128
    recipe.model.config.num_layers = 16
    return recipe

def main():
    recipe = configure(nodes=2)
    executor = run.LocalExecutor(ntasks_per_node=8, launcher="torchrun")
    run.run(recipe, executor=executor, name="llama3_8b")

if __name__ == "__main__":
    main()
)";
  const Read all = read(recipe);
  CAPTURE(problems(all.file), all.notes);
  REQUIRE(all.file);
  const sim::program::Plan plan = all.file->plan;
  CHECK(plan.world() == 16);
  CHECK(plan.mesh.tp == 4);
  CHECK(plan.mesh.cp == 1);
  CHECK(plan.batch.sequence == 8192);
  CHECK(plan.batch.micro_batch == 1);
  CHECK(plan.batch.global_batch == 128);
  CHECK(plan.architecture.layers == 16);
  CHECK(plan.architecture.hidden == 4096);
  CHECK(plan.architecture.kv_heads == 8);
  CHECK(plan.sharding.distributed_optimizer);
  CHECK(plan.sharding.overlap_param_gather);
}

TEST_CASE("nemo: a recipe by its name, among other Python") {
  const sim::program::Plan plan = plan_of(R"PY("""Trains by a recipe's name."""
import argparse
from functools import partial
from nemo.collections import llm

class Names(dict): pass

def get_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--recipe", type=str, default="llama3_8b")
    return parser

args = get_parser().parse_args()
first, *others = [word[1:-1] for word in "a b".split() if word]
cut = others[..., : 2] if others else lambda *parts, n=1: None
match cut:
    case None:
        pass
    case _: print(f"{cut!r:>3}", file=None)
try:
    values = {**{"a": 1}, 'b': {2, 3}}
except (KeyError, ValueError) as error:
    raise
pretrain_recipe = getattr(llm, args.recipe).pretrain_recipe
recipe = partial(pretrain_recipe)(name="short", num_nodes=2)
recipe.trainer.strategy.pipeline_model_parallel_size = -(-3 // 2)
)PY");
  CHECK(plan.world() == 16);
  CHECK(plan.mesh.pp == 2);
  CHECK(plan.architecture.hidden == 4096);
}

TEST_CASE("nemo: every recipe is a plan") {
  for (const auto& [name, gpus] :
       {std::pair{"llama3_8b", 8}, std::pair{"llama3_70b", 32}, std::pair{"llama31_405b", 512},
        std::pair{"gpt3_175b", 512}, std::pair{"mixtral_8x7b", 64}, std::pair{"mixtral_8x22b", 64},
        std::pair{"qwen2_7b", 8}, std::pair{"qwen3_8b", 8}, std::pair{"qwen3_30b_a3b", 16},
        std::pair{"deepseek_v2_lite", 8}, std::pair{"nemotron4_15b", 8},
        std::pair{"mistral_7b", 8}}) {
    const Read all = read("from nemo.collections import llm\nrecipe = llm." + std::string(name) +
                              ".pretrain_recipe(performance_mode=False)\n",
                          {"gpus=" + std::to_string(gpus)});
    CAPTURE(name, problems(all.file), all.notes);
    CHECK(all.file);
    CHECK_FALSE(contains(all.notes, "not read"));
  }
}

TEST_CASE("nemo: adapters of a fine-tuning") {
  const sim::program::Plan plan = plan_of(head + R"(
recipe = llm.llama3_8b.pretrain_recipe(num_nodes=1)
recipe.peft = llm.peft.LoRA(dim=16, target_modules=["linear_qkv"])
)");
  CHECK(plan.lora.rank == 16);
}

TEST_CASE("nemo: what only the run knows is asked for, with its place") {
  const std::string unknown = R"(
import argparse
from nemo.collections import llm
parser = argparse.ArgumentParser()
parser.add_argument("--tp", type=int)
parser.add_argument("--pp", type=int, default=2)
args = parser.parse_args()
recipe = llm.llama3_8b.pretrain_recipe(num_nodes=2)
recipe.trainer.strategy.tensor_model_parallel_size = args.tp
recipe.trainer.strategy.pipeline_model_parallel_size = args.pp
if args.fast:
    recipe.trainer.strategy.sequence_parallel = True
for layer in range(3):
    print(layer)
other.trainer.strategy.context_parallel_size = 2
)";
  const std::string asked = problems(read(unknown).file);
  CHECK(contains(asked, "pretrain.py:9:"));
  CHECK(contains(asked, "args.tp"));
  CHECK(contains(asked, "write tp="));
  const Read all = read(unknown, {"tp=2"});
  CAPTURE(problems(all.file));
  REQUIRE(all.file);
  CHECK(all.file->plan->mesh.pp == 2);
  CAPTURE(all.notes);
  CHECK(contains(all.notes, "pretrain.py:11:4: only the run decides 'args.fast'"));
  CHECK(contains(all.notes, "pretrain.py:13:1: the body of the loop is not read"));
  CHECK(contains(all.notes, "other.trainer.strategy.context_parallel_size is not read"));
}

TEST_CASE("nemo: what is not simulated is named") {
  const Read unread = read(head + R"(
recipe = llm.llama3_8b.pretrain_recipe(num_nodes=1)
recipe.trainer.strategy.new_kind_of_parallelism = 4
)");
  CAPTURE(problems(unread.file));
  REQUIRE(unread.file);
  CHECK(contains(unread.notes, "not read: trainer.strategy.new_kind_of_parallelism"));
  const std::string other = "import numpy as np\nprint(np.zeros(3))\n";
  CHECK(contains(problems(read(other).file), "llm.pretrain(...)"));
  CHECK(contains(problems(read(head + "llm.pretrain(").file), "'(' is never closed"));
  CHECK(contains(problems(read(head + "x = 'a\n").file), "no closing quote"));
  CHECK(contains(problems(read(head + "recipe = llm.unheard_7b.pretrain_recipe()\n").file),
                 "unheard_7b"));
  std::string lengths = script;
  lengths.replace(lengths.find("    seq_length=4096"), 19, "    seq_length=2048");
  CHECK(contains(problems(read(lengths).file), "write the same twice"));
}

TEST_CASE("nemo: Python is told by its first line") {
  CHECK(sim::input::is_python("# a comment\nimport os\n"));
  CHECK(sim::input::is_python("\"\"\"A script.\"\"\"\n"));
  CHECK(sim::input::is_python("from nemo.collections import llm\n"));
  CHECK_FALSE(sim::input::is_python("model:\n  num_layers: 2\n"));
  CHECK_FALSE(sim::input::is_python("import_data() { :; }\n"));
  CHECK(sim::input::is_launch_text("#!/usr/bin/env python3\nimport os\n"));
}

TEST_CASE("nemo: damaged scripts end in a message") {
  support::Scratch scratch;
  for (std::size_t size = 0; size < script.size(); size += 7) {
    const auto file = sim::input::read_launch(script.substr(0, size), "pretrain.py");
    for (const auto& setting : file.arguments.settings) CHECK(contains(setting.text, "="));
  }
  std::string deep = head + "x = ";
  for (int i = 0; i < 5000; ++i) deep += "[";
  CHECK(sim::input::read_launch(deep, "pretrain.py").arguments.problems.size() == 1);
  const std::string doubled = head + "x = [0]\nwhile True:\n    pass\n" + [] {
    std::string all;
    for (int i = 0; i < 64; ++i) all += "x = x + x\n";
    return all;
  }();
  CHECK(sim::input::read_launch(doubled, "pretrain.py").arguments.problems.size() == 1);
}
