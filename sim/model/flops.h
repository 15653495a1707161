// flops.h — how many FLOPs one training iteration counts as, in every convention people compare by.
//
// The conventions differ by up to a factor of two at long sequences: whether the attention core
// counts all s x s scores or the causal half, whether recomputation counts, and what N is. A
// TFLOP/s without its convention means nothing, so each number carries the name of one of these.
//
// Symbols, as in the papers: B sequences of s tokens; L layers, h hidden, a heads, k KV heads,
// f MLP width, v padded vocabulary. A product of m x k by k x n is 2mnk FLOPs; a backward pass is
// two products for each of the forward's. Norms, softmax and elementwise work are never counted. A
// sliding window makes what is executed less (hardware); the papers' formulas and what Megatron-LM
// logs know none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sim/model/architecture.h"

namespace sim::model {

enum class Recompute : std::uint8_t {
  none,
  selective,  // the attention core
  full,       // every layer's forward
};

// What one iteration trains on.
struct Batch {
  double sequences = 0;
  double sequence = 0;  // tokens of one sequence
  double vocab = 0;     // padded, as the head computes it
  Recompute recompute = Recompute::none;
};

struct FlopConvention {
  std::string_view name;
  std::string_view summary;  // what it counts
  std::string_view source;   // who defines it
  double (*flops)(const Architecture& a, const Batch& batch);
};

// Every convention, in the order `rehearse list` prints them.
std::span<const FlopConvention> flop_conventions();
const FlopConvention* find_flop_convention(std::string_view name);  // null when there is none
std::string unknown_flop_convention(std::string_view name);         // the message for that case

// The convention behind the free text of the column `tflops_kind` in tables of measured runs; null
// when the text does not say. Rules, first match wins, letter case ignored:
//   "older formula"                              -> 8n-layers
//   "96bslh", "narayanan", "sc21"                -> narayanan
//   "(72"                                        -> korthikanti
//   "6n+12lhs"                                   -> 6n+12lhs
//   "6n"                                         -> 6n
//   "megatron log"                               -> paper (the line core 0.8-0.9 logs)
//   "full attention", "appendix a", "readme formula", "mfu*" -> full
//   "as reported", "megatron convention"         -> megatron
//   a name of the catalog                        -> that convention
// Each rule was checked on the rows that also publish an iteration time: they agree within 0.2 %.
const FlopConvention* convention_for(std::string_view tflops_kind);

// Model FLOPs with full attention, no recomputation: 6 B s (matrix weights + head) plus
// 12 B s^2 L x query width. For Llama this is 12 B s L h^2 (1 + k/a + s/h + 1.5 f/h + v/2Lh).
double flops_paper(const Architecture& a, double sequences, double sequence, double vocab);

}  // namespace sim::model
