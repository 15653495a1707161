// blocks.h — the blocks that the passes of a rank share. Each kind and variant is written once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>

#include "sim/program/ir/rank.h"

namespace sim::program {

// Block numbers by kind, variant and offload. The first request for a block writes it.
class Blocks {
 public:
  enum Kind : std::uint8_t { forward, recompute, recompute_in_part, backward, weight, free_input };
  std::uint32_t get(Kind kind, int variant, const std::function<std::uint32_t()>& make,
                    const LayerOffload& offload = {}) {
    const auto [it, added] = made_.try_emplace({kind, variant, offload}, 0);
    if (added) it->second = make();
    return it->second;
  }

 private:
  std::map<std::tuple<Kind, int, LayerOffload>, std::uint32_t> made_;
};

}  // namespace sim::program
