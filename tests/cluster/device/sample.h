// sample.h — a GPU and a profile with round numbers, no real machine: 100 SMs, 100 TFLOP/s at 16
// bits (1 TFLOP/s per SM), 1 TB/s.
#pragma once

#include "sim/cluster/device/gpu.h"
#include "sim/cluster/device/profile.h"

namespace sim::device::sample {

using namespace sim::literals;

inline Gpu gpu() {
  Gpu g;
  g.name = "sample";
  g.hbm = 1000_GBps;
  g.sms = 100;
  g.bf16_flops = 100e12;
  g.tf32_flops = 50e12;
  g.fp32_flops = 10e12;
  g.fp8_flops = 200e12;
  return g;
}

inline Profile profile() {
  Profile p;
  p.name = "sample";
  p.kernel_overhead = 2_us;
  p.gemm.peaks = {{model::Precision::bf16, 0.8},
                  {model::Precision::fp16, 0.8},
                  {model::Precision::tf32, 0.8},
                  {model::Precision::fp8, 0.7}};
  p.gemm.tiles = {{128, 256, 1.0}, {128, 128, 0.9}, {64, 64, 0.6}};
  p.gemm.split_k = {1, 2, 4};
  p.gemm.wave_quantisation = 0.5;
  p.gemm.ramp_k = 100;
  p.gemm.input_gradient = 0.95;
  p.gemm.weight_gradient = 0.9;
  p.gemm.exposed_accumulation = 0.5;
  p.gemm.hbm = 0.8;
  AttentionProfile a;
  a.implementation = "sample";
  a.forward = {{{64, 0.5}, {128, 0.6}}, {{64, 0.4}, {128, 0.5}}, 100, 200, 0};
  a.backward = {{{64, 0.4}, {128, 0.5}}, {{64, 0.3}, {128, 0.4}}, 150, 250, 0.5};
  a.hbm = 0.8;
  p.attention = {a};
  p.norm = {0.7, 2_MiB};
  p.elementwise = {0.8, 1_MiB};
  p.optimizer = {0.9, 4_MiB};
  p.overlap = {0.95, 0.8, 0.9, 0.97};
  return p;
}

}  // namespace sim::device::sample
