// mixture.h — what a mixture of experts adds to a network, and latent attention (MLA).
//
// A layer of a mixture has a router, E experts of which each token goes to K, and possibly one
// expert that every token goes to. Latent attention takes queries, keys and values from narrow
// projections of the residual stream; its heads are a content part and a rotated part wide.
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
  std::int64_t ffn = 0;         // width of an expert (of one half where it is gated)
  std::int64_t shared_ffn = 0;  // width of the expert that every token goes to; 0: none
  // Which layers have experts: "1" all, "2" the first and every second one after it, or a list,
  // "([0]*3+[1]*58)" (Megatron-LM's --moe-layer-freq).
  std::string layers = "1";
  RouterScore score = RouterScore::softmax;
  bool pre_softmax = false;     // scores are taken before the choice, over all experts
  std::int64_t groups = 0;      // of experts; 0: none
  std::int64_t top_groups = 0;  // groups that a token's choice is limited to; 0: it is not
  bool expert_bias = false;     // a bias for the choice that balances without a loss
  bool auxiliary_loss = true;
  bool router_bias = false;  // of the gating product (gpt-oss)
  std::int64_t gates = 0;    // outputs of a gate over the shared expert (Qwen2-MoE)

  friend bool operator==(const Experts&, const Experts&) = default;
};

// "1", "3", "([0]*3+[1]*58)": 1 for each layer that has experts. `problem` says why the text is no
// pattern of so many layers, with what would do.
struct LayerPattern {
  std::vector<std::uint8_t> mixture;  // by layer
  std::string problem;
};
LayerPattern read_layer_pattern(std::string_view text, std::int64_t layers);

struct Latent {
  std::int64_t kv_rank = 0;  // width of the projection of keys and values; 0: no latent attention
  std::int64_t q_rank = 0;   // ... of queries; 0: they are not projected
  std::int64_t content = 0;  // of a head: the part without positions
  std::int64_t rotated = 0;  // ... the part with, one for all heads in keys
  std::int64_t value = 0;    // of a head's value

  friend bool operator==(const Latent&, const Latent&) = default;
};

}  // namespace sim::model
