// vocabulary.h — embedding and output layer cut over all stages: what each stage does for every
// microbatch besides its layers (expand_order.h says when).
//
//     look_up          rows of its share of the words, summed for the first stage
//     share            the last part's output, in fp32 with the loss's gradient, to all stages
//     output           logits of its share, their sums; with one barrier also the gradient of the
//                      input, before the sums of all stages are known
//     reduce           maximum, target's logit, sum of exponentials; with one barrier the gradient
//     output gradient  of the weight; with two barriers of the input too, summed over the stages
//     share_rows,      the gradient of the model's input comes from the first stage and is added
//     look_up_back     to the rows of the share
//
// [sail-sg/VocabularyParallelism core/tensor_parallel/vocab_output.py, vocab_input.py;
// core/pipeline_parallel/vocab_parallel_schedule.py, interlaced_schedule.py]. INVENTORY.md section
// 22.
#pragma once

#include "sim/program/ir/rank.h"
#include "sim/program/parallel/pipeline/expand_order.h"

namespace sim::program {

// The first part's input from the summed rows (positions, dropout), and back to their gradient,
// which stays in the frame's `gradient`.
std::uint32_t input_forward(Rank& rank, const Variant& variant);
std::uint32_t input_backward(Rank& rank, const Variant& variant);

// Behind the last layer: the final norm, whose output is to be shared; and back from the summed
// gradient, with the loss.
std::uint32_t shared_head_forward(Rank& rank, const Variant& variant);
std::uint32_t shared_head_backward(Rank& rank, const Variant& variant);

std::uint32_t look_up(Rank& rank, const Variant& variant);
std::uint32_t share_rows(Rank& rank);
std::uint32_t look_up_back(Rank& rank, const Variant& variant);
std::uint32_t share_output(Rank& rank);
std::uint32_t output_pass(Rank& rank, const Variant& variant);
std::uint32_t reduce_output(Rank& rank);
// `alone`: no output pass before it has waited for the sums.
std::uint32_t output_gradient(Rank& rank, const Variant& variant, bool alone);

}  // namespace sim::program
