// row_experts.cpp — the experts of a row: its network beyond the columns, how its tokens travel,
// what its recipe runs again. Sources of what rows do not say:
//
//     networks        models/NAME.json, by the row's name
//     CI              the flags in `extra`; tokenizers [NVIDIA/Megatron-LM tests/functional_tests/
//                     test_cases/mixtral/*/model_config.yaml]; the core that made a golden file is
//                     in its name
//     Megatron Bridge row_bridge.cpp
//     NeMo, dgxc      core 0.9 and 0.10: PyTorch's permutation, probabilities where rows are summed
#include "sim/calibrate/rows/row_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>

#include "sim/input/cluster/cluster.h"
#include "sim/input/models/huggingface.h"
#include "sim/input/text/locate.h"
#include "sim/program/plan/layer_partition.h"

namespace sim::calibrate {

namespace {

using model::Architecture;

bool is_ci(const Row& row) {
  return cell(row, "source_group") == "megatron-ci";
}

// Words of a model's name in tables, and the file that has its network.
struct Known {
  std::array<const char*, 2> words;
  const char* file;
};
constexpr std::array<Known, 11> known = {{{{"deepseek", "v3"}, "deepseek-v3"},
                                          {{"deepseek", "v2"}, "deepseek-v2"},
                                          {{"qwen3", "30b"}, "qwen3-30b-a3b"},
                                          {{"qwen3", "235b"}, "qwen3-235b-a22b"},
                                          {{"gpt", "oss"}, "gpt-oss-120b"},
                                          {{"grok", "1"}, "grok-1"},
                                          {{"maverick", ""}, "llama-4-maverick"},
                                          {{"mixtral", "8x22b"}, "mixtral-8x22b"},
                                          {{"mixtral", "8x7b"}, "mixtral-8x7b"},
                                          {{"mixtral", "22b"}, "mixtral-8x22b"},
                                          {{"mixtral", "7b"}, "mixtral-8x7b"}}};

// The network by the row's name; without experts where no file has it.
Architecture network_of(const Row& row) {
  for (const Known& one : known) {
    const bool all = std::ranges::all_of(
        one.words, [&](const char* word) { return contains(cell(row, "model"), word); });
    if (!all || is_ci(row)) continue;
    const Result<std::string> path = input::locate(input::Kind::model, one.file, "");
    if (!path) continue;
    if (const Result<Architecture> found = input::load_huggingface(*path)) return *found;
  }
  return {};
}

// A count that a flag gives; `otherwise` where it gives none that a network can have.
std::int64_t number_in(const nlohmann::json& extra, const char* key, std::int64_t otherwise) {
  constexpr std::int64_t most = 1 << 30;
  const auto found = extra.find(key);
  if (found == extra.end() || !found->is_number_integer()) return otherwise;
  const auto value = found->get<std::int64_t>();
  return value >= 0 && value <= most ? value : otherwise;
}

std::string text_in(const nlohmann::json& extra, const char* key) {
  const auto found = extra.find(key);
  if (found == extra.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

// A pattern for fewer layers than the network has: as many dense ones first.
std::string shortened(const Architecture& whole, std::int64_t layers) {
  const std::vector<std::uint8_t> all = model::mixture_layers(whole);
  std::string text = "(";
  for (std::int64_t i = 0; i < layers; ++i)
    text += fmt::format("{}[{}]", i == 0 ? "" : "+", all[static_cast<std::size_t>(i) % all.size()]);
  return text + ")";
}

// What the row says of a network that is known, in place of what its file says.
void take_known(const Row& row, Architecture whole, RowPlan& out) {
  Architecture& a = out.plan.architecture;
  const std::int64_t layers = a.layers;
  whole.name = a.name;
  whole.vocab = a.vocab;
  whole.max_positions = a.max_positions;
  whole.attention_dropout = whole.hidden_dropout = 0;
  whole.experts.top_k = leading_number(cell(row, "topk")).value_or(whole.experts.top_k);
  whole.experts.count = leading_number(cell(row, "experts")).value_or(whole.experts.count);
  if (layers != whole.layers && whole.experts.layers != "1")
    whole.experts.layers = shortened(whole, layers);
  whole.layers = layers;
  // Megatron-LM's layers have two norms, and these trainings an output layer of their own.
  whole.output_norms = false;
  whole.tied_embeddings = false;
  whole.predicted_tokens = 0;
  a = whole;
}

void take_flags(const nlohmann::json& extra, Architecture& a) {
  model::Experts& e = a.experts;
  e.ffn = number_in(extra, "moe-ffn-hidden-size", e.ffn);
  e.shared_ffn = number_in(extra, "moe-shared-expert-intermediate-size", e.shared_ffn);
  if (const std::string pattern = text_in(extra, "moe-layer-freq"); !pattern.empty())
    e.layers = pattern;
  e.pre_softmax = e.pre_softmax || flag(extra, "moe-router-pre-softmax");
  e.groups = number_in(extra, "moe-router-num-groups", e.groups);
  e.top_groups = number_in(extra, "moe-router-group-topk", e.top_groups);
  e.expert_bias = e.expert_bias || flag(extra, "moe-router-enable-expert-bias");
  if (text_in(extra, "moe-router-score-function") == "sigmoid")
    e.score = model::RouterScore::sigmoid;
  a.predicted_tokens = number_in(extra, "mtp-num-layers", a.predicted_tokens);
  if (!flag(extra, "multi-latent-attention")) {
    a.query_key_norm = a.query_key_norm || flag(extra, "qk-layernorm");
    return;
  }
  a.latent = {number_in(extra, "kv-lora-rank", 32), number_in(extra, "q-lora-rank", 0),
              number_in(extra, "qk-head-dim", 128), number_in(extra, "qk-pos-emb-head-dim", 64),
              number_in(extra, "v-head-dim", 128)};
  a.head_dim = a.latent.content + a.latent.rotated;
  a.kv_heads = a.heads;
}

// Tokens of the CI's tokenizers: nemotron_2_256k, or Llama 2's; padded as the flag says.
void vocabulary_of_ci(const Row& row, const nlohmann::json& extra, int tp, RowPlan& out) {
  if (!is_ci(row) || !cell(row, "vocab").empty() || extra.contains("vocab-size")) return;
  const bool wide =
      contains(cell(row, "model"), "8x7b_alltoall") || contains(cell(row, "model"), "deepseek");
  const std::int64_t tokens = wide ? 256000 : 32000;
  const std::int64_t multiple =
      std::max<std::int64_t>(number_in(extra, "make-vocab-size-divisible-by", 128), 1) * tp;
  out.plan.architecture.vocab = (tokens + multiple - 1) / multiple * multiple;
  out.assumptions.push_back(fmt::format("{} tokens, as its test's tokenizer", tokens));
}

// 0.9 for "golden_values_0.9.0.json" or "core_v0.9.0"; 99 for what is newer than any tag.
double core_of(const Row& row) {
  static const std::regex golden(R"(golden_values_(\d+)\.(\d+)\.)"), tag(R"(core_v?(\d+)\.(\d+))");
  std::smatch found;
  const std::string& source = cell(row, "source");
  const std::string& version = cell(row, "version");
  if (std::regex_search(source, found, golden)) return std::stod(found[2]);
  if (std::regex_search(version, found, tag)) return std::stod(found[2]);
  if (starts_with(version, "v24.11")) return 9;
  if (starts_with(version, "v25.02")) return 10;
  if (starts_with(version, "v25.05")) return 12;
  return 99;
}

void read_dispatch(const Row& row, const nlohmann::json& extra, RowPlan& out) {
  program::ExpertsPlan& how = out.plan.experts;
  const double core = core_of(row);
  const std::string type = text_in(extra, "moe-token-dispatcher-type");
  how.late_probabilities = core < 13;
  how.permute_fusion = is_ci(row) ? flag(extra, "moe-permute-fusion") : core >= 12;
  how.fp32_router = text_in(extra, "moe-router-dtype") == "fp32";
  if (type == "flex") how.dispatcher = program::Dispatcher::flex;
  if (type == "allgather") how.dispatcher = program::Dispatcher::allgather;
  if (core < 9 && how.dispatcher == program::Dispatcher::alltoall)
    how.dispatcher = program::Dispatcher::alltoall_seq;
  if (const auto factor = extra.find("moe-expert-capacity-factor");
      factor != extra.end() && factor->is_number())
    how.capacity_factor = factor->get<double>();
  how.pads_to_capacity = flag(extra, "moe-pad-expert-input-to-capacity");
  how.overlaps_all_to_all = flag(extra, "overlap-moe-expert-parallel-comm");
}

// How far the FLOPs of a network are from those of the row's own rate and time, relatively.
class Counted {
 public:
  Counted(const Row& row, const program::Plan& plan)
      : sequences_(degree(row, "gbs")), sequence_(static_cast<double>(plan.batch.sequence)) {
    const auto rate = number(cell(row, "tflops_gpu")), time = number(cell(row, "iter_time_s"));
    if (rate && time) flops_ = *rate * 1e12 * *time * degree(row, "n_gpus");
  }
  bool known() const { return flops_ > 0 && sequences_ > 0; }
  double apart(const Architecture& a) const {
    const model::Batch batch{sequences_, sequence_, static_cast<double>(a.vocab),
                             model::Recompute::none};
    return std::abs(model::find_flop_convention("megatron")->flops(a, batch) / flops_ - 1);
  }

 private:
  double sequences_, sequence_, flops_ = 0;
};

// Tables give the depth of a proxy in the column `layers`; where its FLOPs contradict it and agree
// with the whole network, that was trained. So with modules that predict more tokens.
void check_depth(const Row& row, const Architecture& whole, RowPlan& out) {
  Architecture& a = out.plan.architecture;
  const Counted counted(row, out.plan);
  if (!counted.known()) return;
  Architecture full = a;
  full.layers = whole.layers;
  full.experts.layers = whole.experts.layers;
  if (a.layers < whole.layers && counted.apart(a) >= 0.15 && counted.apart(full) <= 0.05) {
    a = full;
    out.assumptions.push_back(fmt::format("{} layers, as its FLOPs say", full.layers));
  }
  Architecture predicts = a;
  predicts.predicted_tokens = whole.predicted_tokens;
  if (whole.predicted_tokens == 0 || counted.apart(predicts) > 0.01 || counted.apart(a) < 0.02)
    return;
  a = predicts;
  out.assumptions.push_back("one more token is predicted, as its FLOPs say");
}

}  // namespace

std::string read_experts(const Row& row, const nlohmann::json& extra, RowPlan& out) {
  const std::string& stated = cell(row, "experts");
  if (stated.empty() || stated == "0") return "";
  program::Plan& plan = out.plan;
  Architecture& a = plan.architecture;
  const Architecture whole = network_of(row);
  const std::int64_t count = leading_number(stated).value_or(whole.experts.count);
  const std::int64_t top_k = leading_number(cell(row, "topk")).value_or(whole.experts.top_k);
  if (count < 1 || count > 16384 || top_k < 1 || top_k > count)
    return "not published: experts, topk";
  if (whole.is_mixture()) {
    take_known(row, whole, out);
    check_depth(row, whole, out);
  } else {
    a.experts.count = count;
    a.experts.top_k = top_k;
    a.experts.ffn = a.ffn;
  }
  take_flags(extra, a);
  // Proxies of four layers have experts in all but the first, as the memory of their stages says:
  // that of the second is right with two such layers, that of the first with one.
  if (starts_with(cell(row, "source_group"), "simumax") && a.layers > 1)
    a.experts.layers = fmt::format("([0]*1+[1]*{})", a.layers - 1);
  const int tp = std::max(degree(row, "tp"), 1);
  vocabulary_of_ci(row, extra, tp, out);
  plan.mesh.ep = std::max(degree(row, "ep"), 1);
  plan.mesh.etp = static_cast<int>(number_in(extra, "expert-tensor-parallel-size", 0));
  static const std::regex noted(R"(ETP=(\d{1,3}))");
  std::smatch found;
  const std::string& where = cell(row, "version");
  const std::string& notes = cell(row, "notes");
  if (std::regex_search(where, found, noted) || std::regex_search(notes, found, noted))
    plan.mesh.etp = std::stoi(found[1]);
  if (is_bridge(row)) plan.mesh.etp = 1;
  if (!model::read_layer_pattern(a.experts.layers, a.layers).problem.empty())
    return fmt::format("layers of experts '{}' are not those of {} layers", a.experts.layers,
                       a.layers);
  read_dispatch(row, extra, out);
  read_bridge_degrees(row, out);
  return "";
}

namespace {

// What is left is for activations, communicators and the CUDA context.
constexpr double state_share = 0.8;

// Parameters, gradients and optimizer state of a GPU among so many, of equal stages: in 16 bits,
// gradients in 16 or 32, masters and moments in 32, in shards where the plan has them.
double state_bytes(const program::Plan& plan, std::int64_t etp, std::int64_t gpus) {
  const Architecture& a = plan.architecture;
  const double products = a.activation == model::Activation::swiglu ? 3 : 2;
  const double all = static_cast<double>(model::mixture_count(a) * a.experts.count * a.hidden) *
                     products * static_cast<double>(a.experts.ffn);
  const double stages = plan.mesh.pp, world = static_cast<double>(gpus) / stages;
  const double shared = static_cast<double>(etp * plan.mesh.ep);
  const double experts = all / shared / stages;
  const double rest = (static_cast<double>(model::parameters(a)) - all) / plan.mesh.tp / stages;
  const double held = plan.numerics.fp32_gradients ? 6 : 4, state = 12;
  if (!plan.sharding.distributed_optimizer) return (held + state) * (experts + rest);
  return held * (experts + rest) +
         state * (experts / (world / shared) + rest / (world / plan.mesh.tp));
}

}  // namespace

int gpus_of_experts(const Row& row, const program::Plan& plan, RowPlan& out) {
  if (!plan.architecture.is_mixture()) return 0;
  // The CI's release tests of Mixtral: what their parameters, gradients and optimizer state take on
  // a rank is that of 128 GPUs.
  if (is_ci(row) && starts_with(cell(row, "model"), "mixtral/mixtral")) {
    out.assumptions.emplace_back("128 GPUs, as its memory between steps says");
    return 128;
  }
  const std::int64_t etp = plan.expert_tp();
  const std::int64_t attention = std::int64_t{plan.mesh.tp} * plan.mesh.cp;
  std::int64_t gpus = std::lcm(attention, etp * plan.mesh.ep) * plan.mesh.pp;
  if (gpus < 1 || gpus > count_max) return 0;
  const input::Machine* machine = cluster_of(row).machine;
  const double room = machine ? state_share * static_cast<double>(machine->gpu.memory.n) : 0;
  const std::int64_t most = degree(row, "gbs") * attention * plan.mesh.pp;
  while (2 * gpus <= most && state_bytes(plan, etp, gpus) > room) gpus *= 2;
  out.assumes_gpus = true;
  out.assumptions.push_back(
      fmt::format("{} GPUs, the fewest that its degrees and its state allow", gpus));
  return static_cast<int>(gpus);
}

void finish_experts(const Row& row, RowPlan& out) {
  if (!out.plan.architecture.is_mixture()) return;
  read_bridge_recipe(row, out);
  // The modules that predict more tokens stand where the loss does.
  std::string layout = text_in(extra(row), "pipeline-model-parallel-layout");
  std::erase_if(layout, [](char c) { return c == 'm' || c == '"'; });
  if (layout.empty()) return;
  const program::Layout read = program::read_layout(layout);
  if (read.problem.empty()) out.plan.pipeline.layers_of_parts = read.layers;
}

}  // namespace sim::calibrate
