// prediction.h — multi-token prediction: modules after the last layer, each for one more token.
//
// A module reads the residual stream and the embedding of the tokens rolled by one position. The
// function head_forward (head.cpp) calls predict after the final norm.
//
//     norm of the stream ─┐
//     norm of embedding ──┴─ cat ── product ── layer ── norm ─┬─ head and loss again
//                                                             └─ the stream of the next module
//
// The loss of a module follows the module, as in core 0.12 and 0.13. From 0.14 on Megatron-LM runs
// all modules first; this order is not modelled.
//
// [NVIDIA/Megatron-LM core 0.12-0.14 transformer/multi_token_prediction.py; arXiv:2412.19437, 2.2;
// INVENTORY.md section 21]
#pragma once

#include <functional>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// Writes all prediction modules. `normed`: the output of the final norm, which the first one reads.
// `head` goes from a normed stream to the losses and records its own nodes. It runs after each
// module. `first` marks the head whose backward pass comes last.
void predict(Writer& w, Value normed, const std::function<void(Writer&, Value, bool first)>& head);

// layer.cpp: one transformer layer on any graph, from input to output. The caller still holds the
// input afterwards.
Value layer(Writer& w, Value input);

}  // namespace sim::program
