"""What a capture measures on the GPU, written in the formats that `rehearse` reads: kernel times as
rows of gemm.csv, memory histories as PyTorch's snapshots and as compact lists of events, one step
under PyTorch's profiler."""

import csv
import gzip
import os
import shutil
import statistics

import torch
import torch.nn.functional as functional

import shapes
from stage import Stage

GEMM_COLUMNS = ["source", "where", "trust", "kernel", "gpu", "dtype", "b", "m", "n", "k", "layout",
                "accumulate", "batch", "seq", "heads", "kv_heads", "head_dim", "v_head_dim",
                "causal", "direction", "tflops", "efficiency", "peak_tflops", "time_us", "impl",
                "bytes", "notes"]
MEMORY_COLUMNS = ["row_id", "source_group", "source", "where", "trust", "model", "layers",
                  "hidden", "heads", "kv_heads", "ffn", "vocab", "seq", "gpu", "gpu_mem_gb",
                  "n_gpus", "tp", "pp", "vp", "dp", "cp", "ep", "sp", "zero", "mbs",
                  "n_microbatch", "recompute", "precision", "rank", "pp_stage", "cur_alloc_gib",
                  "max_alloc_gib", "max_reserved_gib", "param_opt_gib", "activation_gib", "oom",
                  "notes"]
GIB = 2.0**30


def time_us(call, repeats=20):
    """Median of the GPU times of `repeats` calls, the L2 cache flushed before each."""
    flush = torch.empty(2**26, dtype=torch.int32, device="cuda")
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end))
    return statistics.median(times)


def launch_us(count=1000):
    """From one launch of an empty kernel to the next, on the CPU."""
    small = torch.zeros(1, device="cuda")
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    small.add_(1)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(count):
        small.add_(1)
    end.record()
    end.synchronize()
    return 1e3 * begin.elapsed_time(end) / count


def product_rows(products, row):
    for p in products:
        a = torch.randn(p.m, p.k, dtype=torch.bfloat16, device="cuda")
        b = torch.randn(p.n, p.k, dtype=torch.bfloat16, device="cuda")
        if p.role == "input_gradient":
            b = b.t().contiguous().t()
        if p.role == "weight_gradient":
            a, b = a.t().contiguous().t(), b.t().contiguous().t()
        us = time_us(lambda: torch.mm(a, b.t()))
        yield row(kernel="matmul", m=p.m, n=p.n, k=p.k, b=1, layout=shapes.LAYOUT[p.role],
                  accumulate="False", time_us=f"{us:.3f}",
                  tflops=f"{2e-6 * p.m * p.n * p.k / us:.2f}", impl="torch.mm", where=p.name)


def attention_rows(case, row):
    m = case.model
    heads = m.heads // case.tp
    make = lambda: torch.randn(case.micro_batch, heads, case.sequence, m.head_dim,
                               dtype=torch.bfloat16, device="cuda", requires_grad=True)
    q, k, v = make(), make(), make()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    for backend, impl in ((SDPBackend.FLASH_ATTENTION, "FlashAttention-2"),
                          (SDPBackend.CUDNN_ATTENTION, "cuDNN")):
        with sdpa_kernel(backend):
            call = lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            try:
                out = call()
            except RuntimeError:
                continue  # this build or GPU has no such kernel
            gradient = torch.randn_like(out)
            backward = lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)
            for direction, us in (("fwd", time_us(call)), ("bwd", time_us(backward))):
                yield row(kernel="attention", batch=case.micro_batch, seq=case.sequence,
                          heads=heads, kv_heads=heads, head_dim=m.head_dim, v_head_dim=m.head_dim,
                          causal=1, direction=direction, time_us=f"{us:.3f}", impl=impl,
                          where=case.name)


def pass_rows(case, row):
    """Kernels that memory binds: how many bytes they move is stated with each."""
    hidden, shard = case.model.hidden, case.shard
    x = torch.randn(shard, hidden, dtype=torch.bfloat16, device="cuda")
    weight = torch.ones(hidden, dtype=torch.bfloat16, device="cuda")
    stream = shapes.ELEMENT * shard * hidden
    up = torch.randn(case.tokens, 2 * case.ffn, dtype=torch.bfloat16, device="cuda")
    wide = shapes.ELEMENT * case.tokens * case.ffn
    gate, value = up.chunk(2, -1)
    elements = 1 << 27
    state = [torch.zeros(elements, device="cuda") for _ in range(4)]
    step = [torch.ones((), device="cuda")]
    adam = lambda: torch._fused_adam_(state[:1], state[1:2], state[2:3], state[3:], [], step,
                                      lr=1e-4, beta1=0.9, beta2=0.95, weight_decay=0.1, eps=1e-8,
                                      amsgrad=False, maximize=False)
    calls = [("norm", lambda: functional.rms_norm(x, (hidden,), weight), 2 * stream, "rms_norm"),
             ("elementwise", lambda: torch.add(x, x), 3 * stream, "add"),
             ("elementwise", lambda: gate * value, 3 * wide, "product of halves"),
             ("copy", lambda: x.clone(), 2 * stream, "clone"),
             ("optimizer", adam, 28 * elements, "fused Adam, fp32")]
    for kernel, call, moved, name in calls:
        yield row(kernel=kernel, time_us=f"{time_us(call):.3f}", bytes=moved, impl="torch",
                  where=name)


def kernels(cases, path, source):
    gpu = torch.cuda.get_device_name()

    def row(**cells):
        return dict({"source": source, "trust": "measured here", "gpu": gpu, "dtype": "bf16"},
                    **cells)

    seen = set()
    with open(path, "w", newline="") as file:
        out = csv.DictWriter(file, GEMM_COLUMNS, restval="", lineterminator="\n")
        out.writeheader()
        for case in cases:
            products = [p for p in shapes.layer_products(case) + shapes.head_products(case)
                        if (p.role, p.m, p.n, p.k) not in seen]
            seen |= {(p.role, p.m, p.n, p.k) for p in products}
            for cells in product_rows(products, row):
                out.writerow(cells)
            for cells in attention_rows(case, row):
                out.writerow(cells)
            for cells in pass_rows(case, row):
                out.writerow(cells)
        out.writerow(row(kernel="launch", time_us=f"{launch_us():.3f}", where="empty kernel"))


def memory(case, folder, source):
    """Two steps (the first creates the optimizer's state) under the memory recorder."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.memory._record_memory_history(max_entries=1 << 22, stacks="python")
    stage = Stage(case, "cuda")
    stage.step()
    stage.step()
    torch.cuda.synchronize()
    pickle = os.path.join(folder, case.name + ".pickle")
    torch.cuda.memory._dump_snapshot(pickle)
    trace = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    torch.cuda.memory._record_memory_history(enabled=None)
    with open(os.path.join(folder, case.name + ".events.csv"), "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["event", "action", "bytes", "stream", "function"])
        for i, entry in enumerate(trace):
            frames = [f["name"] for f in entry.get("frames", ()) if "capture" in f["filename"]]
            out.writerow([i, entry["action"], entry["size"], entry["stream"],
                          frames[0] if frames else ""])
    gib = lambda bytes_: f"{bytes_ / GIB:.4f}"
    m = case.model
    total = torch.cuda.get_device_properties(0).total_memory
    row = dict(row_id=case.name, source_group="capture", source=source, trust="measured here",
               model=f"{m.name}-{case.layers}layers", layers=case.layers * case.stages,
               hidden=m.hidden, heads=m.heads, kv_heads=m.kv_heads, ffn=m.ffn, vocab=m.vocab,
               seq=case.sequence, gpu=torch.cuda.get_device_name(), gpu_mem_gb=round(total / 1e9),
               n_gpus=case.tp * case.stages, tp=case.tp, pp=case.stages, vp=1, dp=1, cp=1, ep=1,
               sp=int(case.tp > 1), zero="0", mbs=case.micro_batch,
               n_microbatch=case.microbatches, recompute=case.recompute, precision="bf16",
               rank=case.stage * case.tp, pp_stage=case.stage,
               max_alloc_gib=gib(torch.cuda.max_memory_allocated()),
               max_reserved_gib=gib(torch.cuda.max_memory_reserved()), oom=0,
               notes="one stage on one GPU, no communication")
    return stage, row


def profile(stage, path):
    """The third step under the profiler, compressed."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        with torch.profiler.record_function("ProfilerStep#3"):
            stage.step()
            torch.cuda.synchronize()
    profiler.export_chrome_trace(path + ".json")
    with open(path + ".json", "rb") as plain, gzip.open(path, "wb") as packed:
        shutil.copyfileobj(plain, packed)
    os.remove(path + ".json")


def capture(cases, folder):
    """Everything. A case that does not fit is a row with oom 1."""
    source = f"capture on {torch.cuda.get_device_name()}, PyTorch {torch.__version__}"
    kernels(cases, os.path.join(folder, "gemm.csv"), source)
    with open(os.path.join(folder, "memory.csv"), "w", newline="") as file:
        out = csv.DictWriter(file, MEMORY_COLUMNS, restval="", lineterminator="\n")
        out.writeheader()
        for case in cases:
            print(f"{case.name} ...", flush=True)
            try:
                stage, row = memory(case, folder, source)
                profile(stage, os.path.join(folder, case.name + ".trace.json.gz"))
            except torch.cuda.OutOfMemoryError:
                torch.cuda.memory._record_memory_history(enabled=None)
                row = dict(row_id=case.name, source_group="capture", source=source, oom=1)
            out.writerow(row)
            stage = None
            torch.cuda.empty_cache()
