// gpu.h — the data sheet of one GPU. The numbers come from topologies/*.textproto.
#pragma once

#include <string>

#include "sim/base/units.h"
#include "sim/model/operation.h"

namespace sim::device {

struct Gpu {
  std::string name;                // "A100-SXM4-40GB"
  std::string profile;             // calibration/<profile>.textproto
  Bytes memory{};                  // the total capacity that PyTorch reports
  double memory_marketing_gb = 0;  // the number in the product's name: 40, 80, 94
  Bandwidth hbm{};                 // peak
  int sms = 0;
  double bf16_flops = 0;  // dense peak, FLOP/s
  double tf32_flops = 0;
  double fp32_flops = 0;
  double fp8_flops = 0;         // 0: not supported
  double fp4_flops = 0;         // 0: not supported
  int compute_capability = 80;  // 80, 90, 100
  double power_w = 0;           // limit that the site sets for a board, W; 0: none
  double rated_power_w = 0;     // of a board by its data sheet, W; 0: not known

  bool operator==(const Gpu&) const = default;
  // The watts that a board is billed for; 0: not known.
  double board_power_w() const { return power_w > 0 ? power_w : rated_power_w; }
  double peak(model::Precision p) const {
    switch (p) {
      case model::Precision::fp16:
      case model::Precision::bf16:
        return bf16_flops;
      case model::Precision::tf32:
        return tf32_flops;
      case model::Precision::fp32:
        return fp32_flops;
      case model::Precision::fp8:
        return fp8_flops;
      case model::Precision::fp4:
        return fp4_flops;
    }
    return 0;
  }
};

}  // namespace sim::device
