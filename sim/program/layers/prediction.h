// prediction.h — multi-token prediction: modules behind the last layer that each predict one token
// further, from the stream and the embedding of the tokens rolled by one. INVENTORY.md section 21.
//
//     norm of the stream ─┐
//     norm of embedding ──┴─ cat ── product ── layer ── norm ─┬─ head and loss again
//                                                             └─ the stream of the next module
//
// Each module's loss follows it, as in core 0.12 and 0.13; from 0.14 on all modules come first.
//
// [NVIDIA/Megatron-LM core 0.12-0.14 transformer/multi_token_prediction.py; arXiv:2412.19437, 2.2]
#pragma once

#include <functional>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// From the output of the final norm, which they read, through as many modules as the model has and
// behind each `head`: from a normed stream to losses, recording its own way back. `first`: its way
// back is the last one to be walked.
void predict(Writer& w, Value normed, const std::function<void(Writer&, Value, bool first)>& head);

// layer.cpp: a layer on any graph, from its input, which stays the caller's, to its output.
Value layer(Writer& w, Value input);

}  // namespace sim::program
