#include "sim/program/ir/program.h"

#include <algorithm>
#include <array>

namespace sim::program {

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
                                                                    "cp exchange",
                                                                    "cp ring",
                                                                    "shard near",
                                                                    "shard far",
                                                                    "vocabulary",
                                                                    "side",
                                                                    "tensor columns",
                                                                    "tensor rows"};
  return names[static_cast<std::size_t>(stream)];
}

// First the expected number of places that hold a chosen group: a group covers several places, or
// one place holds several groups. Then K choices fall evenly on those places.
double Choices::places(int all) const {
  double left = all;
  if (groups > 0 && top_groups > 0 && top_groups < groups) {
    if (all >= groups) {
      left = static_cast<double>(all) * top_groups / groups;
    } else {
      const int each = groups / all;
      double missed = 1;  // no chosen group is on a place
      for (int i = 0; i < top_groups; ++i)
        missed *= static_cast<double>(std::max(groups - each - i, 0)) / (groups - i);
      left = all * (1 - missed);
    }
  }
  double missed = 1;  // probability that no choice falls on a place
  for (int i = 0; i < of_token; ++i) missed *= 1 - 1 / left;
  return left * (1 - missed);
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

}  // namespace sim::program
