// mixture.h — the fields of an Architecture for mixtures of experts and for latent attention (MLA).
//
// A layer with experts has a router and E experts; the router sends each token to K of them. A
// shared expert, if there is one, processes every token. Latent attention computes queries, keys
// and values from narrow projections of the hidden state. Each of its heads has a content part and
// a rotated part.
//
// Sources of the rules: NVIDIA/Megatron-LM core 0.14 core/transformer/moe/*.py,
// core/transformer/multi_latent_attention.py; DeepSeek-AI arXiv:2405.04434, arXiv:2412.19437.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sim::model {

enum class RouterScore : std::uint8_t { softmax, sigmoid };

struct Experts {
  std::int64_t count = 0;       // E; 0: every layer has a dense MLP
  std::int64_t top_k = 0;       // K
  std::int64_t ffn = 0;         // width of one expert (of one of the two halves if gated)
  std::int64_t shared_ffn = 0;  // width of the shared expert; 0: none
  // The layers that have experts (Megatron-LM's --moe-layer-freq):
  //   "1" all layers, "2" the first layer and every second one after it, "([0]*3+[1]*58)" a list
  std::string layers = "1";
  RouterScore score = RouterScore::softmax;
  bool pre_softmax = false;     // softmax over all experts before top-k, not over the chosen ones
  std::int64_t groups = 0;      // expert groups of group-limited routing; 0: none
  std::int64_t top_groups = 0;  // groups that one token may use; 0: no limit
  bool expert_bias = false;     // a learned bias balances the load without an auxiliary loss
  bool auxiliary_loss = true;   // load-balancing loss
  bool router_bias = false;     // bias of the router's linear layer (gpt-oss)
  std::int64_t gates = 0;       // outputs of the gate of the shared expert (Qwen2-MoE)

  friend bool operator==(const Experts&, const Experts&) = default;
};

// The layers that a pattern such as "1", "3" or "([0]*3+[1]*58)" gives experts.
struct LayerPattern {
  std::vector<std::uint8_t> mixture;  // by layer: 1 if it has experts
  std::string problem;                // error message with a valid spelling; "" if there is none
};
// Reads a pattern for a network of `layers` layers.
LayerPattern read_layer_pattern(std::string_view text, std::int64_t layers);

// Widths of multi-head latent attention (DeepSeek's names: kv_lora_rank, q_lora_rank,
// qk_nope_head_dim, qk_rope_head_dim, v_head_dim).
struct Latent {
  std::int64_t kv_rank = 0;  // low-rank projection of keys and values; 0: no latent attention
  std::int64_t q_rank = 0;   // low-rank projection of queries; 0: queries have none
  std::int64_t content = 0;  // part of a query or key head without position encoding
  std::int64_t rotated = 0;  // part with rotary embedding; all heads share that of the keys
  std::int64_t value = 0;    // value head

  friend bool operator==(const Latent&, const Latent&) = default;
};

}  // namespace sim::model
