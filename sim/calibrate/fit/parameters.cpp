// parameters.cpp — the parameters that a fit may move, with bounds and standard deviation around
// the base. Bounds are physical: fractions of a peak, and ramps within the ranges of
// calibration/README.md.
#include "sim/calibrate/fit/fit.h"

namespace sim::calibrate {

const std::vector<Parameter>& parameters() {
  static const std::vector<Parameter> all = {
      {"gemm", "gemm.peaks[*].fraction", 0.2, 1, 0.15, true, true},
      {"gemm", "gemm.sustained", 0.4, 1, 0.15, true, true, true, true},
      {"gemm", "gemm.tiles[*].efficiency", 0.3, 1, 0.10, true},
      {"gemm", "gemm.wave_quantisation", 0, 1, 0.25, false},
      {"gemm", "gemm.ramp_k", 0, 600, 0.5, true},
      {"gemm", "gemm.forward", 0.7, 1, 0.05, false},
      {"gemm", "gemm.input_gradient", 0.7, 1, 0.05, false, false, true},
      {"gemm", "gemm.weight_gradient", 0.7, 1, 0.05, false, false, true},
      {"gemm", "gemm.exposed_accumulation", 0, 1, 0.25, false},
      {"gemm", "gemm.hbm", 0.3, 1, 0.15, false},
      {"attention", "attention[*].forward.full[*].fraction", 0.05, 1, 0.15, true, false, true},
      {"attention", "attention[*].forward.causal[*].fraction", 0.05, 1, 0.15, true, false, true},
      {"attention", "attention[*].forward.ramp_keys", 0, 1000, 0.5, true},
      {"attention", "attention[*].forward.ramp_keys_causal", 0, 1000, 0.5, true},
      {"attention", "attention[*].forward.tail", 0, 2, 0.5, false},
      {"attention", "attention[*].backward.full[*].fraction", 0.05, 1, 0.15, true, false, true},
      {"attention", "attention[*].backward.causal[*].fraction", 0.05, 1, 0.15, true, false, true},
      {"attention", "attention[*].backward.ramp_keys", 0, 1000, 0.5, true},
      {"attention", "attention[*].backward.ramp_keys_causal", 0, 1000, 0.5, true},
      {"attention", "attention[*].backward.tail", 0, 2, 0.5, false},
      {"norm", "norm.hbm", 0.1, 1, 0.15, false, true, true},
      {"norm", "norm.ramp", 0, 16e6, 1, true},
      {"elementwise", "elementwise.hbm", 0.1, 1, 0.15, false, true, true},
      {"elementwise", "elementwise.ramp", 0, 16e6, 1, true},
      {"softmax", "softmax.hbm", 0.1, 1, 0.15, false, true, true},
      {"softmax", "softmax.ramp", 0, 16e6, 1, true},
      {"copy", "copy.hbm", 0.1, 1, 0.15, false, true, true},
      {"copy", "copy.ramp", 0, 16e6, 1, true},
      {"reduction", "reduction.hbm", 0.1, 1, 0.15, false, true, true},
      {"reduction", "reduction.ramp", 0, 16e6, 1, true},
      {"optimizer", "optimizer.hbm", 0.1, 1, 0.15, false, true, true},
      {"optimizer", "optimizer.ramp", 0, 16e6, 1, true},
      {"embedding", "embedding.hbm", 0.1, 1, 0.15, false, true, true},
      {"embedding", "embedding.ramp", 0, 16e6, 1, true},
      {"communication", "communication.achieved.nvlink", 0.3, 1, 0.1, true, false, true},
      {"communication", "communication.achieved.pcie", 0.3, 1, 0.1, true, false, true},
      {"communication", "communication.achieved.network", 0.3, 1, 0.1, true, false, true},
      {"communication", "communication.achieved.nvls", 0.3, 1, 0.1, true, false, true},
      {"communication", "communication.achieved.nvls_tree", 0.3, 1, 0.1, true, false, true},
      {"communication", "communication.achieved.latency_factor_one_node", 0.2, 5, 0.3, true},
      {"communication", "communication.achieved.latency_factor_many_nodes", 0.2, 5, 0.3, true},
      {"communication", "communication.achieved.latency_one_node", 0, 1e-3, 5e-6, false},
      {"communication", "communication.achieved.latency_many_nodes", 0, 1e-3, 10e-6, false},
      {"communication", "communication.achieved.ring_one_node[*].fraction", 0.02, 1, 0.15, true},
      {"communication", "communication.achieved.nvls_one_node[*].fraction", 0.02, 1, 0.15, true},
  };
  return all;
}

}  // namespace sim::calibrate
