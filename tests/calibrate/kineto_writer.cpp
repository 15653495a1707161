#include "tests/calibrate/kineto_writer.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "sim/engine/rank/queues.h"

namespace sim::calibrate {

namespace {

using program::Op;

std::string_view usual_name(KernelFamily family) {
  using enum KernelFamily;
  switch (family) {
    case gemm:
      return "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT";
    case attention_forward:
      return "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)";
    case attention_backward:
      return "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128>>";
    case norm:
      return "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<Kernel_traits>";
    case softmax:
      return "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float, float>";
    case copy:
      return "void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig<4>";
    case reduction:
      return "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>";
    case optimizer:
      return "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>";
    case embedding:
      return "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long>";
    case all_reduce:
      return "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    case all_gather:
      return "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    case reduce_scatter:
      return "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    case broadcast:
      return "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    case all_to_all:
    case send_receive:
    case communication:
      return "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
    default:
      return "void at::native::vectorized_elementwise_kernel<8, "
             "at::native::BinaryFunctor<float>>";
  }
}

// Names of collectives in c10d.
std::string_view torch_name(collective::Kind kind) {
  using collective::Kind;
  switch (kind) {
    case Kind::all_reduce:
      return "allreduce";
    case Kind::all_gather:
      return "_allgather_base";
    case Kind::reduce_scatter:
      return "_reduce_scatter_base";
    case Kind::broadcast:
      return "broadcast";
    case Kind::all_to_all:
      return "all_to_allv";
    case Kind::send_receive:
    case Kind::ring_exchange:
      break;
  }
  return "send";
}

std::string collective_arguments(const ExpectedStep& step, const program::Transfer& t) {
  const auto& groups = step.job.mesh.groups(engine::communicator_of(t.communicator));
  const std::size_t ranks = groups.ranks.empty() ? 1 : groups.ranks.front().size();
  return fmt::format(
      R"(, "Collective name": "{}", "In msg nelems": {}, "Out msg nelems": {}, "Group size": {}, )"
      R"("dtype": "BFloat16", "Process Group Name": "{}")",
      torch_name(t.kind), t.bytes.n / 2, t.bytes.n / 2, ranks, program::name(t.communicator));
}

}  // namespace

std::string kineto_trace(const ExpectedStep& step, const KinetoOptions& options) {
  std::string out;
  const auto put = std::back_inserter(out);
  fmt::format_to(put,
                 "{{\"schemaVersion\": 1,\n\"deviceProperties\": [{{\"id\": 0, \"name\": {}}}],\n"
                 "\"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": "
                 "{}}},\n\"traceEvents\": [",
                 nlohmann::json(options.device).dump(), options.rank, step.job.mesh.world());
  const auto us = [](std::int64_t ps) { return static_cast<double>(ps) * 1e-6; };
  bool first = true;
  for (int s = 0; s < options.steps; ++s) {
    const std::int64_t zero = options.clock_ns * 1000 + s * step.step_time.ps;
    fmt::format_to(put,
                   "{}\n{{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": "
                   "\"ProfilerStep#{}\", \"pid\": 1, \"tid\": 1, \"ts\": {:.3f}, \"dur\": {:.3f}}}",
                   first ? "" : ",", s + 1, us(zero), us(step.step_time.ps));
    first = false;
    for (const ExpectedOperation& o : step.operations) {
      const auto stream = 7 + static_cast<int>(o.queue);
      fmt::format_to(
          put,
          ",\n{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{}\", \"pid\": 0, \"tid\": {}, "
          "\"ts\": {:.3f}, \"dur\": {:.3f}, \"args\": {{\"stream\": {}{}}}}}",
          usual_name(o.family), stream, us(zero + o.start.ps), us(o.end.ps - o.start.ps), stream,
          o.op == Op::collective ? collective_arguments(step, step.program().transfers[o.index])
                                 : "");
    }
  }
  out += "\n]}\n";
  return out;
}

}  // namespace sim::calibrate
