#include "sim/calibrate/readers/table_columns.h"

namespace sim::calibrate {

std::span<const TableColumn> kernel_table_columns() {
  static constexpr TableColumn all[] = {
      {"source", "who measured it; rows of one source are averaged together"},
      {"kernel",
       "matmul, attention; norm, elementwise, softmax, copy, reduction, embedding, "
       "optimizer (memory-bound, by bytes); launch"},
      {"gpu", "name of the GPU, as `rehearse list clusters` has it"},
      {"dtype", "bf16, fp16, fp8 or tf32"},
      {"m", "rows of the product's result: tokens of the forward pass"},
      {"n", "columns of the product's result"},
      {"k", "length that the product sums over"},
      {"layout", "cuBLAS's: TN forward, NN gradient of the input, NT gradient of the weight"},
      {"accumulate", "True if the product adds to its result, else False"},
      {"batch", "sequences (attention)"},
      {"seq", "tokens of a sequence (attention)"},
      {"heads", "query heads"},
      {"kv_heads", "key and value heads; heads without grouped queries"},
      {"head_dim", "size of a head"},
      {"v_head_dim", "size of a value head; blank: head_dim"},
      {"causal", "1 causal, 0 full"},
      {"direction", "fwd, bwd or fwd+bwd"},
      {"tflops",
       "TFLOP/s; only read where time_us is blank. Attention: 4 s^2 d h FLOPs forward, "
       "half if causal, 2.5 times that backward"},
      {"time_us", "time of one call, microseconds"},
      {"impl", "kernel: FlashAttention-2, FlashAttention-3, cuDNN (attention); blank otherwise"},
      {"bytes", "bytes that a memory-bound kernel reads and writes"},
  };
  return all;
}

std::span<const TableColumn> operation_table_columns() {
  static constexpr TableColumn all[] = {
      {"source", "who measured it"},
      {"gpu", "name of the GPU, as `rehearse list clusters` has it"},
      {"precision", "fp16 or fp32"},
      {"hidden", "hidden size of the model"},
      {"heads", "attention heads"},
      {"seq", "tokens of a sequence"},
      {"mbs", "sequences of a microbatch"},
      {"tp", "tensor-parallel degree"},
      {"op", "Megatron-LM's operation: enc-MLP-GEMM-1, enc-attention-softmax ..."},
      {"fwd_us", "time of the forward pass, microseconds"},
      {"bwd_us", "time of the backward pass, microseconds"},
  };
  return all;
}

std::span<const TableColumn> collective_table_columns() {
  static constexpr TableColumn all[] = {
      {"source", "who measured it; rows of one source are averaged together"},
      {"collective", "all_reduce, all_gather, reduce_scatter, broadcast, alltoall or sendrecv"},
      {"gpu", "name of the GPU, as `rehearse list clusters` has it"},
      {"n_gpus", "GPUs that take part"},
      {"nodes", "nodes that they are in"},
      {"intra_net",
       "links inside of a node: NVLink4/NVSwitch; MNNVL in it: nodes of one NVLink "
       "domain"},
      {"inter_net", "network between nodes with its NICs per node: IB 8x400Gb/s"},
      {"nccl_version", "2.27.5; blank: not known"},
      {"algo", "auto, Ring, Tree or NVLS; host-timed in it: timed by the CPU"},
      {"bytes", "size of the message as nccl-tests print it, bytes"},
      {"time_us_oop", "time out of place, microseconds"},
      {"busbw_oop", "bus bandwidth out of place, GB/s; only read where the time is blank"},
  };
  return all;
}

}  // namespace sim::calibrate
