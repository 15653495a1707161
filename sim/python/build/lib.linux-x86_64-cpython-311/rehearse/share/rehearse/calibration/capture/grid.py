#!/usr/bin/env python3
"""grid.py — kernel times of one GPU over the shapes that training runs: products of 16 and 8
bits, attention, passes over memory; what the host and the driver take; what stays outside PyTorch.

    grid.py --out FOLDER [--only SECTION]... [--scale X]    needs a GPU; X times the seconds
    grid.py --list                                          sections, products, attentions

Shapes: shapes.py's, of the models and degrees below.
"""

import argparse
import os
import random
import sys
import time
import traceback

import shapes

MODELS = {  # hidden, MLP, heads, key-value heads, gated: products of published dense models
    "7b": (4096, 11008, 32, 32, True),
    "8b": (4096, 14336, 32, 8, True),
    "13b": (5120, 13824, 40, 40, True),
    "20b": (6144, 24576, 48, 48, False),
    "70b": (8192, 28672, 64, 8, True),
    "175b": (12288, 49152, 96, 96, False),
    "405b": (16384, 53248, 128, 8, True),
}
DEGREES = (1, 2, 4, 8)
TOKENS = (1024, 2048, 4096, 8192, 16384)


def products():
    """(name, role, m, n, k) of all linear modules, each shape once, in an order that a time limit
    may cut anywhere."""
    found = {}
    for model, (hidden, ffn, heads, kv, gated) in MODELS.items():
        head = hidden // heads
        for tp in DEGREES:
            if heads % tp or kv % tp or (hidden >= 12288 and tp < 4):
                continue
            modules = {"qkv": ((heads + 2 * kv) * head // tp, hidden),
                       "projection": (hidden, hidden // tp),
                       "fc1": ((2 if gated else 1) * ffn // tp, hidden),
                       "fc2": (hidden, ffn // tp)}
            for tokens in TOKENS:
                for module, (n, k) in modules.items():
                    name = f"{model} tp{tp} {module}"
                    for role, shape in (("forward", (tokens, n, k)),
                                        ("input_gradient", (tokens, k, n)),
                                        ("weight_gradient", (n, k, tokens))):
                        found.setdefault((role,) + shape, name)
    rows = [(name,) + key for key, name in found.items()]
    for tokens in (2048, 8192):  # output layers: padded, in parts, and not padded at all
        for vocab in (128256, 32000, 16032, 50257, 32001):
            for role, shape in (("forward", (tokens, vocab, 4096)),
                                ("input_gradient", (tokens, 4096, vocab)),
                                ("weight_gradient", (vocab, 4096, tokens))):
                rows.append((f"head {vocab}", role) + shape)
    random.Random(1).shuffle(rows)
    return rows


def attentions():
    """(batch, query, key, heads, kv_heads, head_dim, causal)."""
    rows = []
    for causal in (True, False):
        for head, heads in ((128, 16), (64, 32), (128, 8), (256, 8), (96, 16)):
            for seq in (512, 1024, 2048, 4096, 8192, 16384, 32768):
                batch = max(1, 8192 // seq) if head == 128 and heads == 16 else max(1, 16384 // seq)
                if batch * heads * seq * seq * head > 32 * 2**30 * 128:
                    continue
                rows.append((batch, seq, seq, heads, heads, head, causal))
    for seq in (2048, 4096, 8192, 16384):
        for heads, kv in ((32, 8), (8, 1), (16, 2)):
            rows.append((1, seq, seq, heads, kv, 128, True))
        for heads in (4, 8, 32):
            rows.append((1, seq, seq, heads, heads, 128, True))
        rows.append((1, seq // 2, seq // 2, 16, 16, 128, False))
        rows.append((1, seq // 2, seq, 16, 16, 128, False))  # halves of a ring
    rows = list(dict.fromkeys(rows))
    random.Random(2).shuffle(rows)
    return rows


def gpu_name():
    import torch
    return torch.cuda.get_device_name().removeprefix("NVIDIA ")


class Deadline:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def passed(self):
        return time.monotonic() > self.end


# -- sections ----------------------------------------------------------------------------------


def section_products(table, deadline):
    import torch
    from timing import sets_of, time_us
    for name, role, m, n, k in products():
        if deadline.passed():
            break
        calls = []
        for _ in range(sets_of(2 * (m * k + n * k + m * n))):
            a = torch.randn(m, k, dtype=torch.bfloat16, device="cuda")
            b = torch.randn(n, k, dtype=torch.bfloat16, device="cuda")
            if role != "forward":
                b = b.t().contiguous().t()
            if role == "weight_gradient":
                a = a.t().contiguous().t()
            out = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
            calls.append(lambda a=a, b=b, out=out: torch.mm(a, b.t(), out=out))
        us = time_us(calls)
        table.add(kernel="matmul", dtype="bf16", m=m, n=n, k=k, layout=shapes.LAYOUT[role],
                  accumulate="False", time_us=f"{us:.3f}",
                  impl="torch.mm", where=name)


def section_accumulated(table, deadline):
    """Weight gradients added to an fp32 buffer, as gradient accumulation fusion does."""
    import torch
    from timing import sets_of, time_us
    for name, role, m, n, k in products():
        if role != "weight_gradient":
            continue
        if deadline.passed():
            break
        calls = []
        for _ in range(sets_of(2 * (m * k + n * k) + 4 * m * n)):
            a = torch.randn(k, m, dtype=torch.bfloat16, device="cuda")
            b = torch.randn(k, n, dtype=torch.bfloat16, device="cuda")
            out = torch.zeros(m, n, dtype=torch.float32, device="cuda")
            calls.append(lambda a=a, b=b, out=out:
                         torch.addmm(out, a.t(), b, out_dtype=torch.float32, out=out))
        us = time_us(calls)
        table.add(kernel="matmul", dtype="bf16", m=m, n=n, k=k, layout="NT",
                  accumulate="True", time_us=f"{us:.3f}",
                  impl="torch.addmm", where=name)


def section_products8(table, deadline):
    import torch
    from timing import sets_of, time_us
    one = torch.ones((), device="cuda")
    for name, role, m, n, k in products():
        if deadline.passed():
            break
        if m % 16 or n % 16 or k % 16:
            continue
        calls = []
        for _ in range(sets_of(m * k + n * k + 2 * m * n)):
            a = torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn)
            b = torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn)
            calls.append(lambda a=a, b=b: torch._scaled_mm(
                a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True))
        us = time_us(calls)
        table.add(kernel="matmul", dtype="fp8", m=m, n=n, k=k, layout="TN",
                  accumulate="False", time_us=f"{us:.3f}",
                  impl="torch._scaled_mm", where=name, notes=role)


def section_sustained(table, deadline):
    """Products and attention back to back for seconds: what the power limit leaves."""
    import torch
    import torch.nn.functional as functional
    import pynvml
    from timing import elapsed_us, time_us
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    bf16 = dict(dtype=torch.bfloat16, device="cuda")
    work = []
    for m, n, k in ((8192, 8192, 8192), (8192, 28672, 4096), (4096, 7168, 8192),
                    (2048, 4096, 14336), (16384, 6144, 4096)):
        a, b = torch.randn(m, k, **bf16), torch.randn(n, k, **bf16)
        work.append(("matmul", "bf16", (m, n, k), 2 * m * n * k, lambda a=a, b=b: a @ b.t()))
    one = torch.ones((), device="cuda")
    for m, n, k in ((8192, 8192, 8192), (8192, 28672, 4096)):
        a, b = (torch.randn(r, k, device="cuda").to(torch.float8_e4m3fn) for r in (m, n))
        work.append(("matmul", "fp8", (m, n, k), 2 * m * n * k, lambda a=a, b=b: torch._scaled_mm(
            a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)))
    q, key, v = (torch.randn(1, 16, 8192, 128, **bf16) for _ in range(3))
    from torch.nn.attention import SDPBackend, sdpa_kernel
    def attend(backend):
        def call():
            with sdpa_kernel(backend):
                functional.scaled_dot_product_attention(q, key, v, is_causal=True)
        return call
    flops = 2 * 8192 * 8192 * 128 * 16
    work.append(("attention cuDNN", "bf16", (16, 8192, 128), flops,
                 attend(SDPBackend.CUDNN_ATTENTION)))
    work.append(("attention FlashAttention-2", "bf16", (16, 8192, 128), flops,
                 attend(SDPBackend.FLASH_ATTENTION)))
    big = torch.randn(1 << 29, **bf16)
    work.append(("copy", "bf16", (big.numel(),), 0, lambda: big.clone()))
    for kernel, dtype, shape, flops, call in work:
        if deadline.passed():
            break
        time.sleep(1.5)
        burst = time_us([call], target_us=2000, rounds=2)
        begin, tail, notes = time.monotonic(), 0, []
        while time.monotonic() - begin < 4:
            tail = elapsed_us([call], max(1, int(2e5 / burst)))
            clock = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
            power = pynvml.nvmlDeviceGetPowerUsage(handle) / 1000
            notes.append(f"{time.monotonic() - begin:.1f}s {tail:.1f}us {clock}MHz {power:.0f}W")
        table.add(kernel=kernel, dtype=dtype, shape=" ".join(map(str, shape)),
                  burst_us=f"{burst:.2f}", sustained_us=f"{tail:.2f}",
                  burst_tflops=f"{1e-6 * flops / burst:.1f}",
                  sustained_tflops=f"{1e-6 * flops / tail:.1f}", notes="; ".join(notes))


def section_attention(table, deadline):
    import torch
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from timing import sets_of, time_us
    backends = ((SDPBackend.CUDNN_ATTENTION, "cuDNN"),
                (SDPBackend.FLASH_ATTENTION, "FlashAttention-2"))
    for batch, query, keys, heads, kv, head, causal in attentions():
        if deadline.passed():
            break
        for backend, impl in backends:
            try:
                forward, backward = [], []
                size = 2 * batch * head * (2 * query * heads + 2 * keys * kv)
                for _ in range(min(3, sets_of(size))):
                    make = lambda s, h: torch.randn(batch, s, h, head, dtype=torch.bfloat16,
                                                    device="cuda").transpose(1, 2).requires_grad_()
                    q, k, v = make(query, heads), make(keys, kv), make(keys, kv)

                    def call(q=q, k=k, v=v):
                        return functional.scaled_dot_product_attention(
                            q, k, v, is_causal=causal, enable_gqa=kv != heads)

                    with sdpa_kernel(backend):
                        out = call()
                    gradient = torch.randn_like(out)
                    forward.append(call)
                    backward.append(lambda out=out, q=q, k=k, v=v, g=gradient: torch.autograd.grad(
                        out, (q, k, v), g, retain_graph=True))
                with sdpa_kernel(backend):
                    times = (("fwd", time_us(forward)), ("bwd", time_us(backward)))
            except RuntimeError as problem:
                print(f"  {impl} {batch} {query} {keys} {heads} {kv} {head}: "
                      f"{str(problem).splitlines()[0]}")
                continue
            for direction, us in times:
                table.add(kernel="attention", dtype="bf16", batch=batch, seq=query, kv_seq=keys,
                          heads=heads, kv_heads=kv, head_dim=head,
                          causal=int(causal), direction=direction, time_us=f"{us:.3f}", impl=impl)


def passes(rows, hidden):
    """(kernel, call maker, bytes, name): passes over rows x hidden elements of bf16."""
    import torch
    import torch.nn.functional as functional
    size = rows * hidden
    bf16 = dict(dtype=torch.bfloat16, device="cuda")

    def fresh(*shape):
        return torch.randn(*shape, **bf16)

    def norm(kind, backward):
        def make():
            x = fresh(rows, hidden).requires_grad_(backward)
            w = torch.ones(hidden, **bf16).requires_grad_(backward)
            bias = torch.zeros(hidden, **bf16).requires_grad_(backward)
            call = ((lambda: functional.layer_norm(x, (hidden,), w, bias)) if kind == "layer" else
                    (lambda: functional.rms_norm(x, (hidden,), w)))
            if not backward:
                return call
            out, grad = call(), fresh(rows, hidden)
            inputs = (x, w, bias) if kind == "layer" else (x, w)
            return lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True)
        return make

    def unary(op):
        def make():
            x = fresh(rows, hidden)
            return lambda: op(x)
        return make

    def binary(op):
        def make():
            x, y = fresh(rows, hidden), fresh(rows, hidden)
            return lambda: op(x, y)
        return make

    def gelu_backward():
        x, g = fresh(rows, hidden), fresh(rows, hidden)
        return lambda: torch.ops.aten.gelu_backward(g, x, approximate="tanh")

    def dropout():
        x = fresh(rows, hidden)
        return lambda: torch.native_dropout(x, 0.1, True)

    def into_fp32():
        x, out = fresh(rows, hidden), torch.zeros(rows, hidden, device="cuda")
        return lambda: out.add_(x)

    def zero():
        x = fresh(rows, hidden)
        return lambda: x.zero_()

    def transposed():
        x = fresh(rows, hidden)
        return lambda: x.t().contiguous()

    def softmax_backward():
        p, g = torch.softmax(fresh(rows, hidden), -1), fresh(rows, hidden)
        return lambda: torch._softmax_backward_data(g, p, -1, torch.bfloat16)

    return [
        ("norm", norm("layer", False), 4 * size, "layer_norm forward"),
        ("norm", norm("layer", True), 6 * size, "layer_norm backward"),
        ("norm", norm("rms", False), 4 * size, "rms_norm forward"),
        ("elementwise", binary(torch.add), 6 * size, "add"),
        ("elementwise", unary(lambda x: functional.gelu(x, approximate="tanh")), 4 * size,
         "gelu forward"),
        ("elementwise", gelu_backward, 6 * size, "gelu backward"),
        ("elementwise", dropout, 5 * size, "dropout"),
        ("elementwise", into_fp32, 10 * size, "added to fp32"),
        ("copy", unary(torch.clone), 4 * size, "clone"),
        ("copy", unary(lambda x: x.float()), 6 * size, "bf16 to fp32"),
        ("copy", transposed, 4 * size, "transposed"),
        ("copy", zero, 2 * size, "zero_"),
        ("softmax", unary(lambda x: torch.softmax(x, -1)), 4 * size, "softmax forward"),
        ("softmax", softmax_backward, 6 * size, "softmax backward"),
        ("reduction", unary(lambda x: x.sum()), 2 * size, "sum"),
        ("reduction", unary(lambda x: torch.linalg.vector_norm(x, dtype=torch.float32)), 2 * size,
         "norm of a gradient"),
        ("reduction", unary(lambda x: x.sum(0)), 2 * size, "sum of columns"),
    ]


def section_passes(table, deadline):
    import torch
    from timing import sets_of, time_us
    sizes = [(256, 4096), (1024, 4096), (2048, 4096), (4096, 4096), (8192, 4096), (8192, 8192),
             (16384, 8192), (8192, 28672), (32768, 16384), (2048, 12288), (1024, 16384)]
    for rows, hidden in sizes:
        for kernel, make, bytes_, name in passes(rows, hidden):
            if deadline.passed():
                return
            us = time_us([make() for _ in range(sets_of(bytes_))], target_us=2000)
            table.add(kernel=kernel, dtype="bf16", m=rows, n=hidden, time_us=f"{us:.3f}",
                      bytes=bytes_, impl="torch", where=name)
    for log in (20, 23, 26, 28, 29):
        elements = 1 << log
        state = [torch.zeros(elements, device="cuda") for _ in range(4)]
        step = [torch.ones((), device="cuda")]
        adam = lambda: torch._fused_adamw_(state[:1], state[1:2], state[2:3], state[3:], [], step,
                                           lr=1e-4, beta1=0.9, beta2=0.95, weight_decay=0.1,
                                           eps=1e-8, amsgrad=False, maximize=False)
        table.add(kernel="optimizer", dtype="fp32", m=elements, time_us=f"{time_us([adam]):.3f}",
                  bytes=28 * elements, impl="torch", where="fused AdamW, fp32")
    for vocab, hidden, tokens in ((128256, 4096, 8192), (32000, 4096, 4096), (128256, 8192, 2048)):
        weight = torch.randn(vocab, hidden, dtype=torch.bfloat16, device="cuda")
        ids = torch.randint(vocab, (tokens,), device="cuda")
        out = torch.nn.functional.embedding(ids, weight)
        look = lambda: torch.nn.functional.embedding(ids, weight)
        back = lambda: torch.ops.aten.embedding_dense_backward(out, ids, vocab, -1, False)
        table.add(kernel="embedding", dtype="bf16", m=tokens, n=hidden, bytes=4 * tokens * hidden,
                  time_us=f"{time_us([look]):.3f}", impl="torch", where=f"lookup of {vocab}")
        table.add(kernel="embedding", dtype="bf16", m=tokens, n=hidden,
                  bytes=2 * vocab * hidden + 6 * tokens * hidden,
                  time_us=f"{time_us([back]):.3f}", impl="torch", where=f"gradient of {vocab}")


def section_host(table, deadline):
    """What one thread of Python needs to issue, what the driver needs, how deep the queue is."""
    import torch
    import torch.nn.functional as functional
    table.add(what="CPU", value=cpu_model(), unit="")
    small = torch.zeros(8, device="cuda")
    bf16 = dict(dtype=torch.bfloat16, device="cuda")
    x, w = torch.randn(64, 64, **bf16), torch.randn(64, 64, **bf16)
    wide = torch.ones(64, **bf16)
    graded = x.clone().requires_grad_()

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return grad

    event, other = torch.cuda.Event(), torch.cuda.Stream()

    def per_call(call, count=400):
        for _ in range(20):
            call()
        best = 1e9
        for _ in range(5):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(count):
                call()
            best = min(best, (time.perf_counter() - begin) / count)
            torch.cuda.synchronize()
        return 1e6 * best

    calls = {
        "add_": lambda: small.add_(1), "mm": lambda: torch.mm(x, w),
        "linear": lambda: functional.linear(x, w), "add": lambda: x + w,
        "linear with gradient": lambda: functional.linear(graded, w),
        "rms_norm": lambda: functional.rms_norm(x, (64,), wide),
        "autograd.Function": lambda: Nothing.apply(graded),
        "empty": lambda: torch.empty(1 << 20, device="cuda"),
        "record event": lambda: event.record(), "wait event": lambda: other.wait_event(event),
    }
    for name, call in calls.items():
        table.add(what=f"issue {name}", value=f"{per_call(call, 200):.3f}", unit="us")
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(200):
        torch.cuda.synchronize()
    table.add(what="synchronize an idle GPU",
              value=f"{1e6 * (time.perf_counter() - begin) / 200:.3f}", unit="us")
    waits = []
    for _ in range(50):
        small.add_(1)
        begin = time.perf_counter()
        small.sum().item()
        waits.append(time.perf_counter() - begin)
    table.add(what="sum().item() of 8 elements", value=f"{1e6 * sorted(waits)[25]:.3f}", unit="us")
    # From one empty kernel to the next that depends on it: launched, and replayed from a graph.
    for count in (2000,):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                small.add_(1)
        graph.replay()
        torch.cuda.synchronize()
        b, e = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        b.record()
        graph.replay()
        e.record()
        e.synchronize()
        table.add(what="dependent small kernels, graph",
                  value=f"{1e3 * b.elapsed_time(e) / count:.3f}", unit="us")
        torch.cuda._sleep(int(6e7))
        b.record()
        for _ in range(900):
            small.add_(1)
        e.record()
        e.synchronize()
        table.add(what="dependent small kernels, queued",
                  value=f"{1e3 * b.elapsed_time(e) / 900:.3f}", unit="us")
    # The queue: the GPU spins, the CPU launches until it is held.
    for name, launch in (("kernels", lambda: small.add_(1)),
                         ("kernels with an event each", lambda: (small.add_(1), event.record())),
                         ("kernels on two streams", lambda: (small.add_(1), other_add(other)))):
        torch.cuda.synchronize()
        torch.cuda._sleep(int(1.5e9))
        last, depth = time.perf_counter(), None
        for i in range(6000):
            launch()
            now = time.perf_counter()
            if now - last > 0.02:
                depth = i
                break
            last = now
        table.add(what=f"launch queue, {name}", value=depth, unit="launches")
        torch.cuda.synchronize()
    for mib in (2, 20, 64, 256, 1024, 4096, 16384):
        taken, freed = [], []
        for _ in range(3):
            torch.cuda.empty_cache()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            held = torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
            taken.append(time.perf_counter() - begin)
            del held
            begin = time.perf_counter()
            torch.cuda.empty_cache()
            freed.append(time.perf_counter() - begin)
        table.add(what=f"cudaMalloc of {mib} MiB", value=f"{1e6 * min(taken):.1f}", unit="us")
        table.add(what=f"cudaFree of {mib} MiB", value=f"{1e6 * min(freed):.1f}", unit="us")
    for mib in (1, 64, 1024):
        host = torch.empty(mib << 20, dtype=torch.uint8, pin_memory=True)
        there = torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
        for name, call in (("host to GPU", lambda: there.copy_(host, non_blocking=True)),
                           ("GPU to host", lambda: host.copy_(there, non_blocking=True))):
            from timing import elapsed_us
            us = min(elapsed_us([call], 5) for _ in range(3))
            table.add(what=f"{name}, {mib} MiB", value=f"{(mib << 20) / us / 1e3:.2f}", unit="GB/s")


def other_add(stream):
    import torch
    with torch.cuda.stream(stream):
        stream.__dict__.setdefault("cell", torch.zeros(8, device="cuda")).add_(1)


def cpu_model():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "?"


COPIER = r"""
extern "C" __global__ void copier(const float4* a, float4* b, long n, volatile int* stop,
                                  unsigned long long* moved, unsigned long long limit_ns) {
  // Copies until it is told to stop, or for `limit_ns`: stands for the blocks of a collective.
  unsigned long long begin, now, count = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  const long stride = (long)gridDim.x * blockDim.x;
  for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x;; i += stride) {
    if (i >= n) i -= n;
    b[i] = a[i];
    if ((++count & 255) == 0) {
      asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
      if (*stop || now - begin > limit_ns) break;
    }
  }
  atomicAdd(moved, count);
  atomicMax(moved + 1, now - begin);
}
"""


def section_beside(table, deadline):
    """Kernels beside a copy that holds some SMs, as a collective does: rate of both."""
    import cupy
    import torch
    import torch.nn.functional as functional
    from timing import elapsed_us, time_us
    kernel = cupy.RawKernel(COPIER, "copier")
    bf16 = dict(dtype=torch.bfloat16, device="cuda")
    a, b = torch.randn(8192, 4096, **bf16), torch.randn(14336, 4096, **bf16)
    c, d = torch.randn(4096, 8192, **bf16), torch.randn(1280, 8192, **bf16)
    x, y = torch.randn(8192, 8192, **bf16), torch.randn(8192, 8192, **bf16)
    q, k, v = (torch.randn(1, 16, 8192, 128, **bf16) for _ in range(3))
    weight = torch.ones(8192, **bf16)
    work = {"matmul 8192 14336 4096": lambda: a @ b.t(), "matmul 4096 1280 8192": lambda: c @ d.t(),
            "attention 16 8192 128": lambda: functional.scaled_dot_product_attention(
                q, k, v, is_causal=True),
            "add 8192 8192": lambda: x + y,
            "layer_norm 8192 8192": lambda: functional.layer_norm(x, (8192,), weight)}
    source = torch.randn(1 << 27, device="cuda")
    sink = torch.empty_like(source)
    side, third = torch.cuda.Stream(), torch.cuda.Stream()
    stop = torch.zeros(1, dtype=torch.int32, device="cuda")
    moved = torch.zeros(2, dtype=torch.int64, device="cuda")

    def beside(blocks, threads, measure):
        """What `measure` gives beside the copy, and the copy's GB/s (read + written)."""
        stop.zero_()
        moved.zero_()
        torch.cuda.synchronize()
        with cupy.cuda.ExternalStream(side.cuda_stream):
            kernel((blocks,), (threads,), (source.data_ptr(), sink.data_ptr(),
                                           source.numel() // 4, stop.data_ptr(), moved.data_ptr(),
                                           1_500_000_000))
        time.sleep(0.002)
        result = measure()
        with torch.cuda.stream(third):
            stop.fill_(1)
        torch.cuda.synchronize()
        count, nanoseconds = moved.tolist()
        return result, 32 * count / nanoseconds

    beside(8, 512, lambda: time.sleep(0.01))  # everything is loaded
    for name, call in work.items():
        base = time_us([call])
        table.add(what=name, blocks=0, threads=0, us=f"{base:.2f}")
        for blocks, threads in ((8, 512), (16, 512), (24, 512), (32, 512), (16, 128)):
            if deadline.passed():
                return
            repeats = max(5, int(8000 / base))
            us, rate = beside(blocks, threads, lambda: min(elapsed_us([call], repeats)
                                                           for _ in range(3)))
            _, alone = beside(blocks, threads, lambda: time.sleep(0.03))
            table.add(what=name, blocks=blocks, threads=threads, us=f"{us:.2f}",
                      copy_gb_s=f"{rate:.0f}", copy_alone_gb_s=f"{alone:.0f}")


def section_outside(table, deadline):
    """Memory in use less what PyTorch's allocator reserved, after each library's first use."""
    import torch
    import torch.nn.functional as functional
    def say(what):
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        outside = total - free - torch.cuda.memory_reserved()
        table.add(what=what, outside_mib=f"{outside / 2**20:.1f}",
                  reserved_mib=f"{torch.cuda.memory_reserved() / 2**20:.1f}",
                  total_mib=f"{total / 2**20:.1f}")
    torch.cuda.init()
    torch.cuda.current_stream()
    say("context")
    x = torch.zeros(1 << 20, device="cuda")
    say("first tensor")
    x = torch.randn(4096, 4096, dtype=torch.bfloat16, device="cuda")
    x.add_(1); x.float().sum(); torch.softmax(x, -1)
    say("random, elementwise, reduction, softmax kernels")
    (x @ x)
    say("cuBLAS product")
    one = torch.ones((), device="cuda")
    f = x.to(torch.float8_e4m3fn)
    torch._scaled_mm(f, f.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    say("cuBLASLt product of 8 bits")
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q, k, v = (torch.randn(1, 8, 2048, 128, dtype=torch.bfloat16, device="cuda",
                           requires_grad=True) for _ in range(3))
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        with sdpa_kernel(backend):
            functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
        say(f"{backend.name} forward and backward")
    w = torch.ones(4096, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    functional.layer_norm(x, (4096,), w).sum().backward()
    state = [torch.zeros(1 << 20, device="cuda") for _ in range(4)]
    torch._fused_adamw_(state[:1], state[1:2], state[2:3], state[3:], [],
                        [torch.ones((), device="cuda")], lr=1e-4, beta1=0.9, beta2=0.95,
                        weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)
    say("norm, Adam")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x @ x
    say("product on a second stream")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    torch.distributed.init_process_group("nccl", rank=0, world_size=1,
                                         device_id=torch.device("cuda:0"))
    y = torch.ones(1 << 24, device="cuda")
    torch.distributed.all_reduce(y)
    say(f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}, communicator of one rank")
    groups = [torch.distributed.new_group([0]) for _ in range(3)]
    for i, group in enumerate(groups):
        torch.distributed.all_reduce(y, group=group)
        say(f"communicator {i + 2} of one rank")
    call = lambda: torch.distributed.all_reduce(y[:8])
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(300):
        call()
    issue = 1e6 * (time.perf_counter() - begin) / 300
    table.add(what=f"issue of all_reduce, one rank: {issue:.2f} us")
    compiled = torch.compile(lambda a, b: functional.silu(a) * b)
    compiled(x, x)
    say("torch.compile, one kernel")
    torch.distributed.destroy_process_group()


SUSTAINED = ["kernel", "dtype", "shape", "burst_us", "sustained_us", "burst_tflops",
             "sustained_tflops", "notes"]
SECTIONS = {  # table, columns (None: those of gemm.csv), seconds at most
    "outside": (section_outside, ["what", "outside_mib", "reserved_mib", "total_mib"], 60),
    "host": (section_host, ["what", "value", "unit"], 60),
    "passes": (section_passes, None, 60),
    "attention": (section_attention, None, 120),
    "products": (section_products, None, 160),
    "accumulated": (section_accumulated, None, 60),
    "products8": (section_products8, None, 110),
    "beside": (section_beside, ["what", "blocks", "threads", "us", "copy_gb_s", "copy_alone_gb_s"],
               30),
    "sustained": (section_sustained, SUSTAINED, 70),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", metavar="FOLDER")
    parser.add_argument("--only", action="append", choices=list(SECTIONS), metavar="SECTION")
    parser.add_argument("--scale", type=float, default=1, help="of the seconds of each section")
    parser.add_argument("--list", action="store_true", help="print the sections")
    options = parser.parse_args()
    if options.list or not options.out:
        for name, (_, _, seconds) in SECTIONS.items():
            print(f"{name}: at most {seconds} s")
        print(f"{len(products())} products, {len(attentions())} attentions")
        return
    import subprocess
    if not options.only or len(options.only) > 1:
        # Each section is a process of its own: what one leaves on the GPU is not in the next.
        for name in options.only or SECTIONS:
            begin = time.monotonic()
            code = subprocess.call([sys.executable, __file__, "--out", options.out, "--only", name,
                                    "--scale", str(options.scale)])
            print(f"{name}: {time.monotonic() - begin:.0f} s, exit {code}", flush=True)
        return
    import torch
    from timing import COLUMNS, Table
    os.makedirs(options.out, exist_ok=True)
    name = options.only[0]
    section, columns, seconds = SECTIONS[name]
    always = {} if columns else {
        "source": f"rehearse/capture (PyTorch {torch.__version__}, CUDA {torch.version.cuda})",
        "trust": "measured", "gpu": gpu_name()}
    try:
        section(Table(os.path.join(options.out, name + ".csv"), columns or COLUMNS, **always),
                Deadline(seconds * options.scale))
    except Exception:
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
