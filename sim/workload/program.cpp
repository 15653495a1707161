#include "sim/workload/program.h"

#include <array>

namespace sim::workload {

std::string_view name(Stream stream) {
  static constexpr std::array<std::string_view, stream_count> names{"compute",
                                                                    "cp compute",
                                                                    "unshard",
                                                                    "reduce",
                                                                    "tp",
                                                                    "cp",
                                                                    "dp",
                                                                    "dp-cp",
                                                                    "pp",
                                                                    "pp send forward",
                                                                    "pp receive forward",
                                                                    "pp send backward",
                                                                    "pp receive backward",
                                                                    "pp send forward up",
                                                                    "pp receive forward up",
                                                                    "pp send backward up",
                                                                    "pp receive backward up",
                                                                    "embedding",
                                                                    "shard",
                                                                    "replicate",
                                                                    "world",
                                                                    "pcie up",
                                                                    "pcie down",
                                                                    "cpu",

                                                                    "ep",
                                                                    "etp",
                                                                    "etp-ep",
                                                                    "edp",
                                                                    "vocabulary"};
  return names[static_cast<std::size_t>(stream)];
}

std::string_view name(Category category) {
  static constexpr std::array<std::string_view, category_count> names{
      "weights",     "gradients",     "master weights", "optimizer", "activations",
      "temporaries", "communication", "logits",         "other"};
  return names[static_cast<std::size_t>(category)];
}

std::string_view name(PassKind kind) {
  static constexpr std::array<std::string_view, 8> names{
      "set-up", "forward", "backward", "weight", "exchange", "step", "output", "output gradient"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace sim::workload
