// kernel.h — the duration of one operation on an otherwise idle GPU.
//
// Invariants (tested in tests/cluster/device/kernel.cpp)
// (1) Positive, whole picoseconds, rounded up; a pure function of its arguments.
// (2) Never faster than the roofline: time >= flops / peak and time >= bytes / HBM peak.
// (3) Never faster when any one of m, n, k, batch, heads, head_dim, query, key or bytes grows, the
//     others fixed, and bytes and flops following the shape as in model/operation.h.
//
// Matrix products. A thread block computes one m_t x n_t tile of the result, and each of S SMs runs
// one block at a time. P is the peak, f the fraction of the precision, e the tile efficiency, r the
// rate of the role, c the sustained rate:
//
//     tiles = batch ceil(m / m_t) ceil(n / n_t) s            s slices of k
//     waves = max(1, (1 - q) tiles / S + q ceil(tiles / S))  q = wave_quantisation
//     block = 2 m_t n_t (k / s + ramp_k) / (P f e r c / S)
//     main  = waves block + [s > 1] 8 s m n batch / HBM      slices are written and read as fp32
//
// Of the S SMs in `waves`, those that a collective holds (Operation::sms_taken) are left out.
//
// The library takes the fastest tile and s. Tile and wave quantisation as in NVIDIA, "Matrix
// Multiplication Background User's Guide", sections "Tile Quantization" and "Wave Quantization";
// the ramp is Hockney's n_1/2 along k.
//
// P f e r c is multiplied by `misaligned` if the rows of an operand are not a multiple of 16 bytes
// (n or k; for a weight gradient n or m).
//
// The power limit divides main by c' = throttled x min(1, W / W'), W the site's limit and W' the
// smaller of the profile's and the board's rated power. A kernel that is timed alone hits the limit
// only after `boost`: main / (1 - (1 - c') share), with share = main / boost - 1 between 0 and 1.
// Measured: on B200 the clock falls after 5 ms of work without pauses (flashinfer pull 2899), far
// less than a layer; capped boards reach about as many FLOPs per watt (GB300: 1.23 TFLOP/s a watt
// at 500 W, 1.15-1.55 at 1,400 W; facebookexperimental/triton pull 2023).
//
// Fused attention. A thread block computes block_queries rows (backward: keys) against all others.
// K is the number of others, halved under a causal mask, and d is the head size. There are 2
// products forward and 5 backward (Dao, "FlashAttention-2", arXiv 2307.08691, section 3.1):
//
//     main = max(1, blocks / S + tail) 2 products block_rows (K + ramp_keys) cost(d) / (P c / S)
//
// If an operation has a given number of blocks (flash-attn's deterministic backward pass), each
// block walks over several key blocks in turn. Then blocks / S becomes ceil(given / S) blocks /
// given, because an SM holds one block.
//
// cost(d) = d / fraction(d) at the head sizes of the profile, linear in between. It is constant
// below the smallest size (kernels pad the head) and proportional to d above the largest.
//
// All operations: time = overhead + max(main, bytes / (HBM fraction)). Memory-bound kernels have
// main = 0 and `ramp` extra bytes. With few thread blocks, bytes / (blocks x block_stream) applies
// if it is longer.
#pragma once

#include "sim/base/units.h"
#include "sim/cluster/device/gpu.h"
#include "sim/cluster/device/profile.h"
#include "sim/model/operation.h"

namespace sim::device {

// Whether the GPU and the profile have this precision for matrix products.
bool supports(const Gpu& gpu, const Profile& profile, model::Precision precision);

// The power of a board from which on a limit slows nothing, W: the power that the products were
// measured at, or the rated power if that is less or alone known. 0: not known.
double measured_power_w(const Gpu& gpu, const GemmProfile& gemm);

// How many times as long matrix products take under the site's limit of power; 1: as measured.
double power_slowdown(const Gpu& gpu, const GemmProfile& gemm);

// REQUIRES: check(profile) is empty; gpu has SMs and HBM; supports(operation.precision) for
// matrix products and attention.
Duration time(const model::Operation& operation, const Gpu& gpu, const Profile& profile);

}  // namespace sim::device
