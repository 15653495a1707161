// launch.cpp — launch files state the whole plan, and list the fields that they cannot express.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/base/random.h"
#include "sim/input/fields/fields.h"
#include "sim/output/json.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/study/plan/launch/launch_writer.h"
#include "tests/study/plan/sample.h"

using namespace sim;

namespace {

// From "fp8=true, tp=2" the names fp8 and tp.
std::vector<std::string> fields_of(const std::string& left) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < left.size();) {
    const std::size_t equals = left.find('=', at);
    names.push_back(left.substr(at, equals - at));
    const std::size_t comma = left.find(", ", equals);
    at = comma == std::string::npos ? left.size() : comma + 2;
  }
  return names;
}

// A written launch file reads back as the plan, except for the fields in `left`.
void check_read_back(const planner::LaunchText& one, const program::Plan& plan,
                     const std::string& folder, int gpus) {
  const std::string path = folder + "/" + one.file;
  std::ofstream(path) << one.text;
  std::vector<std::string> settings = {"cluster=dgx-h100"};
  const bool is_whole = one.program == "Megatron-LM" || one.program == "NeMo 2";
  if (one.program != "NeMo 2") settings.emplace_back("model=llama-3.1-8b");
  if (!is_whole) settings.push_back(fmt::format("gpus={}", gpus));
  const auto file = input::load_megatron(path, settings);
  INFO(one.text << "\n" << one.left);
  const std::string problem = file ? "" : file.errors().front().message;
  INFO(problem);
  REQUIRE(file);
  program::Plan back = file->plan;
  for (const std::string& name : fields_of(one.left)) {
    const auto field = std::ranges::find(input::plan_fields(), name, &input::Field::name);
    REQUIRE(field != input::plan_fields().end());
    CHECK(field->place.get(back) != field->place.get(plan));
    field->place.set(back, field->place.get(plan));
  }
  if (one.program != "DeepSpeed") back.environment = plan.environment;  // in comments at the head
  // Fields without effect in this plan, and the same layer split in another notation.
  if (plan.mesh.pp == 1) {
    back.pipeline.schedule = plan.pipeline.schedule;
    back.pipeline.layer_split = plan.pipeline.layer_split;
  }
  if (plan.pipeline.virtual_stages == 1) back.pipeline.interleaving = plan.pipeline.interleaving;
  if (plan.mesh.cp == 1) back.mesh.context = plan.mesh.context;
  if (plan.mesh.tp == 1) back.mesh.sequence_parallel = plan.mesh.sequence_parallel;
  // Buckets of gradients and parameters, which fully_shard has not.
  if (plan.shards_parameters() && !plan.sharding.deepspeed_optimizer) {
    back.sharding.overlap_grad_reduce = plan.sharding.overlap_grad_reduce;
    back.sharding.overlap_param_gather = plan.sharding.overlap_param_gather;
  }
  if (plan.pipeline.layer_split == program::LayerSplit::padded) {
    CHECK(program::layers_of_parts(back) == program::layers_of_parts(plan));
    back.pipeline = plan.pipeline;
  }
  back.architecture.name = plan.architecture.name;
  back.architecture.max_positions = plan.architecture.max_positions;  // rotary
  CHECK(output::to_json(back).dump() == output::to_json(plan).dump());
}

// The framework's own list of arguments.
const std::set<std::string>& arguments_of(const std::string& framework) {
  static std::map<std::string, std::set<std::string>> all;
  std::set<std::string>& names = all[framework];
  if (!names.empty()) return names;
  std::ifstream in(REHEARSE_SOURCE_DIR "/workloads/launchers/arguments/" + framework + ".txt");
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with("#")) names.insert(line);
  REQUIRE(names.size() > 100);
  return names;
}

// Keys of our YAML: two blanks a level, a list is a level.
std::vector<std::string> yaml_keys(const std::string& text) {
  std::vector<std::string> keys, path;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::size_t dash = line.find("- ");
    if (dash != std::string::npos && line.find_first_not_of(' ') == dash) line[dash] = ' ';
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos || line[indent] == '#') continue;
    const std::size_t colon = line.find(':', indent);
    path.resize(indent / 2);
    path.push_back(line.substr(indent, colon - indent));
    if (colon + 1 < line.size()) keys.push_back(fmt::format("{}", fmt::join(path, ".")));
  }
  return keys;
}

std::vector<std::string> toml_keys(const std::string& text) {
  std::vector<std::string> keys;
  std::string section;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("[")) section = line.substr(1, line.size() - 2) + ".";
    const std::size_t equals = line.find(" = ");
    if (!line.starts_with("#") && equals != std::string::npos)
      keys.push_back(section + line.substr(0, equals));
  }
  return keys;
}

std::vector<std::string> json_keys(const nlohmann::json& json, const std::string& before = "") {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_object()) keys.push_back(before + key);
    if (value.is_object())
      for (std::string& one : json_keys(value, before + key + ".")) keys.push_back(std::move(one));
  }
  return keys;
}

// "Class.argument" of each keyword of a Python script whose calls have one argument a line.
std::vector<std::string> python_keys(const std::string& text) {
  std::vector<std::string> keys;
  std::string callee;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const bool is_call = line.ends_with("(") && !line.starts_with("#");
    const std::size_t start = line.find_last_of(" .") + 1;
    if (is_call) callee = line.substr(start, line.size() - 1 - start);
    if (!line.starts_with("    ")) continue;
    for (std::size_t at = 4; at < line.size();) {  // several of short ones
      keys.push_back(callee + "." + line.substr(at, line.find('=', at) - at));
      const std::size_t next = line.find(", ", at);
      const bool is_list = line.find_first_of("([", at) < next;
      at = next == std::string::npos || is_list ? line.size() : next + 2;
    }
  }
  return keys;
}

// Flags after the name of Megatron-LM's program.
std::vector<std::string> flags_of(const std::string& text) {
  std::vector<std::string> flags;
  std::istringstream in(text.substr(text.find("pretrain_gpt.py")));
  for (std::string word; in >> word;)
    if (word.starts_with("--")) flags.push_back(word);
  return flags;
}

// Every argument of a launch file is one of its framework.
void check_arguments(const planner::LaunchText& one) {
  static const std::map<std::string, std::string> lists = {{"Megatron-LM", "megatron-lm"},
                                                           {"Megatron-Bridge", "megatron-bridge"},
                                                           {"torchtitan", "torchtitan"},
                                                           {"NeMo 1", "nemo"},
                                                           {"nanotron", "nanotron"},
                                                           {"DeepSpeed", "deepspeed"},
                                                           {"NeMo 2", "nemo-2"}};
  const std::vector<std::string> keys = one.file == "launch.sh"       ? flags_of(one.text)
                                        : one.file.ends_with(".py")   ? python_keys(one.text)
                                        : one.file.ends_with(".toml") ? toml_keys(one.text)
                                        : one.file.ends_with(".json")
                                            ? json_keys(nlohmann::json::parse(one.text))
                                            : yaml_keys(one.text);
  CHECK(keys.size() > 5);
  for (const std::string& key : keys) {
    INFO(one.program << ": " << key);
    CHECK(arguments_of(lists.at(one.program)).contains(key));
  }
}

}  // namespace

TEST_CASE("planner: what is to be launched, read back, is the plan") {
  const std::string folder =
      (std::filesystem::temp_directory_path() / "rehearse-planner-launch").string();
  std::filesystem::create_directories(folder);
  // The second space has the plans that the simplest frameworks can run.
  const std::vector<std::string> segments = {"allocator_options=expandable_segments:True"};
  std::vector<std::string> simple = {"schedule=1f1b,gpipe", "zero=0,1", "cp=1", "vp=1",
                                     "recompute=none"};
  simple.insert(simple.end(), segments.begin(), segments.end());
  std::vector<std::string> general = {"schedule=1f1b,interleaved-1f1b,gpipe"};
  general.insert(general.end(), segments.begin(), segments.end());
  const planner::Space whole =
      sample::space(sample::question("llama-3.1-8b", "dgx-h100", 32, 64, 8192, general));
  const planner::Space small =
      sample::space(sample::question("llama-3.1-8b", "dgx-h100", 32, 64, 8192, simple));
  Random random(5);
  std::map<std::string, int> said;
  std::map<std::string, std::set<std::string>> left;
  for (int i = 0; i < 250; ++i) {
    const planner::Space& space = i < 200 ? whole : small;
    const auto c =
        static_cast<std::size_t>(random.uniform() * static_cast<double>(space.cores().size()));
    const planner::PlanShape& core = space.cores()[c];
    program::Plan plan = space.plan(core, 0);
    if (plan.mesh.cp > 1 && plan.sharding.data_parallel == program::DataParallelism::fsdp2)
      plan.mesh.context = "torch-allgather";  // torchtitan's
    for (const planner::LaunchText& one : planner::launches(
             plan, "llama-3.1-8b", "dgx-h100", space.bases()[core.base].file.machine)) {
      if (one.text.empty()) {
        CHECK_FALSE(one.left.empty());
        continue;
      }
      ++said[one.program];
      for (const std::string& field : fields_of(one.left)) left[one.program].insert(field);
      INFO(space.words(core, 0));
      check_read_back(one, plan, folder, 32);
      check_arguments(one);
    }
  }
  CHECK(said["NeMo 1"] > 10);
  CHECK(said["NeMo 2"] > 20);
  CHECK(left["NeMo 2"].empty());
  CHECK(said["nanotron"] > 10);
  // Megatron-FSDP has no flag for its gathers ahead.
  CHECK(left["Megatron-LM"] ==
        std::set<std::string>{"fsdp.backward_prefetch", "fsdp.forward_prefetch"});
  CHECK(left["Megatron-Bridge"].empty());
  CHECK(left["torchtitan"] == std::set<std::string>{"attention", "swiglu_fusion", "rope_fusion",
                                                    "norm_fusion", "layer_kernels",
                                                    "separate_products", "interleaving"});
  CHECK(said["Megatron-LM"] > 20);
  CHECK(said["torchtitan"] > 5);
  CHECK(said["Megatron-Bridge"] > 10);
}

TEST_CASE("planner: DeepSpeed's own optimizer is told by its configuration") {
  const std::string folder =
      (std::filesystem::temp_directory_path() / "rehearse-planner-deepspeed").string();
  std::filesystem::create_directories(folder);
  const std::vector<std::vector<std::string>> starts = {
      {},
      {"optimizer_cpu_offload=true"},
      {"optimizer_cpu_offload=true", "optimizer_offload_fraction=0.5",
       "optimizer_sub_group=100000000", "fp32_gradients=true", "precision=fp16"},
      {"overlap_grad_reduce=false", "deepspeed_all_reduce=true", "gradient_clipping=false"}};
  for (std::vector<std::string> start : starts) {
    start.insert(start.end(), {"zero=3", "pp=1", "tp=1", "micro_batch=1",
                               "deepspeed_optimizer=true", "framework=deepspeed"});
    const planner::Space space =
        sample::space(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, start));
    const planner::PlanShape& core = space.cores().front();
    program::Plan plan = space.plan(core, 0);
    if (!plan.stack.gradient_clipping) {
      plan.sharding.fsdp.secondary = 8;
      plan.sharding.fsdp.quantized_weights = plan.sharding.fsdp.quantized_gradients = true;
    }
    const std::vector<planner::LaunchText> all =
        planner::launches(plan, "llama-3.1-8b", "dgx-h100", space.bases()[core.base].file.machine);
    for (const planner::LaunchText& one : all)
      CHECK(one.text.empty() == (one.program != "DeepSpeed"));
    const planner::LaunchText& last = all.back();
    REQUIRE(last.file == "ds_config.json");
    CHECK(last.left == "the model and how its layers run");
    check_arguments(last);
    std::ofstream(folder + "/ds_config.json") << last.text;
    const auto file = input::load_megatron(
        folder + "/ds_config.json",
        {"model=llama-3.1-8b", "cluster=dgx-h100", "gpus=16", "sequence=8192"});
    INFO(last.text << "\n" << (file ? "" : file.errors().front().message));
    REQUIRE(file);
    program::Plan back = file->plan;
    back.policy = plan.policy;
    CHECK(output::to_json(back).dump() == output::to_json(plan).dump());
    plan.sharding.fsdp.reshard_after_forward = false;
    CHECK(planner::launches(plan, "llama-3.1-8b", "dgx-h100", space.bases()[core.base].file.machine)
              .back()
              .text.empty());
  }
}

// A script that drops a field silently would train something else.
TEST_CASE("planner: what a launch file cannot say of a plan it does not leave out") {
  const std::string folder =
      (std::filesystem::temp_directory_path() / "rehearse-planner-fields").string();
  std::filesystem::create_directories(folder);
  const std::vector<std::vector<std::string>> starts = {
      {"zero=1", "pp=2", "vp=1"},
      {"zero=1", "pp=1", "recompute=full"},
      {"zero=1", "pp=1", "fp8=true", "fp8_recipe=tensorwise"},
      {"zero=3", "pp=1", "framework=torchtitan", "recompute=none"},
      {"zero=3", "pp=1", "framework=torchtitan", "recompute=none", "fp8=true"},
      {"zero=1", "pp=1", "deepspeed_optimizer=true", "overlap_grad_reduce=false",
       "overlap_param_gather=false", "fp32_gradients=false", "gradient_accumulation_fusion=false"}};
  std::map<std::string, int> said;
  for (std::vector<std::string> start : starts) {
    start.insert(start.end(), {"tp=2", "cp=2", "micro_batch=1"});
    const planner::Space space =
        sample::space(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, start));
    const planner::PlanShape& core = space.cores().front();
    for (const input::Field& field : input::plan_fields()) {
      program::Plan plan = space.plan(core, 0);
      if (!field.place || field.name.starts_with("architecture.")) continue;
      const input::Value value = field.place.get(plan);
      const bool* flag = std::get_if<bool>(&value);
      if (flag == nullptr) continue;
      field.place.set(plan, !*flag);
      if (!program::problems(plan).empty()) continue;
      for (const planner::LaunchText& one : planner::launches(
               plan, "llama-3.1-8b", "dgx-h100", space.bases()[core.base].file.machine)) {
        INFO(field.name << " " << !*flag << " " << one.program);
        if (one.text.empty()) {
          CHECK_FALSE(one.left.empty());
          continue;
        }
        if (one.program == "DeepSpeed") continue;  // its layers are another file's
        ++said[one.program];
        check_read_back(one, plan, folder, 16);
        if (one.program != "Megatron-LM") continue;
        const std::vector<std::string> left = fields_of(one.left);
        CHECK((left.empty() || left == std::vector{std::string(field.name)}));
      }
    }
  }
  CHECK(said["Megatron-LM"] > 20);
  CHECK(said["Megatron-Bridge"] > 20);
  CHECK(said["torchtitan"] > 20);
}

TEST_CASE("planner: torchtitan is told to compile, or else to stop early") {
  const planner::Space space = sample::space(sample::question(
      "llama-3.1-8b", "dgx-h100", 32, 64, 8192, {"zero=3", "pp=1", "recompute=full"}));
  program::Plan plan = space.plan(space.cores().front(), 0);
  const auto text = [&] {
    for (const planner::LaunchText& one :
         planner::launches(plan, "llama-3.1-8b", "dgx-h100", space.bases().front().file.machine))
      if (one.program == "torchtitan") return one.text;
    return std::string();
  };
  plan.stack.layer_kernels = program::LayerKernels::eager;
  CHECK(text().ends_with("mode = \"full\"\n"));
  plan.stack.checkpoint_early_stop = true;
  CHECK(text().ends_with("mode = \"full\"\nearly_stop = true\n"));
  plan.stack.layer_kernels = program::LayerKernels::compiled;
  CHECK(text().ends_with("mode = \"full\"\n\n[compile]\nenable = true\n"));
}

TEST_CASE("planner: torchtitan's sequences are shared as PyTorch does, and it is told how") {
  const planner::Space space = sample::space(sample::question(
      "llama-3.1-8b", "dgx-h100", 32, 64, 8192,
      {"framework=torchtitan", "pp=1", "cp=2", "zero=3", "vp=1", "recompute=full"}));
  std::set<std::string> seen;
  for (const planner::PlanShape& core : space.cores()) {
    program::Plan plan = space.plan(core, 0);
    const auto text = [&](std::string planner::LaunchText::*part) {
      for (const planner::LaunchText& one : planner::launches(
               plan, "llama-3.1-8b", "dgx-h100", space.bases()[core.base].file.machine))
        if (one.program == "torchtitan") return one.*part;
      return std::string();
    };
    const std::string rotates = plan.mesh.context == "torch-alltoall" ? "alltoall" : "allgather";
    if (const std::string told = text(&planner::LaunchText::text); !told.empty()) {
      seen.insert(plan.mesh.context);
      CHECK(told.find("rotate_method = \"" + rotates + "\"\n") != told.npos);
    }
    plan.mesh.context = "ring";
    CHECK(text(&planner::LaunchText::left).find("context torch-allgather") != std::string::npos);
  }
  CHECK(seen == std::set<std::string>{"torch-allgather", "torch-alltoall"});
}

TEST_CASE("planner: an order of nodes is launched as a hostfile") {
  const planner::Space space = sample::space(
      sample::question("llama-3.1-8b", "dgx-h100", 24, 48, 8192,
                       {"zero=1", "tp=8", "recompute=none", "cluster.nodes=4", "host=[2,0,3,1]"}));
  const input::Machine& machine = space.bases().front().file.machine;
  const auto all =
      planner::launches(space.plan(space.cores().front(), 0), "llama-3.1-8b", "dgx-h100", machine);
  REQUIRE(all.size() == 7);
  // The launch file is read back on the cluster with its changed settings.
  const auto large = planner::launches(space.plan(space.cores().front(), 0), "llama-3.1-8b",
                                       "tsubame4", machine, {"cluster.nodes=6"});
  CHECK(large.front().left.empty());
  const auto small = planner::launches(space.plan(space.cores().front(), 0), "llama-3.1-8b",
                                       "tsubame4", machine, {"cluster.nodes=5"});
  CHECK(small.front().left.find("has 20") != std::string::npos);
  CHECK(all.back().file == "hostfile");
  CHECK(all.back().text.ends_with("\nnode-02 slots=8\nnode-00 slots=8\nnode-03 slots=8\n"));
}

TEST_CASE("planner: what no flag says is not launched without it") {
  const planner::Space space = sample::space(
      sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192,
                       {"zero=2", "tp=1", "recompute=none", "gradient_accumulation_fusion=false",
                        "fake_quantization=weights"}));
  const input::Machine& machine = space.bases().front().file.machine;
  const program::Plan plan = space.plan(space.cores().front(), 0);
  for (const planner::LaunchText& one :
       planner::launches(plan, "llama-3.1-8b", "dgx-h100", machine)) {
    CAPTURE(one.program);
    CHECK(one.text.empty());
    CHECK(one.left.find("round") != std::string::npos);
  }
}

namespace {

// Megatron-LM's script of a plan of 16 GPUs with the settings.
planner::LaunchText script(const std::string& model, std::vector<std::string> settings, int gpus) {
  settings.insert(settings.end(), {"zero=1", "pp=1", "cp=1", "micro_batch=1", "recompute=none"});
  const planner::Space space =
      sample::space(sample::question(model, "dgx-h100", gpus, 64, 4096, settings));
  return planner::launches(space.plan(space.cores().front(), 0), model, "dgx-h100",
                           space.bases().front().file.machine)
      .front();
}

bool says(const planner::LaunchText& one, const std::string& words) {
  return (one.text + " ").find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("planner: a script of Megatron-LM has the flags that matter and no others") {
  const planner::LaunchText dense = script("llama-3.1-8b", {"tp=1"}, 16);
  INFO(dense.text);
  CHECK(dense.left.empty());
  for (const char* flag : {"--moe-", "--expert-", "--sequence-parallel", "instances 1",
                           "--num-workers", "--recompute-activations"})
    CHECK_FALSE(says(dense, flag));
  const planner::LaunchText mixture = script("mixtral-8x7b", {"tp=2", "ep=8", "etp=1"}, 16);
  INFO(mixture.text);
  CHECK(mixture.left.empty());
  for (const char* flag : {"--num-experts 8", "--moe-router-topk 2",
                           "--expert-model-parallel-size 8", "--sequence-parallel"})
    CHECK(says(mixture, flag));
}

TEST_CASE("planner: a script of Megatron-LM runs as it is pasted on each node") {
  const planner::LaunchText nodes = script("llama-3.1-8b", {"tp=2"}, 16);
  INFO(nodes.text);
  for (const char* word :
       {"--nnodes 2 --nproc_per_node 8 --node_rank \"${NODE_RANK:?}\"", "MASTER_ADDR:?",
        "--mock-data", "--train-iters 10", "--lr ", "--rotary-base 500000", "--use-rope-scaling",
        "--rope-scaling-factor 8", "--norm-epsilon 1e-05", "--tokenizer-type NullTokenizer"})
    CHECK(says(nodes, word));
  const planner::LaunchText node = script("llama-2-7b", {"tp=2"}, 8);
  INFO(node.text);
  CHECK(says(node, "torchrun --nproc_per_node 8 pretrain_gpt.py"));
  CHECK_FALSE(says(node, "MASTER_ADDR"));
  CHECK_FALSE(says(node, "--use-rope-scaling"));
  const planner::LaunchText latent = script("deepseek-v3", {"tp=1", "ep=8", "etp=1"}, 64);
  INFO(latent.text);
  CHECK(latent.left.empty());
  CHECK(says(latent, "--rope-type yarn \\\n  --rotary-scaling-factor 40 \\\n  --mscale 1 "));
  CHECK(script("gpt-oss-120b", {"tp=1", "ep=8", "etp=1"}, 64).left.find("scaled by yarn") !=
        std::string::npos);
}

TEST_CASE("planner: a batch script of Slurm is read back as the plan") {
  const planner::Space space = sample::space(
      sample::question("llama-3.1-8b", "dgx-h100", 32, 64, 8192,
                       {"zero=1", "tp=2", "pp=2", "schedule=1f1b", "recompute=none"}));
  const program::Plan plan = space.plan(space.cores().front(), 0);
  const planner::LaunchText one =
      planner::launches(plan, "llama-3.1-8b", "dgx-h100", space.bases().front().file.machine, {},
                        planner::Launcher::slurm)
          .front();
  INFO(one.text);
  CHECK(one.left.empty());
  CHECK(one.text.starts_with("#!/bin/bash\n#SBATCH --job-name=llama-3.1-8b\n"));
  for (const char* words :
       {"#SBATCH --nodes=4\n", "#SBATCH --gpus-per-node=8\n", "#SBATCH --cpus-per-task=112\n",
        "#SBATCH --output=%x-%j.log\n", "#SBATCH --time=HH:MM:SS\n",
        "srun --cpus-per-task=\"$SLURM_CPUS_ON_NODE\" torchrun --nnodes 4 ", "$MASTER_ADDR:29500"})
    CHECK(says(one, words));
  check_arguments(one);
}
