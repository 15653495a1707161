// sample.h — an answer written by hand: two stages with numbers that are easy to add.
#pragma once

#include "sim/answer/answer.h"

namespace sample {

inline constexpr std::int64_t gib = std::int64_t{1} << 30;

// Step of 10 s on tp2 pp2 dp2: stage 0 computes 8 s and waits 2 s, stage 1 computes 10 s.
inline sim::answer::Answer fits() {
  using namespace sim;
  answer::Answer answer;
  model::Architecture& a = answer.plan.architecture;
  a.name = "toy";
  a.layers = 4;
  a.hidden = 1024;
  a.ffn = 4096;
  a.heads = a.kv_heads = 16;
  a.head_dim = 64;
  a.vocab = 32000;
  a.max_positions = 4096;
  answer.plan.mesh.tp = 2;
  answer.plan.mesh.pp = 2;
  answer.plan.mesh.dp = 2;
  answer.plan.batch.global_batch = 16;
  answer.plan.batch.sequence = 4096;
  answer.machine = {"toy-cluster", "A100-SXM4-40GB", 8, {40 * gib}, 312e12};
  answer.run.step_time = {10'000'000'000'000};
  answer.run.warm_up_time = {11'000'000'000'000};
  answer.run.bubble = 0.1;
  for (int stage = 0; stage < 2; ++stage) {
    engine::ClassReport who;
    who.stage = stage;
    who.ranks = 4;
    who.layers = 2;
    who.parameters = 25'000'000;
    const std::int64_t waits = stage == 0 ? 2 : 0;
    who.accounts[static_cast<std::size_t>(engine::Account::compute)] = {(10 - waits) *
                                                                        1'000'000'000'000};
    who.accounts[static_cast<std::size_t>(engine::Account::pp_fill_drain)] = {waits *
                                                                              1'000'000'000'000};
    who.busy = who.accounts[0];
    who.bubble = static_cast<double>(waits) / 10;
    who.capacity = {38 * gib};
    who.outside = {{"CUDA context", {gib}}, {"NCCL tp", {gib}}};
    who.static_bytes = {8 * gib};
    who.peak_allocated = {(20 - stage) * gib};
    who.peak_reserved = {(22 - stage) * gib};
    who.reserved_at_peak = who.peak_reserved;
    who.peak_place = {2, 3, program::PassKind::backward, 0, 1, "layer backward", "scores"};
    who.peak_split[static_cast<std::size_t>(program::Category::weights)] = 8 * gib;
    who.peak_split[static_cast<std::size_t>(program::Category::activations)] = 12 * gib;
    answer.run.classes.push_back(who);
  }
  answer.rates = {{"paper", "full attention", 150.0}, {"megatron", "causal attention", 140.0}};
  answer.mfu = 140.0 / 312.0;
  answer.hfu = 0.5;
  answer.estimate = {18.5, 32, true};
  return answer;
}

// The same, but stage 1 asks for 2 GiB when 1 GiB is left.
inline sim::answer::Answer out_of_memory() {
  using namespace sim;
  answer::Answer answer = fits();
  engine::OutOfMemory event;
  event.stage = 1;
  event.when = {1'500'000'000'000};
  event.place = {1, 0, program::PassKind::forward, 0, 3, "layer forward", "scores"};
  event.requested = {2 * gib};
  event.segment = {2 * gib};
  event.device_free = {gib};
  event.allocated = {36 * gib};
  event.reserved = {37 * gib};
  event.cached = {gib};
  event.largest_free_block = {gib / 2};
  event.split[static_cast<std::size_t>(program::Category::activations)] = 30 * gib;
  event.split[static_cast<std::size_t>(program::Category::weights)] = 6 * gib;
  event.retries = 1;
  answer.run.classes[1].out_of_memory = event;
  answer.run.out_of_memory = {1};
  return answer;
}

}  // namespace sample
