# Written by sim/python/stubs.py from `rehearse list fields --json`: do not edit.
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Literal, TypedDict, Union

Name = Union[str, "PathLike[str]"]
Block = Mapping[str, Any]

class Fields(TypedDict, total=False):
    name: str
    source: Union[str, Iterable[str]]
    architecture: Block
    framework: str
    framework_version: str
    cluster_settings: Union[str, Iterable[str]]
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
    name: Union[str, Iterable[str]]
    source: Union[Union[str, Iterable[str]], Iterable[Union[str, Iterable[str]]]]
    architecture: Union[Block, Iterable[Block]]
    framework: Union[str, Iterable[str]]
    framework_version: Union[str, Iterable[str]]
    cluster_settings: Union[Union[str, Iterable[str]], Iterable[Union[str, Iterable[str]]]]
    nodes: Union[int, Iterable[int]]
    tp: Union[int, Iterable[int]]
    tensor_columns: Union[int, Iterable[int]]
    tensor_depth: Union[int, Iterable[int]]
    cp: Union[int, Iterable[int]]
    context: Union[str, Iterable[str]]
    ulysses: Union[int, Iterable[int]]
    pp: Union[int, Iterable[int]]
    dp: Union[int, Iterable[int]]
    virtual_stages: Union[int, Iterable[int]]
    layers_per_virtual_stage: Union[int, Iterable[int]]
    micro_batch: Union[int, Iterable[int]]
    global_batch: Union[int, Iterable[int]]
    replica_microbatches: Union[str, Iterable[str]]
    schedule: Union[str, Iterable[str]]
    interleaving: Union[Literal[  # noqa: E501
        "all_forwards_first", "alternating", "whole_rounds"], Iterable[Literal[  # noqa: E501
        "all_forwards_first", "alternating", "whole_rounds"]]]
    microbatch_group: Union[int, Iterable[int]]
    sequence_parallel: Union[bool, Iterable[bool]]
    data_parallel: Union[Literal[  # noqa: E501
        "ddp", "fsdp1", "fsdp2"], Iterable[Literal[  # noqa: E501
        "ddp", "fsdp1", "fsdp2"]]]
    zero: Union[int, Iterable[int]]
    fsdp: Union[Block, Iterable[Block]]
    distributed_optimizer: Union[bool, Iterable[bool]]
    optimizer_replicas: Union[int, Iterable[int]]
    whole_parameters: Union[bool, Iterable[bool]]
    deepspeed_optimizer: Union[bool, Iterable[bool]]
    deepspeed_all_reduce: Union[bool, Iterable[bool]]
    overlap_grad_reduce: Union[bool, Iterable[bool]]
    overlap_param_gather: Union[bool, Iterable[bool]]
    recompute: Union[Literal[  # noqa: E501
        "none", "selective", "full"], Iterable[Literal[  # noqa: E501
        "none", "selective", "full"]]]
    recompute_method: Union[Literal["uniform", "block"], Iterable[Literal["uniform", "block"]]]
    recompute_layers: Union[int, Iterable[int]]
    recompute_modules: Union[str, Iterable[str]]
    offload_layers: Union[int, Iterable[int]]
    offload_modules: Union[str, Iterable[str]]
    cuda_graph_modules: Union[str, Iterable[str]]
    offload_min_elements: Union[int, Iterable[int]]
    activation_offload_fraction: Union[float, Iterable[float]]
    offload_delta_bytes: Union[int, Iterable[int]]
    layer_choices: Union[str, Iterable[str]]
    codec: Union[Block, Iterable[Block]]
    attention: Union[Literal[  # noqa: E501
        "flash", "cudnn", "unfused", "flash1", "triton"], Iterable[Literal[  # noqa: E501
        "flash", "cudnn", "unfused", "flash1", "triton"]]]
    precision: Union[Literal["bf16", "fp16", "fp32"], Iterable[Literal["bf16", "fp16", "fp32"]]]
    fp32_gradients: Union[bool, Iterable[bool]]
    swiglu_fusion: Union[bool, Iterable[bool]]
    rope_fusion: Union[bool, Iterable[bool]]
    batch_first_core: Union[bool, Iterable[bool]]
    norm_fusion: Union[bool, Iterable[bool]]
    overlap_tensor_reduce: Union[bool, Iterable[bool]]
    overlap_depth_gather: Union[bool, Iterable[bool]]
    overlap_depth_scatter: Union[bool, Iterable[bool]]
    saved_depth_weights: Union[bool, Iterable[bool]]
    joined_halves: Union[bool, Iterable[bool]]
    repeat_kv: Union[bool, Iterable[bool]]
    layer_code: Union[Literal[  # noqa: E501
        "core", "before_core", "one_function"], Iterable[Literal[  # noqa: E501
        "core", "before_core", "one_function"]]]
    checkpoint_early_stop: Union[bool, Iterable[bool]]
    cross_entropy: Union[Literal[  # noqa: E501
        "stepwise", "native", "te", "one_kernel"], Iterable[Literal[  # noqa: E501
        "stepwise", "native", "te", "one_kernel"]]]
    tf32: Union[bool, Iterable[bool]]
    fp8: Union[bool, Iterable[bool]]
    fp8_recipe: Union[Literal[  # noqa: E501
        "delayed", "tensorwise", "mxfp8", "nvfp4"], Iterable[Literal[  # noqa: E501
        "delayed", "tensorwise", "mxfp8", "nvfp4"]]]
    fp8_parameters: Union[bool, Iterable[bool]]
    fake_quantization: Union[Literal[  # noqa: E501
        "none", "weights", "operands"], Iterable[Literal[  # noqa: E501
        "none", "weights", "operands"]]]
    fake_quantization_clips: Union[bool, Iterable[bool]]
    layer_kernels: Union[Literal[  # noqa: E501
        "fused", "eager", "compiled"], Iterable[Literal[  # noqa: E501
        "fused", "eager", "compiled"]]]
    fused_optimizer: Union[bool, Iterable[bool]]
    logit_metrics: Union[int, Iterable[int]]
    launch_blocking: Union[bool, Iterable[bool]]
    precision_aware_optimizer: Union[bool, Iterable[bool]]
    separate_state_casts: Union[bool, Iterable[bool]]
    post_validation: Union[bool, Iterable[bool]]
    main_params_dtype: Union[str, Iterable[str]]
    exp_avg_dtype: Union[str, Iterable[str]]
    exp_avg_sq_dtype: Union[str, Iterable[str]]
    optimizer_cpu_offload: Union[bool, Iterable[bool]]
    optimizer_offload_fraction: Union[float, Iterable[float]]
    overlap_cpu_optimizer: Union[bool, Iterable[bool]]
    optimizer_sub_group: Union[int, Iterable[int]]
    optimizer_gpu_stride: Union[int, Iterable[int]]
    async_gradient_copy: Union[bool, Iterable[bool]]
    adapters: Union[bool, Iterable[bool]]
    finetuning: Union[bool, Iterable[bool]]
    lora_rank: Union[int, Iterable[int]]
    lora_modules: Union[str, Iterable[str]]
    lora_dropout: Union[bool, Iterable[bool]]
    lora_all_to_all: Union[bool, Iterable[bool]]
    first_stage_layers: Union[int, Iterable[int]]
    last_stage_layers: Union[int, Iterable[int]]
    account_for_embedding: Union[bool, Iterable[bool]]
    account_for_loss: Union[bool, Iterable[bool]]
    layer_split: Union[Literal[  # noqa: E501
        "even", "padded", "weighted", "balanced"], Iterable[Literal[  # noqa: E501
        "even", "padded", "weighted", "balanced"]]]
    embedding_layers: Union[int, Iterable[int]]
    head_layers: Union[int, Iterable[int]]
    pipeline_layout: Union[str, Iterable[str]]
    kept_outputs: Union[Literal[  # noqa: E501
        "no_stage", "last_stage", "every_stage"], Iterable[Literal[  # noqa: E501
        "no_stage", "last_stage", "every_stage"]]]
    kept_input_gradients: Union[bool, Iterable[bool]]
    slices: Union[str, Iterable[str]]
    gradient_accumulation_fusion: Union[bool, Iterable[bool]]
    attention_mask: Union[bool, Iterable[bool]]
    reset_attention_mask: Union[bool, Iterable[bool]]
    data_workers: Union[int, Iterable[int]]
    packed_document: Union[int, Iterable[int]]
    check_for_nan: Union[bool, Iterable[bool]]
    avoid_record_streams: Union[bool, Iterable[bool]]
    kept_gradient_handles: Union[bool, Iterable[bool]]
    separate_products: Union[bool, Iterable[bool]]
    deterministic: Union[bool, Iterable[bool]]
    gradient_clipping: Union[bool, Iterable[bool]]
    tp_comm_overlap: Union[bool, Iterable[bool]]
    logs_optimizer_state: Union[bool, Iterable[bool]]
    allocator_options: Union[str, Iterable[str]]
    rank_order: Union[str, Iterable[str]]
    ep: Union[int, Iterable[int]]
    etp: Union[int, Iterable[int]]
    dispatcher: Union[Literal[  # noqa: E501
        "alltoall", "allgather", "alltoall_seq", "flex"], Iterable[Literal[  # noqa: E501
        "alltoall", "allgather", "alltoall_seq", "flex"]]]
    router: Union[Literal[  # noqa: E501
        "balanced", "random", "skewed"], Iterable[Literal[  # noqa: E501
        "balanced", "random", "skewed"]]]
    router_skew: Union[float, Iterable[float]]
    router_load: Union[str, Iterable[str]]
    router_seed: Union[int, Iterable[int]]
    capacity_factor: Union[float, Iterable[float]]
    pad_to_capacity: Union[bool, Iterable[bool]]
    grouped_gemm: Union[bool, Iterable[bool]]
    legacy_grouped_gemm: Union[bool, Iterable[bool]]
    permute_fusion: Union[bool, Iterable[bool]]
    fp32_router: Union[bool, Iterable[bool]]
    late_probabilities: Union[bool, Iterable[bool]]
    shared_expert_overlap: Union[bool, Iterable[bool]]
    overlap_expert_all_to_all: Union[bool, Iterable[bool]]
    mtp_layers: Union[int, Iterable[int]]
    jitter: Union[Block, Iterable[Block]]
    gpu: Union[Block, Iterable[Block]]
    node: Union[Block, Iterable[Block]]
    fabric: Union[Block, Iterable[Block]]
    transport: Union[Block, Iterable[Block]]

class SettingLists(FieldLists, total=False):
    model: Union[Name, Iterable[Name]]
    cluster: Union[Name, Iterable[Name]]
    gpus: Union[int, Iterable[int]]
    sequence: Union[int, Iterable[int]]
