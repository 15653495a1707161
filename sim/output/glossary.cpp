#include "sim/output/glossary.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "sim/base/ascii.h"

namespace sim::output {
namespace {

constexpr std::array terms = std::to_array<Term>({
    {"90 % interval",
     "The range that 90 % of the measured runs of such a plan fell into, around "
     "their predictions."},
    {"accounts",
     "The parts of the step time of a rank; they do not overlap and add up to the step."},
    {"allocated",
     "Bytes that tensors hold in PyTorch's caching allocator, rounded up to its blocks."},
    {"all-gather", "A collective after which every rank has the data of all ranks."},
    {"all-reduce", "A collective after which every rank has the sum over all ranks."},
    {"bound",
     "A time or memory that no replay of the plan can be below; it discards plans without a "
     "replay."},
    {"bubble", "The share of the step time in which a rank waits for other pipeline stages."},
    {"busbw",
     "Bus bandwidth as nccl-tests prints it: bytes over time, scaled so that it can be "
     "compared with the bandwidth of a link."},
    {"capacity",
     "Device memory that the caching allocator may use: the GPU's memory less all that "
     "lies outside the allocator."},
    {"checkpoint",
     "Weights and optimizer state written to storage, from which a job starts again "
     "after a failure."},
    {"chunk",
     "The layers that a stage runs in one pass; with interleaving a stage has several "
     "(virtual pipeline stages)."},
    {"communicator",
     "An NCCL communicator: ranks that run collectives or messages together, with "
     "buffers of their own on each GPU."},
    {"compute", "Time in which the GPU runs kernels of the forward and backward passes."},
    {"context parallelism", "Ranks share the tokens of each sequence (cp)."},
    {"convention",
     "How the FLOPs of a throughput are counted, for example `megatron` (Megatron-LM's "
     "formula) or `hardware` (what is executed)."},
    {"cost",
     "Price of the GPU hours, per million tokens or of a whole training (--tokens); the price "
     "is price_per_gpu_hour of the cluster or --price; see --objective cost."},
    {"coupled",
     "A replay in which transfers that use the same link at the same time slow each "
     "other down."},
    {"cuda_device_max_connections",
     "1: all streams share one hardware queue, as Megatron-LM requires; FSDP and zero-bubble "
     "schedules are simulated with more, and no setting changes that."},
    {"data parallelism",
     "Replicas of the model train on different sequences and add up their "
     "gradients (dp)."},
    {"ecmp",
     "Equal-cost multi-path: a switch hashes each flow to one of its uplinks, so flows may "
     "collide; write fabric.kind=leaf_spine, with fabric.hash_seed for another draw."},
    {"energy",
     "Energy of the GPU boards at gpu.power_w, or at their rated power, without CPUs, switches and "
     "cooling (PUE); `plan --objective energy` finds the plan with the least."},
    {"ethernet",
     "A network that hashes each flow to one path: write fabric.kind=leaf_spine, and the rate that "
     "it reaches as transport.bandwidth and transport.message_latency."},
    {"events",
     "Failures of a campaign, of all nodes in the pool: also those that hit a spare, a node in "
     "repair, or a job that is down already."},
    {"expert parallelism", "Ranks share the experts of each layer (ep)."},
    {"exposed",
     "Communication time in which the GPU computes nothing, because no kernel hides it."},
    {"fill and drain",
     "Pipeline wait at the begin and end of a step, while the pipeline has fewer "
     "microbatches than stages."},
    {"fragmentation", "Memory that is reserved and free, but in pieces too small for a request."},
    {"fsdp",
     "Fully sharded data parallelism: each rank stores a shard of the parameters and gathers "
     "them before use."},
    {"goodput",
     "The share of wall time spent on steps that were not lost: of each seed, mean over the "
     "seeds."},
    {"headroom", "Capacity less the reserved peak of the rank that needs most."},
    {"hfu",
     "Hardware FLOPs utilisation: executed FLOP/s over the GPU's peak, recomputation "
     "included."},
    {"imbalance", "Pipeline wait because one stage takes longer than another."},
    {"interruptions",
     "Failures that stop a running job of a campaign; an event that hits a spare or a node in "
     "repair is none."},
    {"kernels",
     "Operations of a step on the GPU; `rehearse run PLAN --kernels` lists them with calls, "
     "times and rates, and the collectives with their exposed time."},
    {"mfu",
     "Model FLOPs utilisation: the model's FLOP/s over the GPU's peak, recomputation not "
     "counted."},
    {"microbatch", "The sequences that pass through the pipeline together."},
    {"mtbf",
     "Mean time between failures: `campaign --mtbf` takes that of the whole job, and --gpu-mtbf "
     "that "
     "of one GPU, as vendors state it."},
    {"nvl72",
     "A rack of 72 GPUs in one NVLink domain, the cluster gb200-nvl72; cluster.node.gpus=64 takes "
     "64 of each rack, as many jobs do."},
    {"nvls", "NVLink SHARP: an all-reduce whose sums are made in the NVLink switches."},
    {"offload", "Tensors or optimizer state kept in CPU memory."},
    {"other",
     "The account of a step's time, or the category of memory, that holds the rest: driver calls, "
     "the loss over all ranks, tensors of no named kind."},
    {"outside the allocator",
     "Device memory that PyTorch's allocator does not see: the CUDA context, "
     "NCCL's buffers, library workspaces."},
    {"outcome",
     "What became of a plan: it fits, it runs out of memory (oom), or it is impossible."},
    {"oversubscription",
     "Bandwidth below a switch over bandwidth above it; 1 means that all can send "
     "at full rate."},
    {"pass", "The forward or backward computation of one chunk for one microbatch."},
    {"peak", "The most bytes held at one time during the step."},
    {"pipeline parallelism", "Stages hold consecutive layers and pass microbatches on (pp)."},
    {"power",
     "Power limit of a GPU board, gpu.power_w; below the board's rated power it slows products in "
     "proportion, and with it `run` and `plan` print energy."},
    {"price",
     "What one GPU costs per hour, in your currency: price_per_gpu_hour of the cluster, or "
     "--price; with it `run`, `plan`, `whatif` and `campaign` print the cost."},
    {"profile", "Measured efficiencies of a GPU and its host that turn operations into times."},
    {"rank", "One process of the job, on one GPU."},
    {"rank class", "Ranks that run the same program with the same times; one of them is replayed."},
    {"rank wait",
     "Time in which a rank waits in a collective for the last rank of its group: of a mixture for "
     "the rank with the busiest experts, of unlike GPUs for the slowest."},
    {"recompute",
     "Activations that are not saved in the forward pass and are computed again in the "
     "backward pass."},
    {"reduce-scatter",
     "A collective after which every rank has its share of the sum over all ranks."},
    {"replay",
     "The simulation of a step: every operation of every rank class against clocks and the "
     "caching allocator."},
    {"reserved",
     "Bytes that PyTorch's caching allocator holds from the driver: allocated blocks, "
     "and free ones that it keeps."},
    {"residual", "How far the prediction of a measured run was off."},
    {"retries",
     "Times that a cudaMalloc failed and the allocator gave its cached memory back to the "
     "driver and asked again; the device is idle meanwhile."},
    {"roce",
     "RDMA over Converged Ethernet: transport.bandwidth sets the share of a NIC's rate that it "
     "reaches, transport.message_latency its extra latency; see ethernet."},
    {"segment", "Memory that the caching allocator got from the driver in one call."},
    {"sequence parallelism",
     "Tensor-parallel ranks share the tokens where they do not share the "
     "heads: norms, dropout, residuals."},
    {"stage", "The ranks that hold the same layers of a pipeline."},
    {"static", "Memory held from one step to the next: weights, gradients, optimizer state."},
    {"step time", "Time from the begin of one training step to the begin of the next."},
    {"straggler",
     "A GPU or node that is slower than the others and makes them wait; the setting "
     "`condition={node: 0 gpu: 0 speed: 0.85}` makes one."},
    {"tensor parallelism", "Ranks share each matrix product of a layer (tp)."},
    {"textbook bubble",
     "(p - 1) / (m v + p - 1) for p stages, m microbatches and v chunks on each "
     "stage."},
    {"tight",
     "A small change may reverse the outcome: the verdict differs within the range of "
     "unexplained memory, less than 2 % of the capacity is left, or the plan needs retries."},
    {"transfer", "Pipeline wait for messages on the wire that no kernel hides."},
    {"unequal stages", "Pipeline wait because one stage takes longer than another (imbalance)."},
    {"unexplained",
     "Measured memory outside the allocator that no known source explains; it is a "
     "range, and the verdict is asked at both ends."},
    {"verdict", "Whether a plan fits, and how sure that is."},
    {"waiting for the CPU", "Time in which the GPU waits for the CPU to launch kernels."},
    {"warm-up",
     "The first step of a job, in which the allocator asks the driver for its memory; it "
     "is replayed, and the reported step is a later one."},
    {"zero",
     "DeepSpeed's ZeRO: stage 1 shards the optimizer state over the data-parallel ranks, "
     "stage 2 gradients too, stage 3 parameters too."},
});

// Lower case, with blanks for '_' and '-'.
std::string plain(std::string_view text) {
  std::string result = lower(text);
  for (char& c : result)
    if (c == '_' || c == '-') c = ' ';
  return result;
}

bool is_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

}  // namespace

std::span<const Term> glossary() {
  return terms;
}

const Term* find_term(std::string_view name) {
  const std::string wanted = plain(name);
  const auto found =
      std::ranges::find_if(terms, [&](const Term& term) { return plain(term.name) == wanted; });
  return found == terms.end() ? nullptr : &*found;
}

std::vector<const Term*> terms_in(std::string_view text) {
  const std::string all = plain(text);
  std::vector<const Term*> found;
  for (const Term& term : terms) {
    const std::string name = plain(term.name);
    for (std::size_t at = all.find(name); at != std::string::npos; at = all.find(name, at + 1)) {
      const std::size_t end = at + name.size();
      if ((at > 0 && is_letter(all[at - 1])) || (end < all.size() && is_letter(all[end]))) continue;
      found.push_back(&term);
      break;
    }
  }
  return found;
}

}  // namespace sim::output
