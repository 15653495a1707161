// kernel.h — how long one operation takes on one GPU that does nothing else.
//
// Invariants (tested in tests/cluster/device/kernel.cpp)
//  (1) Positive, whole picoseconds, rounded up; a pure function of its arguments.
//  (2) Never faster than the roofline: time >= flops / peak and time >= bytes / HBM peak.
//  (3) Never faster when any one of m, n, k, batch, heads, head_dim, query, key or bytes grows, the
//      others fixed, and bytes and flops following the shape as in model/operation.h.
//
// Matrix products. A thread block computes one m_t x n_t tile of the result; S SMs run one block
// each; peak P, fraction f of the precision, tile efficiency e, role r, sustained rate c:
//
//     tiles = batch ceil(m / m_t) ceil(n / n_t) s            s slices of k
//     waves = max(1, (1 - q) tiles / S + q ceil(tiles / S))  q = wave_quantisation
//     block = 2 m_t n_t (k / s + ramp_k) / (P f e r c / S)
//     main  = waves block + [s > 1] 8 s m n batch / HBM      slices are written and read as fp32
//
// and the library takes the fastest tile and s. Tile and wave quantisation as in NVIDIA, "Matrix
// Multiplication Background User's Guide", sections "Tile Quantization" and "Wave Quantization";
// the ramp is Hockney's n_1/2 along k.
//
// Where n or k, of a weight gradient n or m, is no multiple of 16 bytes, P f e r c is `misaligned`
// times as much.
//
// A product longer than `boost` meets the power limit: main / (1 - (1 - throttled) share), with
// share = main / boost - 1 between 0 and 1.
//
// Fused attention. A thread block computes block_queries rows (backward: keys) against all others;
// K = others, halved under a causal mask; d = head size; 2 products forward, 5 backward (Dao,
// "FlashAttention-2", arXiv 2307.08691, section 3.1):
//
//     main = max(1, blocks / S + tail) 2 products block_rows (K + ramp_keys) cost(d) / (P c / S)
//
// With so many blocks and no more (flash-attn's deterministic backward pass: each walks over key
// blocks in turn), blocks / S is ceil(given / S) blocks / given: an SM holds one.
//
// cost(d) = d / fraction(d) at the head sizes of the profile, linear in between, constant below the
// smallest (kernels pad the head), proportional to d above the largest.
//
// Everything: time = overhead + max(main, bytes / (HBM fraction)). Kernels bound by memory have
// main = 0 and pay `ramp` bytes more; with few thread blocks, bytes / (blocks x block_stream) if
// that is longer.
#pragma once

#include "sim/base/units.h"
#include "sim/cluster/device/gpu.h"
#include "sim/cluster/device/profile.h"
#include "sim/model/operation.h"

namespace sim::device {

// Whether GPU and profile know the precision of matrix products.
bool supports(const Gpu& gpu, const Profile& profile, model::Precision precision);

// REQUIRES: check(profile) is empty; gpu has SMs and HBM; supports(operation.precision) for
// matrix products and attention.
Duration time(const model::Operation& operation, const Gpu& gpu, const Profile& profile);

}  // namespace sim::device
