// launch_flags.cpp — Megatron-LM accepts the flags and the environment that we write for a plan.
//
// The rules are those of validate_args that a GPT model's training can break, and of
// TransformerConfig where a written flag can break them.
// Source: [NVIDIA/Megatron-LM core_v0.19.0 5be962670 megatron/training/arguments.py:validate_args,
// megatron/core/transformer/transformer_config.py:__post_init__].
#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "sim/base/random.h"
#include "sim/input/fields/fields.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/study/plan/launch/launch_writer.h"
#include "tests/study/plan/sample.h"

using namespace sim;

namespace {

// The flags of a script by name, and its environment.
struct Script {
  std::map<std::string, std::string> flags, environment;
  std::int64_t world = 0;

  bool has(const std::string& name) const { return flags.contains(name); }
  std::string text(const std::string& name) const { return has(name) ? flags.at(name) : ""; }
  std::int64_t number(const std::string& name, std::int64_t otherwise) const {
    const std::string value = text(name);
    std::int64_t n = otherwise;
    std::from_chars(value.data(), value.data() + value.size(), n);
    return n;
  }
  std::int64_t tp() const { return number("tensor-model-parallel-size", 1); }
  std::int64_t pp() const { return number("pipeline-model-parallel-size", 1); }
  std::int64_t cp() const { return number("context-parallel-size", 1); }
  std::int64_t ep() const { return number("expert-model-parallel-size", 1); }
  std::int64_t dp() const { return world / (tp() * pp() * cp()); }
  bool is_set(const std::string& name, const std::string& value) const {
    const auto found = environment.find(name);
    return found != environment.end() && found->second == value;
  }
};

Script read(const std::string& text, std::int64_t world) {
  Script script;
  script.world = world;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("export ")) {
      const std::size_t equals = line.find('=');
      script.environment[line.substr(7, equals - 7)] = line.substr(equals + 1);
    }
    if (!line.starts_with("  --")) continue;
    if (line.ends_with(" \\")) line.resize(line.size() - 2);
    const std::size_t space = std::min(line.find(' ', 4), line.size());
    const std::string name = line.substr(4, space - 4);
    CHECK_FALSE(script.has(name));  // no flag twice
    script.flags[name] = space < line.size() ? line.substr(space + 1) : "";
  }
  return script;
}

int count(const Script& s, const std::vector<std::string>& names) {
  return static_cast<int>(
      std::ranges::count_if(names, [&](const std::string& name) { return s.has(name); }));
}

std::int64_t parts_of_layout(const std::string& layout) {
  return std::ranges::count(layout, '|') + 1;
}

struct Rule {
  const char* text;
  std::function<bool(const Script&)> holds;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {"world size % (tp x pp x cp) is 0",
       [](const Script& s) { return s.world % (s.tp() * s.pp() * s.cp()) == 0; }},
      {"hierarchical sizes multiply to cp",
       [](const Script& s) {
         std::istringstream in(s.text("hierarchical-context-parallel-sizes"));
         std::int64_t product = 1;
         for (std::int64_t n = 0; in >> n;) product *= n;
         return !s.has("hierarchical-context-parallel-sizes") || product == s.cp();
       }},
      {"a2a+p2p has hierarchical sizes",
       [](const Script& s) {
         return s.text("cp-comm-type") != "a2a+p2p" || s.has("hierarchical-context-parallel-sizes");
       }},
      {"no flag of the past",
       [](const Script& s) {
         return count(s, {"batch-size", "warmup", "model-parallel-size", "checkpoint-activations",
                          "no-position-embedding", "fp8-hybrid", "fp8-e4m3"}) == 0;
       }},
      {"microbatches share the batch",
       [](const Script& s) {
         return s.number("global-batch-size", 0) > 0 && s.number("micro-batch-size", 0) > 0 &&
                s.number("global-batch-size", 0) % (s.number("micro-batch-size", 1) * s.dp()) == 0;
       }},
      {"at most one of the flags of virtual stages",
       [](const Script& s) {
         return count(s, {"num-layers-per-virtual-pipeline-stage",
                          "num-virtual-stages-per-pipeline-rank",
                          "pipeline-model-parallel-layout"}) <= 1;
       }},
      {"the parts of a layout share the stages evenly",
       [](const Script& s) {
         return !s.has("pipeline-model-parallel-layout") ||
                parts_of_layout(s.text("pipeline-model-parallel-layout")) % s.pp() == 0;
       }},
      {"layers share the stages evenly",
       [](const Script& s) {
         if (count(s, {"pipeline-model-parallel-layout", "decoder-first-pipeline-num-layers",
                       "decoder-last-pipeline-num-layers"}) > 0)
           return true;
         const std::int64_t layers =
             s.number("num-layers", 0) + count(s, {"account-for-embedding-in-pipeline-split",
                                                   "account-for-loss-in-pipeline-split"});
         return layers % (s.pp() * s.number("num-virtual-stages-per-pipeline-rank", 1)) == 0;
       }},
      {"virtual stages have a pipeline",
       [](const Script& s) {
         return s.number("num-virtual-stages-per-pipeline-rank", 1) == 1 || s.pp() > 1;
       }},
      {"overlap-param-gather has the distributed optimizer and overlap-grad-reduce",
       [](const Script& s) {
         return !s.has("overlap-param-gather") ||
                (s.has("use-distributed-optimizer") && s.has("overlap-grad-reduce"));
       }},
      {"use-torch-fsdp2 has no pipeline, experts' parallelism or distributed optimizer",
       [](const Script& s) {
         return !s.has("use-torch-fsdp2") ||
                (s.pp() == 1 && s.ep() == 1 && !s.has("use-distributed-optimizer"));
       }},
      {"use-torch-fsdp2 has no fused accumulation, fp16, or tied embeddings",
       [](const Script& s) {
         return !s.has("use-torch-fsdp2") ||
                (s.has("no-gradient-accumulation-fusion") && !s.has("fp16") &&
                 s.has("untie-embeddings-and-output-weights"));
       }},
      {"use-torch-fsdp2 has the checkpoints of PyTorch",
       [](const Script& s) {
         const std::string format = s.has("ckpt-format") ? s.text("ckpt-format") : "torch_dist";
         return !s.has("use-torch-fsdp2") || format == "torch_dist" || format == "torch_dcp";
       }},
      {"use-torch-fsdp2 has more than one queue",
       [](const Script& s) {
         return !s.has("use-torch-fsdp2") || !s.is_set("CUDA_DEVICE_MAX_CONNECTIONS", "1");
       }},
      {"tensor and context parallelism have one queue (before Blackwell)",
       [](const Script& s) {
         return (s.tp() == 1 && s.cp() == 1) || s.has("use-torch-fsdp2") ||
                s.is_set("CUDA_DEVICE_MAX_CONNECTIONS", "1");
       }},
      {"fp8-param-gather has fp8, and the distributed optimizer or fsdp2",
       [](const Script& s) {
         return !s.has("fp8-param-gather") ||
                (s.has("fp8-format") &&
                 count(s, {"use-distributed-optimizer", "use-torch-fsdp2"}) > 0);
       }},
      {"fp4 or fp8",
       [](const Script& s) {
         return count(s, {"fp4-format", "fp8-format"}) <= 1;
       }},
      {"fp16 or bf16",
       [](const Script& s) {
         return count(s, {"fp16", "bf16"}) <= 1;
       }},
      {"iterations or samples",
       [](const Script& s) {
         return !s.has("train-iters") ||
                count(s, {"train-samples", "lr-decay-samples", "lr-warmup-samples"}) == 0;
       }},
      {"the network has its numbers",
       [](const Script& s) {
         return count(s, {"num-layers", "hidden-size", "num-attention-heads",
                          "max-position-embeddings"}) == 4 &&
                (s.has("kv-channels") ||
                 s.number("hidden-size", 1) % s.number("num-attention-heads", 1) == 0);
       }},
      {"the sequence is a multiple of 2 x cp",
       [](const Script& s) {
         return s.cp() == 1 || s.number("seq-length", 0) % (2 * s.cp()) == 0;
       }},
      {"positions reach the end of a sequence",
       [](const Script& s) {
         return s.number("max-position-embeddings", 0) >= s.number("seq-length", 1 << 30);
       }},
      {"selective recomputation has no method",
       [](const Script& s) {
         return s.text("recompute-granularity") != "selective" || !s.has("recompute-method");
       }},
      {"full recomputation has a method",
       [](const Script& s) {
         return s.text("recompute-granularity") != "full" || s.has("recompute-method");
       }},
      {"tp-comm-overlap has sequence parallelism",
       [](const Script& s) {
         return !s.has("tp-comm-overlap") || (s.tp() > 1 && s.has("sequence-parallel"));
       }},
      {"parallel experts share the experts evenly",
       [](const Script& s) { return s.ep() == 1 || s.number("num-experts", 1) % s.ep() == 0; }},
      {"one source of data",
       [](const Script& s) {
         return count(s, {"mock-data", "data-path", "train-data-path"}) == 1;
       }},
      {"no cross entropy of TransformerEngine",
       [](const Script& s) { return s.text("cross-entropy-fusion-impl") != "te"; }},
      {"the optimizer on the CPU is precision aware, with delayed scales",
       [](const Script& s) {
         return !s.has("optimizer-cpu-offload") ||
                (s.has("use-precision-aware-optimizer") &&
                 (!s.has("fp8-param-gather") || !s.has("fp8-recipe")));
       }},
      {"offloaded modules have TransformerEngine and its first way to offload",
       [](const Script& s) {
         return !s.has("fine-grained-activation-offloading") ||
                (s.text("transformer-impl") == "transformer_engine" &&
                 s.is_set("NVTE_CPU_OFFLOAD_V1", "1"));
       }},
      {"offloaded layers have no pipeline, recomputation, or offloaded modules",
       [](const Script& s) {
         return !s.has("cpu-offloading-num-layers") ||
                (s.pp() == 1 &&
                 count(s, {"recompute-granularity", "fine-grained-activation-offloading"}) == 0);
       }},
      {"latent attention has no groups of queries",
       [](const Script& s) {
         return !s.has("multi-latent-attention") || !s.has("group-query-attention");
       }},
      {"further predicted tokens have rotary positions",
       [](const Script& s) {
         return !s.has("mtp-num-layers") || s.text("position-embedding-type") == "rope";
       }},
      {"deterministic mode has neither overlapped products nor a fused loss",
       [](const Script& s) {
         return !s.has("deterministic-mode") ||
                count(s, {"tp-comm-overlap", "cross-entropy-loss-fusion"}) == 0;
       }},
  };
  return all;
}

struct Drawn {
  std::string model, cluster;
  int gpus, batch, sequence;
  std::vector<std::string> settings;
};

const std::vector<Drawn>& spaces() {
  const std::string few = "recompute=none,selective,full";
  static const std::vector<Drawn> all = {
      {"llama-3.1-8b", "dgx-h100", 32, 64, 8192, {"micro_batch=1,2", few}},
      {"llama-3.1-8b", "dgx-h100", 16, 64, 8192, {"micro_batch=1", "fp8=true", few}},
      {"llama-2-7b", "dgx-a100", 16, 64, 8192, {"micro_batch=1", few}},
      {"gpt3-6.7b", "dgx-h100", 16, 64, 2048, {"micro_batch=1", few}},
      {"mixtral-8x7b", "dgx-h100", 16, 64, 4096, {"micro_batch=1", "recompute=none"}},
      {"deepseek-v2", "dgx-h100", 32, 64, 4096, {"micro_batch=1", "ep=8", "recompute=none"}},
      {"llama-3.1-8b",
       "dgx-h100",
       16,
       64,
       8192,
       {"micro_batch=1", "zero=1,3", "tp_comm_overlap=true", few}},
      {"llama-3.1-8b",
       "dgx-h100",
       16,
       64,
       8192,
       {"micro_batch=1", "zero=1", "optimizer_cpu_offload=true", "precision_aware_optimizer=true",
        few}},
      {"llama-3.1-8b",
       "dgx-b200",
       16,
       64,
       8192,
       {"micro_batch=1", "fp8=true", "fp8_parameters=true"}},
      {"llama-3.1-8b",
       "dgx-h100",
       16,
       64,
       8192,
       {"micro_batch=1", "zero=1", "offload_modules=core_attn", "recompute=none"}},
      {"llama-3.1-8b",
       "dgx-h100",
       16,
       64,
       8192,
       {"micro_batch=1", "zero=1", "offload_layers=2", few}},
  };
  return all;
}

}  // namespace

TEST_CASE("planner: Megatron-LM accepts the flags of drawn plans together") {
  Random random(7);
  std::map<std::string, int> written;
  int plans = 0, flipped = 0;
  for (const Drawn& drawn : spaces()) {
    const planner::Space space = sample::space(sample::question(
        drawn.model, drawn.cluster, drawn.gpus, drawn.batch, drawn.sequence, drawn.settings));
    REQUIRE_FALSE(space.cores().empty());
    const auto check = [&](const program::Plan& plan, const input::Machine& machine) {
      const planner::LaunchText one =
          planner::launches(plan, drawn.model, drawn.cluster, machine).front();
      if (one.text.empty()) {
        CHECK_FALSE(one.left.empty());
        return false;
      }
      const Script script = read(one.text, plan.world());
      for (const auto& [name, value] : script.flags) ++written[name];
      INFO(one.text);
      for (const Rule& rule : rules()) {
        INFO(rule.text);
        CHECK(rule.holds(script));
      }
      return true;
    };
    const auto draw = [&] {
      return static_cast<std::size_t>(random.uniform() * static_cast<double>(space.cores().size()));
    };
    planner::PlanShape core;
    for (int i = 0, found = 0; i < 1000 && found < 20; ++i) {
      const planner::PlanShape& drawn_core = space.cores()[draw()];
      if (!check(space.plan(drawn_core, 0), space.bases()[drawn_core.base].file.machine)) continue;
      core = drawn_core;
      ++found;
      ++plans;
    }
    // Each switch of a plan the other way.
    for (const input::Field& field : input::plan_fields()) {
      program::Plan plan = space.plan(core, 0);
      if (!field.place || field.name.starts_with("architecture.")) continue;
      const input::Value value = field.place.get(plan);
      const bool* on = std::get_if<bool>(&value);
      if (on == nullptr) continue;
      field.place.set(plan, !*on);
      if (!program::problems(plan).empty()) continue;
      flipped += check(plan, space.bases()[core.base].file.machine) ? 1 : 0;
    }
  }
  CHECK(plans >= 200);
  CHECK(flipped > 20);
  for (const char* name : {"use-torch-fsdp2", "overlap-param-gather", "fp8-format", "num-experts",
                           "multi-latent-attention", "tp-comm-overlap", "optimizer-cpu-offload",
                           "offload-modules", "cpu-offloading-num-layers", "deterministic-mode"}) {
    INFO(name);
    CHECK(written[name] > 0);
  }
}
