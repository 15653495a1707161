// row_experts.cpp — the experts of a row: its network, its token dispatch, its recomputation.
// Settings that rows leave out come from these sources:
//
//    networks        models/NAME.json, by the row's name
//    CI              the flags in `extra`; tokenizers [NVIDIA/Megatron-LM tests/functional_tests/
//                    test_cases/mixtral/*/model_config.yaml]; the golden file's name has the
//                    version of Megatron Core
//    Megatron Bridge row_bridge.cpp
//    NeMo, dgxc      core 0.9 and 0.10: PyTorch's permutation, probabilities where rows are summed
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

// Words in a model's name, and the file in models/ with its network.
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

// The network that the row's model name refers to. It has no experts if no file matches.
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

// A count given by a flag; `otherwise` if the flag is absent or no network can have its value.
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

// The pattern of a network cut to fewer layers: it keeps the dense layers at the start.
std::string shortened(const Architecture& whole, std::int64_t layers) {
  const std::vector<std::uint8_t> all = model::mixture_layers(whole);
  std::string text = "(";
  for (std::int64_t i = 0; i < layers; ++i)
    text += fmt::format("{}[{}]", i == 0 ? "" : "+", all[static_cast<std::size_t>(i) % all.size()]);
  return text + ")";
}

// Takes the network of a file and replaces its values by those that the row states.
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
  // Layers of Megatron-LM have two norms. These runs have an output layer separate from the
  // embedding.
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

// Vocabulary sizes of the CI's tokenizers: nemotron_2_256k or Llama 2's, padded as the flag says.
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

// Version of Megatron Core: 0.9 for "golden_values_0.9.0.json" or "core_v0.9.0". Newer than any
// tag: 99.
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

// Relative difference between a network's FLOPs and those of the row (its rate times its time).
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

// A proxy is a network with fewer layers; tables give its depth in the column `layers`. If the
// row's FLOPs contradict that depth and fit the whole network, the whole network was trained.
// Layers for multi-token prediction are checked the same way.
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
  // In proxies of four layers all layers but the first have experts. The measured memory confirms
  // it: the second stage fits two such layers, the first stage one.
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

// Share of GPU memory for the state; the rest holds activations, communicators and the CUDA
// context.
constexpr double state_share = 0.8;

// Bytes of parameters, gradients and optimizer state per GPU on `gpus` GPUs with equal stages.
// Parameters have 16 bits, gradients 16 or 32, master weights and moments 32. A distributed
// optimizer shards master weights and moments.
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
  // Release tests of Mixtral in the CI do not state their GPUs. Their parameters, gradients and
  // optimizer state per rank are those of 128 GPUs.
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
  // Multi-token prediction layers are in the same stage as the loss, so the layout drops "m".
  std::string layout = text_in(extra(row), "pipeline-model-parallel-layout");
  std::erase_if(layout, [](char c) { return c == 'm' || c == '"'; });
  if (layout.empty()) return;
  const program::Layout read = program::read_layout(layout);
  if (read.problem.empty()) out.plan.pipeline.layers_of_parts = read.layers;
}

}  // namespace sim::calibrate
