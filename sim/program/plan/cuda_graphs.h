// cuda_graphs.h — the parts of a step that CUDA graphs launch, and their names in Megatron-LM
// (--cuda-graph-modules; --cuda-graph-scope before core 0.18).
//
// A layer writes the parts between open_graph and close_graph (autograd_graph.h). The CPU launches
// each part with one call, so its kernels and tensors take no CPU time.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace sim::program {

// `attention`, `mlp`, `moe`: one half of a layer. `router`, `preprocess`: the steps of a layer of
// experts before it sends tokens. `passes`: whole passes, but no messages between stages.
struct CudaGraphs {
  bool attention = false, mlp = false, moe = false, router = false, preprocess = false;
  bool passes = false;

  bool any() const { return attention || mlp || moe || router || preprocess || passes; }
};

inline constexpr std::array<std::pair<std::string_view, bool CudaGraphs::*>, 6> cuda_graph_names = {
    {{"attn", &CudaGraphs::attention},
     {"mlp", &CudaGraphs::mlp},
     {"moe", &CudaGraphs::moe},
     {"moe_router", &CudaGraphs::router},
     {"moe_preprocess", &CudaGraphs::preprocess},
     {"full_iteration", &CudaGraphs::passes}}};

// Selects the part with this name. False: the name is unknown.
constexpr bool add_cuda_graph(CudaGraphs& to, std::string_view name) {
  for (const auto& [known, part] : cuda_graph_names)
    if (known == name) return to.*part = true;
  return false;
}

// The names of the selected parts, with `separator` between.
std::string cuda_graphs_text(const CudaGraphs& graphs, std::string_view separator);

}  // namespace sim::program
