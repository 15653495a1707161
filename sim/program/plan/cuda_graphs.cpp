#include "sim/program/plan/cuda_graphs.h"

namespace sim::program {

std::string cuda_graphs_text(const CudaGraphs& graphs, std::string_view separator) {
  std::string text;
  for (const auto& [name, part] : cuda_graph_names) {
    if (!(graphs.*part)) continue;
    if (!text.empty()) text += separator;
    text += name;
  }
  return text;
}

}  // namespace sim::program
