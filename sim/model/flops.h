// flops.h — the number of FLOPs of one training iteration in each published convention.
//
// The conventions differ by up to a factor of two at long sequences. They disagree on whether the
// attention core counts all s x s scores or the causal half. They also disagree on whether
// recomputation counts, and on what N includes. Every TFLOP/s that the program prints therefore
// names its convention. `answer`, `calibrate` and `rehearse list` call this file.
//
// Symbols, as in the papers: B sequences of s tokens; L layers, h hidden, a heads, k KV heads,
// f MLP width, v padded vocabulary. A product of m x k by k x n is 2mnk FLOPs. A backward pass runs
// two products for each product of the forward pass. Norms, softmax and elementwise work never
// count. A sliding window reduces the executed FLOPs (convention `hardware`). The formulas of the
// papers and the log lines of Megatron-LM ignore it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sim/model/architecture.h"

namespace sim::model {

enum class Recompute : std::uint8_t {
  none,
  selective,  // recomputes the attention core
  full,       // recomputes the forward pass of every layer
};

// The tokens of one iteration, and how it recomputes.
struct Batch {
  double sequences = 0;
  double sequence = 0;  // tokens of one sequence
  double vocab = 0;     // padded vocabulary: the width of the head's product
  Recompute recompute = Recompute::none;
};

struct FlopConvention {
  std::string_view name;
  std::string_view summary;  // the counted work, for `rehearse list`
  std::string_view source;   // paper or framework that defines the convention
  double (*flops)(const Architecture& a, const Batch& batch);
};

// Every convention, in the order `rehearse list` prints them.
std::span<const FlopConvention> flop_conventions();
const FlopConvention* find_flop_convention(std::string_view name);  // null: no such convention

// The convention that the free text of column `tflops_kind` names, in tables of measured runs. Null
// if no rule matches. The first match wins; letter case is ignored:
//   "older formula"                              -> 8n-layers
//   "96bslh", "narayanan", "sc21"                -> narayanan
//   "(72"                                        -> korthikanti
//   "6n+12lhs"                                   -> 6n+12lhs
//   "6n"                                         -> 6n
//   "megatron log"                               -> paper (log line of Megatron-LM core 0.8-0.9)
//   "full attention", "appendix a", "readme formula", "mfu*" -> full
//   "as reported", "megatron convention"         -> megatron
//   a name of the catalog                        -> that convention
// Rows that also publish an iteration time check each rule: they agree within 0.2 %.
const FlopConvention* convention_for(std::string_view tflops_kind);

// Model FLOPs with full attention, no recomputation: 6 B s (matrix weights + head) plus
// 12 B s^2 L x query width. For Llama this is 12 B s L h^2 (1 + k/a + s/h + 1.5 f/h + v/2Lh).
double flops_paper(const Architecture& a, double sequences, double sequence, double vocab);

}  // namespace sim::model
