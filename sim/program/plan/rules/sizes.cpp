#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "sim/model/operation.h"
#include "sim/program/plan/rules/rules.h"

namespace sim::program::rules {

namespace {

constexpr std::int64_t max_ranks = 1 << 20;
constexpr std::int64_t max_batch = 1 << 24;
constexpr std::int64_t max_sequence = 1 << 26;
constexpr double max_tensor_bytes = 1099511627776.0 * 16;  // 16 TiB: far beyond any GPU

// The name of `what` in a message.
void must_be_within(const char* field, const char* what, std::int64_t value, std::int64_t most,
                    Diagnostics& problems) {
  if (value < 1 || value > most)
    problems.push_back({field, fmt::format("{} is {}; it must be 1 to {}", what, value, most)});
}

}  // namespace

// The basic ranges. Nothing is divided or multiplied before they hold.
void ranges(const Plan& plan, Diagnostics& problems) {
  const model::Architecture& a = plan.architecture;
  must_be_within("tp", "tp", plan.mesh.tp, max_ranks, problems);
  must_be_within("cp", "cp", plan.mesh.cp, max_context_parallel, problems);
  must_be_within("pp", "pp", plan.mesh.pp, max_ranks, problems);
  must_be_within("dp", "dp", plan.mesh.dp, max_ranks, problems);
  must_be_within("fsdp", "fsdp.replicas", plan.sharding.fsdp.replicas, max_ranks, problems);
  must_be_within("virtual_stages", "virtual_stages", plan.pipeline.virtual_stages, 1 << 16,
                 problems);
  must_be_within("micro_batch", "micro_batch", plan.batch.micro_batch, max_batch, problems);
  must_be_within("global_batch", "global_batch", plan.batch.global_batch, max_batch, problems);
  must_be_within("sequence", "sequence", plan.batch.sequence, max_sequence, problems);
  must_be_within("model", "the model's number of layers", a.layers, 1 << 16, problems);
  must_be_within("model", "the model's hidden size", a.hidden, 1 << 20, problems);
  must_be_within("model", "the model's MLP width", a.ffn, 1 << 24, problems);
  must_be_within("model", "the model's number of heads", a.heads, 1 << 16, problems);
  must_be_within("model", "the model's number of key-value heads", a.kv_heads, 1 << 16, problems);
  must_be_within("model", "the model's head size", a.head_dim, 1 << 16, problems);
  must_be_within("model", "the model's vocabulary", a.vocab, 1 << 28, problems);
  if (!problems.empty()) return;
  const __int128 world =
      static_cast<__int128>(plan.mesh.tp) * plan.mesh.cp * plan.mesh.pp * plan.mesh.dp;
  if (world > max_ranks)
    problems.push_back(
        {"tp", fmt::format("tp x cp x pp x dp is more than {} ranks, the most that is "
                           "simulated",
                           max_ranks)});
}

// Checks the largest single tensors and buffers, so that no later computation overflows.
void sizes(const Plan& plan, Diagnostics& problems) {
  const model::Architecture& a = plan.architecture;
  const double tokens = static_cast<double>(plan.batch.micro_batch) *
                        static_cast<double>(plan.batch.sequence) /
                        static_cast<double>(plan.mesh.cp);
  const double width = static_cast<double>(std::max(
      {model::padded_vocab(a.vocab, plan.mesh.tp), 4 * a.ffn, 4 * a.hidden, 3 * a.query_width()}));
  const double keys = static_cast<double>(plan.batch.sequence);
  double largest = tokens * width * 4;
  if (plan.stack.attention == AttentionBackend::unfused)
    largest = std::max(largest, tokens * keys * static_cast<double>(a.heads) * 4);
  if (plan.stack.attention_mask) largest = std::max(largest, tokens * keys);
  if (largest > max_tensor_bytes)
    problems.push_back(
        {"micro_batch", fmt::format("a single tensor of a microbatch would have {:.3g} TiB; make "
                                    "micro_batch or sequence smaller",
                                    largest / 1099511627776.0)});
  const double parameters = static_cast<double>(model::parameters(a)) /
                            (static_cast<double>(plan.mesh.tp) * plan.mesh.pp);
  if (4 * parameters > 32 * max_tensor_bytes)
    problems.push_back({"model", fmt::format("a rank would have {:.3g} parameters; a model with "
                                             "fewer, or more stages, can be simulated",
                                             parameters)});
}

}  // namespace sim::program::rules
