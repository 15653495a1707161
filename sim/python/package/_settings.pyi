# Written by sim/python/stubs.py from `rehearse list fields --json`: do not edit.
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, Union

Name = Union[str, "PathLike[str]"]
Block = Mapping[str, Any]

class Fields(TypedDict, total=False):
    name: str
    source: Union[str, Sequence[str]]
    architecture: Block
    framework: str
    framework_version: str
    cluster_settings: Union[str, Sequence[str]]
    nodes: int
    tp: int
    tensor_columns: int
    tensor_depth: int
    cp: int
    context: str
    ulysses: int
    pp: int
    dp: int
    virtual_stages: int
    layers_per_virtual_stage: int
    micro_batch: int
    global_batch: int
    replica_microbatches: str
    schedule: str
    interleaving: Literal["all_forwards_first", "alternating", "whole_rounds"]
    microbatch_group: int
    sequence_parallel: bool
    data_parallel: Literal["ddp", "fsdp1", "fsdp2"]
    zero: int
    fsdp: Block
    distributed_optimizer: bool
    optimizer_replicas: int
    whole_parameters: bool
    deepspeed_optimizer: bool
    deepspeed_all_reduce: bool
    overlap_grad_reduce: bool
    overlap_param_gather: bool
    recompute: Literal["none", "selective", "full"]
    recompute_method: Literal["uniform", "block"]
    recompute_layers: int
    recompute_modules: str
    offload_layers: int
    offload_modules: str
    cuda_graph_modules: str
    offload_min_elements: int
    activation_offload_fraction: float
    offload_delta_bytes: int
    layer_choices: str
    codec: Block
    attention: Literal["flash", "cudnn", "unfused", "flash1", "triton"]
    precision: Literal["bf16", "fp16", "fp32"]
    fp32_gradients: bool
    swiglu_fusion: bool
    rope_fusion: bool
    batch_first_core: bool
    norm_fusion: bool
    overlap_tensor_reduce: bool
    overlap_depth_gather: bool
    overlap_depth_scatter: bool
    saved_depth_weights: bool
    joined_halves: bool
    repeat_kv: bool
    layer_code: Literal["core", "before_core", "one_function"]
    checkpoint_early_stop: bool
    cross_entropy: Literal["stepwise", "native", "te", "one_kernel"]
    tf32: bool
    fp8: bool
    fp8_recipe: Literal["delayed", "tensorwise", "mxfp8", "nvfp4"]
    fp8_parameters: bool
    fake_quantization: Literal["none", "weights", "operands"]
    fake_quantization_clips: bool
    layer_kernels: Literal["fused", "eager", "compiled"]
    fused_optimizer: bool
    logit_metrics: int
    launch_blocking: bool
    precision_aware_optimizer: bool
    separate_state_casts: bool
    post_validation: bool
    main_params_dtype: str
    exp_avg_dtype: str
    exp_avg_sq_dtype: str
    optimizer_cpu_offload: bool
    optimizer_offload_fraction: float
    overlap_cpu_optimizer: bool
    optimizer_sub_group: int
    optimizer_gpu_stride: int
    async_gradient_copy: bool
    adapters: bool
    finetuning: bool
    lora_rank: int
    lora_modules: str
    lora_dropout: bool
    lora_all_to_all: bool
    first_stage_layers: int
    last_stage_layers: int
    account_for_embedding: bool
    account_for_loss: bool
    layer_split: Literal["even", "padded", "weighted", "balanced"]
    embedding_layers: int
    head_layers: int
    pipeline_layout: str
    kept_outputs: Literal["no_stage", "last_stage", "every_stage"]
    kept_input_gradients: bool
    slices: str
    gradient_accumulation_fusion: bool
    attention_mask: bool
    reset_attention_mask: bool
    data_workers: int
    packed_document: int
    check_for_nan: bool
    avoid_record_streams: bool
    kept_gradient_handles: bool
    separate_products: bool
    deterministic: bool
    gradient_clipping: bool
    tp_comm_overlap: bool
    logs_optimizer_state: bool
    allocator_options: str
    rank_order: str
    ep: int
    etp: int
    dispatcher: Literal["alltoall", "allgather", "alltoall_seq", "flex"]
    router: Literal["balanced", "random", "skewed"]
    router_skew: float
    router_load: str
    router_seed: int
    capacity_factor: float
    pad_to_capacity: bool
    grouped_gemm: bool
    legacy_grouped_gemm: bool
    permute_fusion: bool
    fp32_router: bool
    late_probabilities: bool
    shared_expert_overlap: bool
    overlap_expert_all_to_all: bool
    mtp_layers: int
    jitter: Block
    gpu: Block
    node: Block
    fabric: Block
    transport: Block

class Settings(Fields, total=False):
    model: Name
    cluster: Name
    gpus: int
    sequence: int

class FieldLists(TypedDict, total=False):
    name: Union[str, Sequence[str]]
    source: Union[Union[str, Sequence[str]], Sequence[Union[str, Sequence[str]]]]
    architecture: Union[Block, Sequence[Block]]
    framework: Union[str, Sequence[str]]
    framework_version: Union[str, Sequence[str]]
    cluster_settings: Union[Union[str, Sequence[str]], Sequence[Union[str, Sequence[str]]]]
    nodes: Union[int, Sequence[int]]
    tp: Union[int, Sequence[int]]
    tensor_columns: Union[int, Sequence[int]]
    tensor_depth: Union[int, Sequence[int]]
    cp: Union[int, Sequence[int]]
    context: Union[str, Sequence[str]]
    ulysses: Union[int, Sequence[int]]
    pp: Union[int, Sequence[int]]
    dp: Union[int, Sequence[int]]
    virtual_stages: Union[int, Sequence[int]]
    layers_per_virtual_stage: Union[int, Sequence[int]]
    micro_batch: Union[int, Sequence[int]]
    global_batch: Union[int, Sequence[int]]
    replica_microbatches: Union[str, Sequence[str]]
    schedule: Union[str, Sequence[str]]
    interleaving: Union[Literal[  # noqa: E501
        "all_forwards_first", "alternating", "whole_rounds"], Sequence[Literal[  # noqa: E501
        "all_forwards_first", "alternating", "whole_rounds"]]]
    microbatch_group: Union[int, Sequence[int]]
    sequence_parallel: Union[bool, Sequence[bool]]
    data_parallel: Union[Literal[  # noqa: E501
        "ddp", "fsdp1", "fsdp2"], Sequence[Literal[  # noqa: E501
        "ddp", "fsdp1", "fsdp2"]]]
    zero: Union[int, Sequence[int]]
    fsdp: Union[Block, Sequence[Block]]
    distributed_optimizer: Union[bool, Sequence[bool]]
    optimizer_replicas: Union[int, Sequence[int]]
    whole_parameters: Union[bool, Sequence[bool]]
    deepspeed_optimizer: Union[bool, Sequence[bool]]
    deepspeed_all_reduce: Union[bool, Sequence[bool]]
    overlap_grad_reduce: Union[bool, Sequence[bool]]
    overlap_param_gather: Union[bool, Sequence[bool]]
    recompute: Union[Literal[  # noqa: E501
        "none", "selective", "full"], Sequence[Literal[  # noqa: E501
        "none", "selective", "full"]]]
    recompute_method: Union[Literal["uniform", "block"], Sequence[Literal["uniform", "block"]]]
    recompute_layers: Union[int, Sequence[int]]
    recompute_modules: Union[str, Sequence[str]]
    offload_layers: Union[int, Sequence[int]]
    offload_modules: Union[str, Sequence[str]]
    cuda_graph_modules: Union[str, Sequence[str]]
    offload_min_elements: Union[int, Sequence[int]]
    activation_offload_fraction: Union[float, Sequence[float]]
    offload_delta_bytes: Union[int, Sequence[int]]
    layer_choices: Union[str, Sequence[str]]
    codec: Union[Block, Sequence[Block]]
    attention: Union[Literal[  # noqa: E501
        "flash", "cudnn", "unfused", "flash1", "triton"], Sequence[Literal[  # noqa: E501
        "flash", "cudnn", "unfused", "flash1", "triton"]]]
    precision: Union[Literal["bf16", "fp16", "fp32"], Sequence[Literal["bf16", "fp16", "fp32"]]]
    fp32_gradients: Union[bool, Sequence[bool]]
    swiglu_fusion: Union[bool, Sequence[bool]]
    rope_fusion: Union[bool, Sequence[bool]]
    batch_first_core: Union[bool, Sequence[bool]]
    norm_fusion: Union[bool, Sequence[bool]]
    overlap_tensor_reduce: Union[bool, Sequence[bool]]
    overlap_depth_gather: Union[bool, Sequence[bool]]
    overlap_depth_scatter: Union[bool, Sequence[bool]]
    saved_depth_weights: Union[bool, Sequence[bool]]
    joined_halves: Union[bool, Sequence[bool]]
    repeat_kv: Union[bool, Sequence[bool]]
    layer_code: Union[Literal[  # noqa: E501
        "core", "before_core", "one_function"], Sequence[Literal[  # noqa: E501
        "core", "before_core", "one_function"]]]
    checkpoint_early_stop: Union[bool, Sequence[bool]]
    cross_entropy: Union[Literal[  # noqa: E501
        "stepwise", "native", "te", "one_kernel"], Sequence[Literal[  # noqa: E501
        "stepwise", "native", "te", "one_kernel"]]]
    tf32: Union[bool, Sequence[bool]]
    fp8: Union[bool, Sequence[bool]]
    fp8_recipe: Union[Literal[  # noqa: E501
        "delayed", "tensorwise", "mxfp8", "nvfp4"], Sequence[Literal[  # noqa: E501
        "delayed", "tensorwise", "mxfp8", "nvfp4"]]]
    fp8_parameters: Union[bool, Sequence[bool]]
    fake_quantization: Union[Literal[  # noqa: E501
        "none", "weights", "operands"], Sequence[Literal[  # noqa: E501
        "none", "weights", "operands"]]]
    fake_quantization_clips: Union[bool, Sequence[bool]]
    layer_kernels: Union[Literal[  # noqa: E501
        "fused", "eager", "compiled"], Sequence[Literal[  # noqa: E501
        "fused", "eager", "compiled"]]]
    fused_optimizer: Union[bool, Sequence[bool]]
    logit_metrics: Union[int, Sequence[int]]
    launch_blocking: Union[bool, Sequence[bool]]
    precision_aware_optimizer: Union[bool, Sequence[bool]]
    separate_state_casts: Union[bool, Sequence[bool]]
    post_validation: Union[bool, Sequence[bool]]
    main_params_dtype: Union[str, Sequence[str]]
    exp_avg_dtype: Union[str, Sequence[str]]
    exp_avg_sq_dtype: Union[str, Sequence[str]]
    optimizer_cpu_offload: Union[bool, Sequence[bool]]
    optimizer_offload_fraction: Union[float, Sequence[float]]
    overlap_cpu_optimizer: Union[bool, Sequence[bool]]
    optimizer_sub_group: Union[int, Sequence[int]]
    optimizer_gpu_stride: Union[int, Sequence[int]]
    async_gradient_copy: Union[bool, Sequence[bool]]
    adapters: Union[bool, Sequence[bool]]
    finetuning: Union[bool, Sequence[bool]]
    lora_rank: Union[int, Sequence[int]]
    lora_modules: Union[str, Sequence[str]]
    lora_dropout: Union[bool, Sequence[bool]]
    lora_all_to_all: Union[bool, Sequence[bool]]
    first_stage_layers: Union[int, Sequence[int]]
    last_stage_layers: Union[int, Sequence[int]]
    account_for_embedding: Union[bool, Sequence[bool]]
    account_for_loss: Union[bool, Sequence[bool]]
    layer_split: Union[Literal[  # noqa: E501
        "even", "padded", "weighted", "balanced"], Sequence[Literal[  # noqa: E501
        "even", "padded", "weighted", "balanced"]]]
    embedding_layers: Union[int, Sequence[int]]
    head_layers: Union[int, Sequence[int]]
    pipeline_layout: Union[str, Sequence[str]]
    kept_outputs: Union[Literal[  # noqa: E501
        "no_stage", "last_stage", "every_stage"], Sequence[Literal[  # noqa: E501
        "no_stage", "last_stage", "every_stage"]]]
    kept_input_gradients: Union[bool, Sequence[bool]]
    slices: Union[str, Sequence[str]]
    gradient_accumulation_fusion: Union[bool, Sequence[bool]]
    attention_mask: Union[bool, Sequence[bool]]
    reset_attention_mask: Union[bool, Sequence[bool]]
    data_workers: Union[int, Sequence[int]]
    packed_document: Union[int, Sequence[int]]
    check_for_nan: Union[bool, Sequence[bool]]
    avoid_record_streams: Union[bool, Sequence[bool]]
    kept_gradient_handles: Union[bool, Sequence[bool]]
    separate_products: Union[bool, Sequence[bool]]
    deterministic: Union[bool, Sequence[bool]]
    gradient_clipping: Union[bool, Sequence[bool]]
    tp_comm_overlap: Union[bool, Sequence[bool]]
    logs_optimizer_state: Union[bool, Sequence[bool]]
    allocator_options: Union[str, Sequence[str]]
    rank_order: Union[str, Sequence[str]]
    ep: Union[int, Sequence[int]]
    etp: Union[int, Sequence[int]]
    dispatcher: Union[Literal[  # noqa: E501
        "alltoall", "allgather", "alltoall_seq", "flex"], Sequence[Literal[  # noqa: E501
        "alltoall", "allgather", "alltoall_seq", "flex"]]]
    router: Union[Literal[  # noqa: E501
        "balanced", "random", "skewed"], Sequence[Literal[  # noqa: E501
        "balanced", "random", "skewed"]]]
    router_skew: Union[float, Sequence[float]]
    router_load: Union[str, Sequence[str]]
    router_seed: Union[int, Sequence[int]]
    capacity_factor: Union[float, Sequence[float]]
    pad_to_capacity: Union[bool, Sequence[bool]]
    grouped_gemm: Union[bool, Sequence[bool]]
    legacy_grouped_gemm: Union[bool, Sequence[bool]]
    permute_fusion: Union[bool, Sequence[bool]]
    fp32_router: Union[bool, Sequence[bool]]
    late_probabilities: Union[bool, Sequence[bool]]
    shared_expert_overlap: Union[bool, Sequence[bool]]
    overlap_expert_all_to_all: Union[bool, Sequence[bool]]
    mtp_layers: Union[int, Sequence[int]]
    jitter: Union[Block, Sequence[Block]]
    gpu: Union[Block, Sequence[Block]]
    node: Union[Block, Sequence[Block]]
    fabric: Union[Block, Sequence[Block]]
    transport: Union[Block, Sequence[Block]]

class SettingLists(FieldLists, total=False):
    model: Union[Name, Sequence[Name]]
    cluster: Union[Name, Sequence[Name]]
    gpus: Union[int, Sequence[int]]
    sequence: Union[int, Sequence[int]]
