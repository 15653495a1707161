#include "sim/model/flops.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "sim/base/ascii.h"

namespace sim::model {
namespace {

double real(std::int64_t n) {
  return static_cast<double>(n);
}

// Forward FLOPs of one token. The attention core counts all s x s scores: q k^T and the product
// with v.
struct Forward {
  double layers = 0;     // weight matrices of all layers
  double head = 0;       // output layer
  double attention = 0;  // attention core
};

// Multiply-adds of attention for one token: in the linear layers (`products`), and for each key in
// the attention core (`per_key`). Latent attention follows Megatron-LM, which counts its two norms
// as products [core 0.14 training.py:num_floating_point_operations].
struct AttentionWork {
  double products = 0, per_key = 0;
};

AttentionWork attention_work(const Architecture& a) {
  const double heads = real(a.heads), h = real(a.hidden);
  if (!a.is_latent())
    return {h * (2 * real(a.query_width()) + 2 * real(a.kv_width())), 2 * real(a.query_width())};
  const Latent& l = a.latent;
  const double query = heads * real(l.content + l.rotated), value = heads * real(l.value);
  const double q_rank = real(l.q_rank), kv_rank = real(l.kv_rank);
  double products = l.q_rank > 0 ? q_rank * (h + query + 1) : h * query;
  products += kv_rank * (h + heads * real(l.content + l.value) + 1);
  products += h * real(l.rotated) + value * h;
  return {products, query + value};
}

double matrices_of_mlp(const Architecture& a) {
  return a.activation == Activation::swiglu ? 3 : 2;
}

// Each multi-token prediction module counts as one more layer of the kind of the last layer. It
// adds a 2h x h projection, three norms and the head once more. The router does not count.
Forward forward(const Architecture& a, const Batch& batch, double matrices) {
  const double h = real(a.hidden), predicted = real(a.predicted_tokens);
  const std::vector<std::uint8_t> mixture = mixture_layers(a);
  const bool last = !mixture.empty() && mixture.back() != 0;
  const double layers = real(a.layers) + predicted;
  const double mixtures = real(mixture_count(a)) + (last ? predicted : 0);
  const AttentionWork attention = attention_work(a);
  Forward f;
  const double chosen = real(a.experts.top_k * a.experts.ffn + a.experts.shared_ffn);
  f.layers = 2 * layers * attention.products;
  f.layers += 2 * h * matrices * ((layers - mixtures) * real(a.ffn) + mixtures * chosen);
  f.layers += 2 * predicted * (3 * h + 2 * h * h);
  f.head = 2 * h * batch.vocab * (1 + predicted);
  f.attention = 2 * layers * batch.sequence * attention.per_key;
  return f;
}

Forward forward(const Architecture& a, const Batch& batch) {
  return forward(a, batch, matrices_of_mlp(a));
}

double tokens(const Batch& batch) {
  return batch.sequences * batch.sequence;
}

double full(const Architecture& a, const Batch& batch) {
  const Forward f = forward(a, batch);
  return 3 * tokens(batch) * (f.layers + f.attention + f.head);
}

double causal(const Forward& f, const Batch& batch) {
  return 3 * tokens(batch) * (f.layers + f.attention / 2 + f.head);
}

double megatron(const Architecture& a, const Batch& batch) {
  return causal(forward(a, batch), batch);
}

// Megatron-LM counts an MLP as gated only with SiLU. With another gate function it misses the
// second input projection.
double megatron_ungated(const Architecture& a, const Batch& batch) {
  return causal(forward(a, batch, 2), batch);
}

// Products with weights only: 3 (forward and two backward) for trained weights, 2 for frozen ones.
template <int products>
double weights(const Architecture& a, const Batch& batch) {
  const Forward f = forward(a, batch);
  return products * tokens(batch) * (f.layers + f.head);
}

// The share of the s x s scores that a causal mask leaves: half, or less with a sliding window.
double attended(const Architecture& a, const Batch& batch) {
  const double window = std::min(real(a.sliding_window), batch.sequence);
  if (window <= 0) return 0.5;
  return window / batch.sequence * (1 - window / (2 * batch.sequence));
}

double hardware(const Architecture& a, const Batch& batch) {
  const Forward f = forward(a, batch);
  const double core = f.attention * attended(a, batch);
  const double again = batch.recompute == Recompute::full        ? f.layers + core
                       : batch.recompute == Recompute::selective ? core
                                                                 : 0;
  return tokens(batch) * (3 * (f.layers + core + f.head) + again);
}

// N is the number of parameters that one token uses (only the chosen experts).
double six_n(const Architecture& a, const Batch& batch) {
  return 6 * real(active_parameters(a)) * tokens(batch);
}

double six_n_12_lhs(const Architecture& a, const Batch& batch) {
  const double attention = 12 * real(a.layers) * real(a.hidden) * batch.sequence;
  return six_n(a, batch) + attention * tokens(batch);
}

// B s L h^2: the formulas for GPT (f = 4h, k = a) are multiples of it.
double gpt(const Architecture& a, const Batch& batch) {
  return tokens(batch) * real(a.layers) * real(a.hidden) * real(a.hidden);
}

double narayanan(const Architecture& a, const Batch& batch) {
  const double h = real(a.hidden);
  const double products = batch.recompute == Recompute::full ? 4 : 3;
  return 24 * products * gpt(a, batch) *
         (1 + batch.sequence / (6 * h) + batch.vocab / (16 * real(a.layers) * h));
}

double korthikanti(const Architecture& a, const Batch& batch) {
  const double h = real(a.hidden);
  return 72 * gpt(a, batch) *
         (1 + batch.sequence / (6 * h) + batch.vocab / (12 * real(a.layers) * h));
}

double eight_n_layers(const Architecture& a, const Batch& batch) {
  return 96 * gpt(a, batch);
}

constexpr std::array table{
    FlopConvention{"paper", "model FLOPs, full s x s attention, no recomputation",
                   "Fujii et al. arXiv:2411.06465; logged by Megatron-LM core 0.8 and 0.9", full},
    FlopConvention{"full", "the same as paper, by its general name",
                   "NeMo and DGX Cloud tables; arXiv:2205.05198 for GPT", full},
    FlopConvention{"megatron", "model FLOPs, causal half of attention, no recomputation",
                   "logged by Megatron-LM core 0.12 and later; Megatron Bridge", megatron},
    FlopConvention{"megatron-ungated", "megatron with two matrices in an MLP, gated or not",
                   "Megatron Bridge of gates other than SiLU (GPT-OSS): flop_utils.py",
                   megatron_ungated},
    FlopConvention{"6n", "6 x parameters per token", "Kaplan et al. arXiv:2001.08361", six_n},
    FlopConvention{"6n+12lhs", "6 x parameters per token, and full attention",
                   "Chowdhery et al. arXiv:2204.02311 appendix B; llm-foundry", six_n_12_lhs},
    FlopConvention{
        "narayanan",
        "GPT formula 96 B s L h^2 (1 + s/6h + v/16Lh), 72 where layers are not recomputed",
        "Narayanan et al. arXiv:2104.04473 section 5.1", narayanan},
    FlopConvention{"korthikanti", "GPT formula 72 B s L h^2 (1 + s/6h + v/12Lh), model FLOPs",
                   "Korthikanti et al. arXiv:2205.05198 appendix A", korthikanti},
    FlopConvention{"8n-layers", "96 B s L h^2: recomputed GPT layers without attention and head",
                   "Megatron-DeepSpeed logs before the formula of arXiv:2104.04473",
                   eight_n_layers},
    FlopConvention{"weights", "6 x weights of products per token: no attention core, no embedding",
                   "NVIDIA NeMo's tables of fine-tuning on packed samples", weights<3>},
    FlopConvention{"frozen-weights", "4 x weights of products per token: trained adapters (LoRA)",
                   "NVIDIA NeMo's and Megatron Bridge's tables of LoRA", weights<2>},
    FlopConvention{
        "hardware",
        "executed: causal half of attention, and recomputed layers or attention once more",
        "HFU as in Chowdhery et al. arXiv:2204.02311 appendix B", hardware},
};

struct Rule {
  std::string_view part;
  std::string_view convention;
};

constexpr std::array rules{
    Rule{"older formula", "8n-layers"},
    Rule{"96bslh", "narayanan"},
    Rule{"narayanan", "narayanan"},
    Rule{"sc21", "narayanan"},
    Rule{"(72", "korthikanti"},
    Rule{"6n+12lhs", "6n+12lhs"},
    Rule{"6n", "6n"},
    Rule{"megatron log", "paper"},
    Rule{"full attention", "full"},
    Rule{"appendix a", "full"},
    Rule{"readme formula", "full"},
    Rule{"mfu*", "full"},
    Rule{"as reported", "megatron"},
    Rule{"megatron convention", "megatron"},
    Rule{"incl. recompute", "hardware"},
};

}  // namespace

std::span<const FlopConvention> flop_conventions() {
  return table;
}

const FlopConvention* find_flop_convention(std::string_view name) {
  for (const FlopConvention& convention : table)
    if (convention.name == name) return &convention;
  return nullptr;
}

const FlopConvention* convention_for(std::string_view tflops_kind) {
  const std::string kind = lower(tflops_kind);
  for (const Rule& rule : rules)
    if (kind.find(rule.part) != std::string::npos) return find_flop_convention(rule.convention);
  return find_flop_convention(kind);
}

double flops_paper(const Architecture& a, double sequences, double sequence, double vocab) {
  return full(a, {sequences, sequence, vocab, Recompute::none});
}

}  // namespace sim::model
