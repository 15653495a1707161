// vocabulary.h — vocabulary parallelism: embedding and output layer split over all pipeline stages.
//
// Each stage holds a share of the vocabulary and does the steps below for every microbatch, besides
// its own layers. The builder (sim/program/build) calls these functions; expand_order.h sets when
// each step runs.
//
//     look_up          embedding rows of the stage's share, summed for the first stage
//     share_output     the last part's output to all stages, in fp32 with the loss's gradient
//     output_pass      logits of the share and their sums; with one barrier also the gradient of
//                      the input, before the sums of all stages are known
//     reduce_output    maximum, target's logit, sum of exponentials; with one barrier the gradient
//     output_gradient  gradient of the weight; with two barriers also of the input, summed over
//                      the stages
//     share_rows       gradient of the model's input, from the first stage to all stages
//     look_up_back     that gradient, added to the rows of the share
//
// [sail-sg/VocabularyParallelism core/tensor_parallel/vocab_output.py, vocab_input.py;
// core/pipeline_parallel/vocab_parallel_schedule.py, interlaced_schedule.py; INVENTORY.md section
// 22]
#pragma once

#include "sim/program/ir/rank.h"

namespace sim::program {

// First stage: the input of the first layer from the summed embedding rows (positions, dropout).
// Backward: the gradient of the rows stays in the frame's slot `gradient`.
std::uint32_t input_forward(Rank& rank, const Variant& variant);
std::uint32_t input_backward(Rank& rank, const Variant& variant);

// Last stage, after the last layer: the final norm; share_output sends its output. Backward: starts
// from the summed gradient, with the loss.
std::uint32_t shared_head_forward(Rank& rank, const Variant& variant);
std::uint32_t shared_head_backward(Rank& rank, const Variant& variant);

// The steps of the table above. Each writes one block and returns its index.
std::uint32_t look_up(Rank& rank, const Variant& variant);
std::uint32_t share_rows(Rank& rank);
std::uint32_t look_up_back(Rank& rank, const Variant& variant);
std::uint32_t share_output(Rank& rank);
std::uint32_t output_pass(Rank& rank, const Variant& variant);
std::uint32_t reduce_output(Rank& rank);
// `alone`: no earlier output pass has waited for the sums, so this one waits.
std::uint32_t output_gradient(Rank& rank, const Variant& variant, bool alone);

}  // namespace sim::program
