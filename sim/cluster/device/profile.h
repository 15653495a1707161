// profile.h — the calibration of one GPU model and its host: the efficiencies and fixed costs that
// turn operations into times. Values: calibration/*.textproto.
//
// Invariants (check() names every broken one)
// (1) An efficiency is a fraction of a data-sheet peak (cluster/device/gpu.h), 0 < fraction <= 1.
//     No kernel beats the roofline of its GPU.
// (2) A duration, a ramp and a byte count is never negative.
// (3) A field has a default only if its absence has a meaning (no loss, no limit).
//
// Formulas that use the fields: kernel.h (kernels), overlap.h (kernels beside collectives).
// Communication has its own profile: cluster/network/profile.h (NCCL's tables, links, NICs).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/base/units.h"
#include "sim/model/operation.h"

namespace sim::device {

// How well the fit reproduces one group of measurements, on the samples of the fit.
struct Residual {
  std::string group;   // "gemm", "attention forward", "norm"
  std::string source;  // table and rows, with their origin
  std::int64_t samples = 0;
  double mean_absolute_percent = 0;  // of the time, |predicted - measured| / measured
  double bias_percent = 0;           // mean of (predicted - measured) / measured
};

// The origin of a profile.
struct Provenance {
  std::string device;   // the measured device: "A100-SXM4-40GB"
  std::string source;   // tables and papers
  std::string date;     // of the fit, "2026-08-15"
  std::string command;  // repeats the fit
  std::vector<Residual> residuals;
  std::vector<std::string> fitted_rows;  // row_id in tables of runs
  // The profile that a fit by `calibrate` began as. Of a fit to runs of one cluster:
  // ln(measured / predicted) of each run, predicted from the others (cross-validation).
  std::string base;
  std::vector<double> run_residuals;
  // The same of the runs' peaks of reserved and allocated memory, without a fit.
  std::vector<double> reserved_residuals, allocated_residuals;
};

// A tile: the m x n results of one thread block of a matrix product. `efficiency`: speed of its
// main loop relative to the GPU's best tile (small tiles reload operands more often).
struct Tile {
  std::int64_t m = 0;
  std::int64_t n = 0;
  double efficiency = 1;  // (0, 1]
};

// Fraction of a precision's peak that the best tile reaches on a large product, (0, 1]. Physical:
// 0.80-0.90 on A100, 0.70-0.85 on Hopper at 16 bits; fp8 about 5-10 points lower.
struct GemmPeak {
  model::Precision precision = model::Precision::bf16;
  double fraction = 0;
};

// Matrix products: tiles over SMs, see kernel.h.
struct GemmProfile {
  std::vector<GemmPeak> peaks;  // one for each supported precision
  // Rate of long runs under the power limit, relative to the short benchmarks behind `peaks`. (0,
  // 1]; physical: 0.9-1 on A100, 0.7-1 on Hopper.
  double sustained = 1;
  std::vector<Tile> tiles;                  // the fastest one is taken, as the library would
  std::vector<std::int64_t> split_k = {1};  // slices of k tried; > 1 pays for summing the slices
  // Share of the last, partly filled wave of tiles that costs full time. 1: whole waves; 0: tiles
  // flow (persistent kernels, stream-K, higher clocks while SMs idle). [0, 1].
  double wave_quantisation = 1;
  // Cost of a tile's start (first loads) and end (writing results), in steps of k. 50-600.
  double ramp_k = 0;
  // Relative rate by role, because layouts differ: forward TN, input gradient NN, weight gradient
  // NT. (0, 1]; the best is 1.
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  // Share of the traffic for an accumulated fp32 result (Megatron's main_grad) that the main loop
  // does not hide. [0, 1].
  double exposed_accumulation = 1;
  double hbm = 1;  // fraction of HBM peak in memory-bound products, (0, 1]
  // Share of the rate that the power limit leaves to work without pauses, (0, 1]; physical: 0.7-1.
  // Runs have no pauses: all their products run at this share.
  double throttled = 1;
  // For kernels that are timed alone. Up to `boost` long they run at the boost clock; of twice that
  // length or more at `throttled`, with linear interpolation between. 0: not observed.
  Duration boost{};
  bool alone = false;  // products are timed alone, as tables of kernels are
  // Power limit of the board that `sustained` and `throttled` were measured under, and the data
  // sheet's, W; 0: not known.
  double power_w = 0;
  double rated_power_w = 0;
  // Relative rate of products whose rows are not a multiple of 16 bytes (n or k): narrower loads
  // feed the tensor cores. (0, 1]; physical: 0.1-0.6.
  double misaligned = 1;
};

// The best fraction of peak of fused attention at one head size.
struct HeadEfficiency {
  std::int64_t head_dim = 0;
  double fraction = 0;  // (0, 1]
};

// One direction of a fused attention kernel.
struct AttentionPass {
  std::vector<HeadEfficiency> full;    // every key; ascending head_dim
  std::vector<HeadEfficiency> causal;  // keys up to the query; ascending head_dim
  // Cost of the start and end of a query block, in keys per query. It covers first loads, rescaling
  // and writing; under a causal mask also the half-empty blocks on the diagonal. 50-600.
  double ramp_keys = 0;
  double ramp_keys_causal = 0;
  // Idle time at the end, in rounds of average blocks, while the last and (under a causal mask) the
  // longest blocks finish. 0-2.
  double tail = 0;
};

// A fused attention implementation. Runs use the first one of a profile by default.
struct AttentionProfile {
  std::string implementation;  // "flash-attention-2", "flash-attention-3", "cudnn"
  // As in GemmProfile; attention draws less power than a matrix product: 0.85-1 on Hopper.
  double sustained = 1;
  AttentionPass forward;
  AttentionPass backward;            // the whole call: dot(dO, O), main kernel, conversion of dQ
  std::int64_t block_queries = 128;  // queries of one thread block
  double hbm = 1;                    // (0, 1]
};

// A memory-bound kernel: time = overhead + (bytes + ramp) / (HBM peak x fraction).
struct MemoryBoundProfile {
  double hbm = 1;  // (0, 1]; physical: 0.6-0.93
  Bytes ramp{};    // cost of filling and draining the memory pipeline, in bytes
};

// The worker processes of a rank's data loader (PyTorch's DataLoader). See engine/loader.h.
struct LoaderProfile {
  // Time of one worker for an attention mask that is reset at every document, per 2^20 elements of
  // the mask (sequence x sequence). The value 0 means unknown: data is never late.
  Duration mask{};
  // Relative slow-down for every other rank of the node that loads data, because they share memory.
  // 0-1.
  double neighbour = 0;
  // Sequences of many short documents: their share of all sequences, and the mean extra time of
  // their masks relative to the others'. Both are properties of the data that the machine was
  // measured with.
  double many_documents = 0, many_documents_extra = 0;
};

// Time of the CPU thread: the host issues operations, and the GPU follows.
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
  Duration synchronisation{};      // from the GPU's last instruction until the CPU continues
  Duration layer_forward{};        // Python of one layer's forward pass, without launches
  Duration layer_backward{};       // autograd, hooks and Python of one layer's backward
  // Extra time of a layer of experts: router, dispatcher and small operators that PyTorch issues
  // one by one. `expert`: Python, hooks and gradient handles for each local expert in each grouped
  // product. 0: not observed.
  Duration experts_forward{};
  Duration experts_backward{};
  Duration expert{};
  // One launch of a CUDA graph: cudaGraphLaunch (about 2.5 us, and 1 ns a node) and the call of the
  // autograd function that stands for the captured module. [NVIDIA developer blog, "Constant time
  // launch for straight-line CUDA graphs"; TransformerEngine pytorch/graph.py]
  Duration graph{};
  Duration microbatch{};  // data iterator, schedule, loss bookkeeping
  Duration step{};        // timers, logging, learning rate; once per step
  // Entries of a launch queue of the GPU; with CUDA_DEVICE_MAX_CONNECTIONS=1 all streams share one,
  // otherwise each has its own. When the queue is full, the CPU waits until the GPU has started an
  // entry. A kernel takes one entry. A collective or exchange, with its event records and waits,
  // takes `queue_entries_per_collective`. 0: no limit.
  std::int64_t launch_queue = 0;
  std::int64_t queue_entries_per_collective = 1;
  LoaderProfile loader;
};

// Slow-down of kernels beside a collective. See overlap.h.
struct OverlapProfile {
  // Remaining rate of a compute-bound kernel beside a collective, in addition to the loss of NCCL's
  // SMs (cache, HBM, power). (0, 1]; physical 0.85-1.
  double compute = 1;
  // Remaining rate of a memory-bound kernel beside a collective. (0, 1]; physical 0.6-1.
  double memory = 1;
  // Remaining rate of a collective beside compute, inside a node and across nodes. (0, 1].
  double collective_node = 1;
  double collective_network = 1;
  // Spread of the arrival times of ranks at a collective or message in a training step. Real
  // kernels and launches vary; those of a replay are identical. nccl-tests do not show it, because
  // their ranks wait for each other all the time.
  Duration arrival{};
};

// Device memory outside PyTorch's caching allocator, and library workspaces inside it. NCCL's
// buffers: cluster/network/profile.h.
struct ReservedMemory {
  Bytes context{};           // CUDA context with loaded kernels
  Bytes libraries{};         // handles of cuBLAS and cuDNN, compiled modules; outside PyTorch
  Bytes cublas_workspace{};  // inside the allocator: per handle and stream, at the first matmul
  Bytes engine_workspace{};  // inside the allocator: TransformerEngine, once per process
  // Memory that none of these explains, fitted to outcomes of measured runs, and its range. least
  // <= unexplained <= most.
  Bytes unexplained{}, unexplained_least{}, unexplained_most{};
};

struct Profile {
  std::string name;  // calibration/<name>.textproto
  Provenance provenance;
  Duration kernel_overhead{};  // start and drain of any kernel on the GPU; physical 1-5 us
  // Bandwidth of one thread block from HBM, for kernels with too few blocks (columns of a norm's
  // weight gradient): latency limits them. 0: not observed. Physical: 2-20 GB/s.
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

// Every missing or unphysical value; empty: the profile can be used. `where` is the path of the
// field ("gemm.tiles[2].efficiency"); the loader adds the place in the file.
Diagnostics check(const Profile& profile);

}  // namespace sim::device
