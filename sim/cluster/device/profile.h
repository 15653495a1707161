// profile.h — what calibration knows of one GPU model and of the host that feeds it: the
// efficiencies and fixed costs that turn operations into times. Values: calibration/*.textproto.
//
// Invariants (check() names every one that is broken)
//  (1) An efficiency is a fraction of a data-sheet peak (cluster/device/gpu.h), 0 < fraction <= 1:
//  no kernel
//      beats the roofline of its GPU.
//  (2) A duration, a ramp and a byte count is never negative.
//  (3) Every field has a default only where absence has a meaning (nothing lost, nothing held).
//
// Formulas that use the fields: kernel.h (kernels), overlap.h (kernels beside collectives).
// Communication (NCCL's tables, links, NICs) is not here: cluster/network/profile.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/base/units.h"
#include "sim/model/operation.h"

namespace sim::device {

// How well one group of measurements is reproduced by the fit, on the samples of the fit.
struct Residual {
  std::string group;   // "gemm", "attention forward", "norm"
  std::string source;  // table and rows, with their origin
  std::int64_t samples = 0;
  double mean_absolute_percent = 0;  // of the time, |predicted - measured| / measured
  double bias_percent = 0;           // mean of (predicted - measured) / measured
};

// Where a profile comes from.
struct Provenance {
  std::string device;   // what was measured: "A100-SXM4-40GB"
  std::string source;   // tables and papers
  std::string date;     // of the fit, "2026-08-15"
  std::string command;  // that repeats it
  std::vector<Residual> residuals;
  std::vector<std::string> fitted_rows;  // row_id in tables of runs
};

// One thread block's share of a matrix product: m x n results. `efficiency` is what its main loop
// reaches relative to the best tile of the GPU (small tiles reload operands more often).
struct Tile {
  std::int64_t m = 0;
  std::int64_t n = 0;
  double efficiency = 1;  // (0, 1]
};

// Fraction of the peak of its precision that the best tile reaches on a large product, (0, 1].
// Physical: 0.80-0.90 on A100, 0.70-0.85 on Hopper at 16 bits; fp8 about 5-10 points lower.
struct GemmPeak {
  model::Precision precision = model::Precision::bf16;
  double fraction = 0;
};

// Matrix products: tiles over SMs, see kernel.h.
struct GemmProfile {
  std::vector<GemmPeak> peaks;  // one per precision that the GPU multiplies in
  // Rate that a long run sustains under the power limit, relative to the short benchmarks that
  // `peaks` come from. (0, 1]; physical: 0.9-1 on A100, 0.7-1 on Hopper.
  double sustained = 1;
  std::vector<Tile> tiles;                  // the library's choice: the fastest one is taken
  std::vector<std::int64_t> split_k = {1};  // slices of k tried; > 1 pays for summing the slices
  // Share of the last, partly filled wave of tiles that is paid for in full: 1 = whole waves,
  // 0 = tiles flow (persistent kernels, stream-K, higher clocks while SMs idle). [0, 1].
  double wave_quantisation = 1;
  // Steps of k that the start (first loads) and the end (writing results) of a tile cost. 50-600.
  double ramp_k = 0;
  // Relative rate by what the product is for; layouts differ: forward TN, input gradient NN,
  // weight gradient NT. (0, 1], the best is 1.
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  // Share of the read + write of an fp32 result that is accumulated into (Megatron's main_grad)
  // which the main loop does not hide. [0, 1].
  double exposed_accumulation = 1;
  double hbm = 1;  // fraction of HBM peak where memory binds, (0, 1]
  // Products up to `boost` long run at the boost clock; those of twice that and more at `throttled`
  // of the rate, in between in proportion: the power limit needs a while to act. 0: not seen.
  Duration boost{};
  double throttled = 1;  // (0, 1]; physical: 0.7-1
  // Relative rate of products whose rows do not begin at multiples of 16 bytes (n or k no multiple
  // of that): tensor cores are fed by narrower loads. (0, 1]; physical: 0.1-0.6.
  double misaligned = 1;
};

// Fused attention's best fraction of peak at one head size.
struct HeadEfficiency {
  std::int64_t head_dim = 0;
  double fraction = 0;  // (0, 1]
};

// One direction of a fused attention kernel.
struct AttentionPass {
  std::vector<HeadEfficiency> full;    // every key; ascending head_dim
  std::vector<HeadEfficiency> causal;  // keys up to the query; ascending head_dim
  // Keys per query that the start and end of a query block cost (first loads, rescaling, writing,
  // and under a causal mask the half-empty blocks on the diagonal). 50-600.
  double ramp_keys = 0;
  double ramp_keys_causal = 0;
  // Rounds of average blocks that SMs idle at the end, while the last and (under a causal mask) the
  // longest blocks finish. 0-2.
  double tail = 0;
};

// A fused attention implementation; the first of a profile is what the GPU's runs use.
struct AttentionProfile {
  std::string implementation;  // "flash-attention-2", "flash-attention-3", "cudnn"
  // As in GemmProfile; attention draws less power than a matrix product: 0.85-1 on Hopper.
  double sustained = 1;
  AttentionPass forward;
  AttentionPass backward;            // the whole call: dot(dO, O), main kernel, conversion of dQ
  std::int64_t block_queries = 128;  // queries of one thread block
  double hbm = 1;                    // (0, 1]
};

// A kernel that is bound by memory: time = overhead + (bytes + ramp) / (HBM peak x fraction).
struct MemoryBoundProfile {
  double hbm = 1;  // (0, 1]; physical: 0.6-0.93
  Bytes ramp{};    // bytes that filling and draining the memory pipeline costs
};

// The worker processes that make a rank's data (PyTorch's DataLoader). See engine/loader.h.
struct LoaderProfile {
  // One worker's time for the attention mask of a sequence that resets it at every document, per
  // 2^20 elements of the mask (sequence x sequence). 0: unknown, data is never late.
  Duration mask{};
  // How much longer for every other rank of the node that loads data: they share memory. 0-1.
  double neighbour = 0;
  // Sequences of many short documents: their share of all, and how much longer their masks take in
  // the mean, in units of the others'. They belong to the data that the machine was measured with.
  double many_documents = 0, many_documents_extra = 0;
};

// Time of the CPU thread (DESIGN.md section 4: the host issues, the GPU follows).
struct HostProfile {
  Duration kernel{};               // to issue one kernel: framework dispatch + cudaLaunchKernel
  Duration collective{};           // to issue one NCCL collective through torch.distributed
  Duration point_to_point{};       // to issue one send or receive
  Duration event{};                // to record an event or make a stream wait for one
  Duration allocation{};           // caching allocator, block found
  Duration release{};              // caching allocator, free
  Duration cuda_malloc{};          // driver, per segment
  Duration cuda_malloc_per_gib{};  // driver, mapping of the pages
  Duration cuda_free{};            // driver, per segment, after its device synchronisation
  Duration synchronisation{};      // from the GPU's last instruction to the CPU going on
  Duration layer_forward{};        // Python of one layer's forward that launches nothing
  Duration layer_backward{};       // autograd, hooks and Python of one layer's backward
  // What a layer of experts adds: router and dispatcher, small operators that PyTorch issues one by
  // one; and for each local expert in each call of a grouped product its tensors' Python, hooks and
  // gradient handles. 0: not seen.
  Duration experts_forward{};
  Duration experts_backward{};
  Duration expert{};
  Duration microbatch{};  // data iterator, schedule, loss bookkeeping
  Duration step{};        // timers, logging, learning rate; once per step
  // Entries of a launch queue of the GPU (CUDA_DEVICE_MAX_CONNECTIONS=1: one for all streams, else
  // each has its own): the CPU waits to issue more until the GPU has started as many. A kernel
  // takes one, a collective or exchange with its event records and waits
  // `queue_entries_per_collective`. 0: no limit.
  std::int64_t launch_queue = 0;
  std::int64_t queue_entries_per_collective = 1;
  LoaderProfile loader;
};

// Kernels beside a collective. See overlap.h.
struct OverlapProfile {
  // Rate that is left to a compute-bound kernel beside a collective, beyond the SMs that NCCL
  // occupies (cache, HBM, power). (0, 1]; physical 0.85-1.
  double compute = 1;
  // Rate that is left to a memory-bound kernel beside a collective. (0, 1]; physical 0.6-1.
  double memory = 1;
  // Rate that is left to a collective beside compute, inside a node and across nodes. (0, 1].
  double collective_node = 1;
  double collective_network = 1;
  // How far apart the ranks of a group come to a collective or a message in a training step: their
  // kernels and launches vary, those of a replay are alike. Not in what nccl-tests measure, whose
  // ranks wait for each other all the time.
  Duration arrival{};
};

// Device memory that PyTorch's caching allocator does not own, and the library workspaces that go
// through it. NCCL's buffers: cluster/network/profile.h.
struct ReservedMemory {
  Bytes context{};           // CUDA context with loaded kernels
  Bytes libraries{};         // handles of cuBLAS, cuDNN, compiled modules, outside PyTorch
  Bytes cublas_workspace{};  // inside the allocator: per handle and stream, at first matmul
  Bytes engine_workspace{};  // inside the allocator: Transformer Engine, once per process
  // What none of these explains, fitted to outcomes of measured runs, and where it may lie.
  // least <= unaccounted <= most.
  Bytes unaccounted{}, unaccounted_least{}, unaccounted_most{};
};

struct Profile {
  std::string name;  // calibration/<name>.textproto
  Provenance provenance;
  Duration kernel_overhead{};  // start and drain of any kernel on the GPU; physical 1-5 us
  // What one thread block streams from HBM, where a kernel has too few of them (columns of a norm's
  // weight gradient): latency binds. 0: not seen. Physical: 2-20 GB/s.
  Bandwidth block_stream{};
  GemmProfile gemm;
  std::vector<AttentionProfile> attention;
  MemoryBoundProfile norm;
  MemoryBoundProfile elementwise;
  MemoryBoundProfile softmax;
  MemoryBoundProfile copy;
  MemoryBoundProfile reduction;
  MemoryBoundProfile optimizer;
  MemoryBoundProfile embedding;
  HostProfile host;
  OverlapProfile overlap;
  ReservedMemory memory;
};

// Everything that is not physical or missing; empty when the profile may be used. `where` is the
// path of the field ("gemm.tiles[2].efficiency"): the loader adds the place in the file.
Diagnostics check(const Profile& profile);

}  // namespace sim::device
