#!/usr/bin/env python3
"""Measures one node for `rehearse calibrate`. `rehearse capture PLAN -o capture.py` writes this
file with the shapes of a plan; it needs PyTorch (2.4 or newer) and nothing else.

    python3 capture.py --out measured.json [--minutes 10]        one GPU
    torchrun --nproc-per-node 8 capture.py --out measured.json   and collectives on the node
    torchrun --nnodes 2 --nproc-per-node 8 ... capture.py ...    and over nodes
    python3 capture.py --list                                    what would be measured
    python3 capture.py --device cpu --out test.json              its form, without a GPU

TransformerEngine and flash-attn are measured where they are installed. Sections take turns in the
time that --minutes gives; what is measured before an error or the end of the time is kept.

A kernel is timed in a CUDA graph that repeats it, so that launches of the CPU never count. The GPU
rests between measurements; otherwise its power limit would set the clock. `sustained` repeats a
kernel for seconds and records clock and power."""

import argparse
import datetime
import json
import os
import socket
import statistics
import sys
import time

WORK = json.loads(r"""@WORK@""")
FORMAT = "rehearse capture 1"
CACHE = 160e6  # bytes of operands that no L2 cache of today holds
SIZES = [1 << shift for shift in range(16, 33, 2)]  # bytes of a collective


class Result:
    """Everything that was measured, one list for each section."""

    def __init__(self):
        self.lists, self.values, self.skipped = {}, {}, []

    def add(self, section, **cells):
        self.lists.setdefault(section, []).append(cells)

    def skip(self, what, why):
        self.skipped.append({"what": what, "why": str(why).splitlines()[0][:200]})

    def json(self, facts):
        return json.dumps({"format": FORMAT, **facts, **self.values, **self.lists,
                           "skipped": self.skipped}, indent=1)


class Machine:
    """The device, and how work on it is timed."""

    def __init__(self, torch, device):
        self.torch, self.device = torch, device
        self.gpu = device == "cuda"

    def synchronize(self):
        if self.gpu:
            self.torch.cuda.synchronize()

    def random(self, *shape, dtype=None):
        torch = self.torch
        dtype = dtype or torch.bfloat16
        if dtype.itemsize == 1:
            return torch.randn(*shape, device=self.device).to(dtype)
        return torch.randn(*shape, dtype=dtype, device=self.device)

    def seconds_of(self, call):
        """Seconds of one call, launches included."""
        self.synchronize()
        begin = time.perf_counter()
        call()
        self.synchronize()
        return time.perf_counter() - begin

    def graph_of(self, calls, repeats):
        torch = self.torch
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for call in calls:
                call()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(repeats):
                calls[i % len(calls)]()
        return graph.replay

    def time_us(self, calls, rest=True):
        """Microseconds of a call: the least of three means over calls that follow each other. Each
        call of `calls` does the same with operands of its own."""
        rough = min(self.seconds_of(call) for call in calls + calls)
        repeats = max(3, min(300, int(3e-3 / max(rough, 1e-6))))
        if self.gpu:
            run = self.graph_of(calls, repeats)
        else:
            def run():
                for i in range(repeats):
                    calls[i % len(calls)]()
        begin = time.monotonic()
        run()
        least = min(self.elapsed(run) for _ in range(3)) / repeats
        if rest and self.gpu:
            time.sleep(1.5 * (time.monotonic() - begin))
        return 1e6 * least

    def elapsed(self, run):
        if not self.gpu:
            return self.seconds_of(run)
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        return 1e-3 * begin.elapsed_time(end)

    def clock_and_power(self):
        """(MHz, W); None where the driver does not say."""
        def ask(call):
            try:
                return call()
            except Exception:  # pynvml is not installed, or the driver refuses
                return None
        power = ask(self.torch.cuda.power_draw) if self.gpu else None
        return ask(self.torch.cuda.clock_rate) if self.gpu else None, power and power / 1000


class Turn:
    """The share of the time that a section has."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def over(self):
        return time.monotonic() > self.end


def copies_for(bytes_):
    """How many sets of operands a measurement takes turns with."""
    return max(1, min(8, int(-(-CACHE // max(1, bytes_)))))


def product_call(machine, shape, dtype):
    torch = machine.torch
    m, n, k, role = shape["m"], shape["n"], shape["k"], shape["role"]
    a, b = machine.random(m, k, dtype=dtype), machine.random(n, k, dtype=dtype)
    if dtype.itemsize == 1:
        one = torch.ones((), device=machine.device)
        return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one,
                                        out_dtype=torch.bfloat16, use_fast_accum=True)
    if role != "forward":
        b = b.t().contiguous().t()
    if role == "weight_gradient":
        a = a.t().contiguous().t()
    out = torch.empty(m, n, dtype=dtype, device=machine.device)
    return lambda: torch.mm(a, b.t(), out=out)


def precisions(torch):
    """(name, type) of the products that are measured, those of the plan first."""
    all_ = {"bf16": torch.bfloat16, "fp16": torch.float16, "tf32": torch.float32}
    if hasattr(torch, "float8_e4m3fn"):
        all_["fp8"] = torch.float8_e4m3fn
    first = WORK["precision"]
    return sorted(all_.items(), key=lambda one: one[0] != first)


def section_products(machine, result, turn):
    torch = machine.torch
    torch.backends.cuda.matmul.allow_tf32 = True
    for name, dtype in precisions(torch):
        for shape in WORK["products"]:
            if turn.over():
                return
            if dtype.itemsize == 1 and any(shape[size] % 16 for size in "mnk"):
                continue
            bytes_ = dtype.itemsize * (shape["m"] * shape["k"] + shape["n"] * shape["k"])
            try:
                calls = [product_call(machine, shape, dtype) for _ in range(copies_for(bytes_))]
                result.add("products", dtype=name, us=machine.time_us(calls),
                           **{key: shape[key] for key in ("m", "n", "k", "role")})
            except (RuntimeError, NotImplementedError, AttributeError) as problem:
                result.skip(f"product {name} {shape['m']} {shape['n']} {shape['k']}", problem)


def section_grouped(machine, result, turn):
    """Products of experts: one call for all experts of a rank."""
    torch = machine.torch
    grouped = getattr(torch, "_grouped_mm", None)
    for shape in WORK["grouped"]:
        if turn.over():
            return
        if grouped is None:
            result.skip("grouped products", "this PyTorch has no torch._grouped_mm")
            return
        experts, m, n, k = (shape[key] for key in ("batch", "m", "n", "k"))
        try:
            a, b = machine.random(experts * m, k), machine.random(experts, k, n)
            ends = torch.arange(1, experts + 1, device=machine.device, dtype=torch.int32) * m
            result.add("grouped", dtype="bf16", batch=experts, m=m, n=n, k=k, role=shape["role"],
                       us=machine.time_us([lambda: grouped(a, b, offs=ends)]))
        except (RuntimeError, NotImplementedError) as problem:
            result.skip(f"grouped product {experts} x {m} {n} {k}", problem)


def section_sustained(machine, result, turn):
    """The largest products of the plan for seconds each: the rate that the power limit leaves."""
    if not machine.gpu:
        return
    largest = sorted(WORK["products"], key=lambda s: -s["m"] * s["n"] * s["k"])[:3]
    for shape in largest:
        if turn.over():
            return
        call = product_call(machine, shape, machine.torch.bfloat16)
        burst = machine.time_us([call])
        run = machine.graph_of([call], max(1, int(2e5 / burst)))
        begin, times, clocks, powers = time.monotonic(), [], [], []
        while time.monotonic() - begin < min(20, WORK["minutes"] * 2):
            times.append(machine.elapsed(run) / max(1, int(2e5 / burst)))
            clock, power = machine.clock_and_power()
            clocks.append(clock)
            powers.append(power)
        half = len(times) // 2
        result.add("sustained", dtype="bf16", burst_us=burst,
                   us=1e6 * statistics.median(times[half:]), clock_mhz=clocks[-1],
                   power_w=powers[-1], **{key: shape[key] for key in ("m", "n", "k", "role")})


def attention_backends(torch):
    from torch.nn.attention import SDPBackend
    return (("flash-attention-2", SDPBackend.FLASH_ATTENTION),
            ("cudnn", SDPBackend.CUDNN_ATTENTION))


def section_attention(machine, result, turn):
    torch = machine.torch
    if not WORK["attention"]:
        return
    from torch.nn.attention import sdpa_kernel
    for shape in WORK["attention"]:
        batch, heads, kv, head = (shape[k] for k in ("batch", "heads", "kv_heads", "head_dim"))
        for name, backend in attention_backends(torch):
            if turn.over():
                return
            q, k, v = (machine.random(batch, h, s, head).requires_grad_() for h, s in
                       ((heads, shape["query"]), (kv, shape["key"]), (kv, shape["key"])))

            def forward():
                return torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=shape["causal"], enable_gqa=kv != heads)

            try:
                with sdpa_kernel(backend):
                    out = forward()
                    gradient = torch.randn_like(out)
                    times = (("forward", machine.time_us([forward])),
                             ("backward", machine.time_us([lambda: torch.autograd.grad(
                                 out, (q, k, v), gradient, retain_graph=True)])))
            except (RuntimeError, TypeError) as problem:
                result.skip(f"attention {name} {batch} {heads} {shape['query']} {head}", problem)
                continue
            for direction, us in times:
                result.add("attention", impl=name, direction=direction, us=us, **shape)
        flash_attention(machine, result, shape)


def flash_attention(machine, result, shape):
    """The flash-attn package, where it is installed."""
    try:
        from flash_attn import flash_attn_func
    except ImportError:
        return
    torch = machine.torch
    q, k, v = (machine.random(shape["batch"], s, h, shape["head_dim"]).requires_grad_()
               for h, s in ((shape["heads"], shape["query"]), (shape["kv_heads"], shape["key"]),
                            (shape["kv_heads"], shape["key"])))
    call = lambda: flash_attn_func(q, k, v, causal=shape["causal"])
    out = call()
    gradient = torch.randn_like(out)
    back = lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)
    for direction, timed in (("forward", call), ("backward", back)):
        us = machine.time_us([timed])
        result.add("attention", impl="flash-attention-2", direction=direction, us=us, **shape)


def passes(machine, rows, hidden):
    """(kernel, call, bytes) of passes over rows x hidden elements of bf16."""
    torch, functional = machine.torch, machine.torch.nn.functional
    size = rows * hidden
    x, y = machine.random(rows, hidden), machine.random(rows, hidden)
    w = torch.ones(hidden, dtype=x.dtype, device=machine.device)
    wide = torch.zeros(rows, hidden, device=machine.device)
    table = machine.random(32000, hidden)
    index = torch.randint(0, 32000, (rows,), device=machine.device)
    yield "norm", lambda: functional.layer_norm(x, (hidden,), w), 4 * size
    yield "elementwise", lambda: torch.add(x, y), 6 * size
    yield "elementwise", lambda: functional.silu(x), 4 * size
    yield "elementwise", lambda: wide.add_(x), 10 * size
    yield "softmax", lambda: torch.softmax(x, -1), 4 * size
    yield "copy", lambda: x.clone(), 4 * size
    yield "copy", lambda: x.t().contiguous(), 4 * size
    yield "reduction", lambda: torch.linalg.vector_norm(x), 2 * size
    yield "embedding", lambda: table[index], 4 * size


def section_passes(machine, result, turn):
    for rows, hidden in WORK["passes"]:
        for kernel, call, bytes_ in passes(machine, rows, hidden):
            if turn.over():
                return
            result.add("passes", kernel=kernel, bytes=bytes_, us=machine.time_us([call]))
    torch = machine.torch
    for elements in (1 << 22, 1 << 24, 1 << 26):
        if turn.over() or not machine.gpu:
            return
        parameter = torch.zeros(elements, device=machine.device, requires_grad=True)
        parameter.grad = torch.ones_like(parameter)
        adam = torch.optim.AdamW([parameter], fused=True, capturable=True)
        result.add("passes", kernel="optimizer", bytes=28 * elements,
                   us=machine.time_us([adam.step]))


def section_host(machine, result, turn):
    """What the CPU and the driver take: fields `host` of a profile."""
    torch = machine.torch
    small = torch.zeros(1, device=machine.device)

    def issue_us(call, count=2000):
        machine.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            call()
        spent = time.perf_counter() - begin
        machine.synchronize()
        return 1e6 * spent / count

    for _ in range(2):  # the first round warms up
        kernel = issue_us(lambda: small.add_(1), 500)
    fields = {"host.kernel": kernel}
    if machine.gpu:
        event, stream = torch.cuda.Event(), torch.cuda.current_stream()
        fields["host.event"] = issue_us(lambda: event.record(stream))
        fields["host.synchronisation"] = issue_us(machine.synchronize, 200)
        size = []
        for mib in (20, 1024):
            torch.cuda.empty_cache()
            begin = time.perf_counter()
            block = torch.empty(mib << 20, dtype=torch.uint8, device=machine.device)
            machine.synchronize()
            size.append(1e6 * (time.perf_counter() - begin))
            del block
        fields["host.cuda_malloc"] = size[0]
        fields["host.cuda_malloc_per_gib"] = max(0.0, size[1] - size[0])
        begin = time.perf_counter()
        torch.cuda.empty_cache()
        fields["host.cuda_free"] = 1e6 * (time.perf_counter() - begin)
        result.add("facts", what="dependent small kernels in a graph",
                   us=machine.time_us([lambda: small.add_(1)]))
    for path, us in fields.items():
        result.add("fields", path=path, value=1e-6 * us)


def section_copies(machine, result, turn):
    torch = machine.torch
    for mib in (1, 64, 1024):
        if turn.over() or not machine.gpu:
            return
        for pinned in (True, False):
            host = torch.empty(mib << 20, dtype=torch.uint8, pin_memory=pinned)
            device = torch.empty(mib << 20, dtype=torch.uint8, device=machine.device)
            for name, call in (("to GPU", lambda: device.copy_(host, non_blocking=True)),
                               ("to host", lambda: host.copy_(device, non_blocking=True))):
                seconds = min(machine.seconds_of(call) for _ in range(5))
                result.add("copies", direction=name, pinned=pinned, bytes=mib << 20,
                           us=1e6 * seconds)


def collective_calls(torch, dist, bytes_, ranks, device):
    """(kind, call): `bytes_` of the whole array, as nccl-tests count."""
    elements = bytes_ // 2 // ranks * ranks
    whole = torch.zeros(elements, dtype=torch.bfloat16, device=device)
    other = torch.zeros_like(whole)
    part = torch.zeros(elements // ranks, dtype=torch.bfloat16, device=device)
    yield "all_reduce", lambda: dist.all_reduce(whole)
    yield "all_gather", lambda: dist.all_gather_into_tensor(whole, part)
    yield "reduce_scatter", lambda: dist.reduce_scatter_tensor(part, whole)
    yield "all_to_all", lambda: dist.all_to_all_single(other, whole)


def section_collectives(machine, result, turn):
    torch = machine.torch
    import torch.distributed as dist
    if not dist.is_initialized():
        result.skip("collectives", "one process: start it with torchrun")
        return
    ranks = dist.get_world_size()
    nodes = max(1, ranks // int(os.environ.get("LOCAL_WORLD_SIZE", ranks)))
    flag = torch.zeros(1, device=machine.device)
    for bytes_ in SIZES:
        flag.fill_(float(turn.over()))
        dist.all_reduce(flag)  # all ranks stop together
        if flag.item() > 0:
            return
        for kind, call in collective_calls(torch, dist, bytes_, ranks, machine.device):
            try:
                for _ in range(3):
                    call()
                repeats = max(3, min(50, int(2e8 // bytes_)))
                dist.barrier()
                machine.synchronize()
                begin = time.perf_counter()
                for _ in range(repeats):
                    call()
                machine.synchronize()
                result.add("collectives", kind=kind, bytes=bytes_, ranks=ranks, nodes=nodes,
                           us=1e6 * (time.perf_counter() - begin) / repeats)
            except RuntimeError as problem:
                result.skip(f"{kind} of {bytes_} bytes", problem)


class Layer:
    """One layer of the plan's width: what the allocator is asked for."""

    def __init__(self, machine):
        torch, shape = machine.torch, WORK["layer"]
        self.machine, self.shape = machine, shape
        hidden, ffn = shape["hidden"], shape["ffn"]
        linear = lambda n, k: torch.randn(n, k, dtype=torch.bfloat16, device=machine.device,
                                          requires_grad=True)
        self.weights = [linear(3 * hidden, hidden), linear(hidden, hidden), linear(ffn, hidden),
                        linear(hidden, ffn)]

    def step(self):
        torch, functional, shape = self.machine.torch, self.machine.torch.nn.functional, self.shape
        hidden, heads, tokens = shape["hidden"], shape["heads"], shape["tokens"]
        x = self.machine.random(1, tokens, hidden).requires_grad_()
        qkv, projection, up, down = self.weights
        q, k, v = (functional.layer_norm(x, (hidden,)) @ qkv.t()).chunk(3, -1)
        split = lambda t: t.view(1, tokens, heads, hidden // heads).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(split(q), split(k), split(v),
                                                        is_causal=True)
        x = x + mixed.transpose(1, 2).reshape(1, tokens, hidden) @ projection.t()
        x = x + functional.silu(functional.layer_norm(x, (hidden,)) @ up.t()) @ down.t()
        x.sum().backward()
        for weight in self.weights:
            weight.grad = None


def section_memory(machine, result, turn):
    """The allocations of one layer's step, and what lies outside of the allocator."""
    torch = machine.torch
    if not machine.gpu:
        Layer(machine).step()
        return
    cuda = torch.cuda

    def outside():
        free, total = cuda.mem_get_info()
        return total - free - cuda.memory_reserved()

    context = outside()
    small = machine.random(256, 256)
    torch.mm(small, small)
    machine.synchronize()
    result.add("fields", path="memory.context", value=context)
    result.add("fields", path="memory.libraries", value=max(0, outside() - context))
    layer = Layer(machine)
    layer.step()
    cuda.reset_peak_memory_stats()
    cuda.memory._record_memory_history(max_entries=1 << 16, stacks="python")
    layer.step()
    machine.synchronize()
    trace = cuda.memory._snapshot()["device_traces"][cuda.current_device()]
    cuda.memory._record_memory_history(enabled=None)
    result.values["layer"] = {"peak_allocated": cuda.max_memory_allocated(),
                              "peak_reserved": cuda.max_memory_reserved(),
                              "events": [[e["action"], e["size"], e["stream"]] for e in trace]}


# In the order in which they are measured: memory first, since other sections leave memory behind.
SECTIONS = [("memory", section_memory, 1), ("host", section_host, 1),
            ("products", section_products, 8), ("sustained", section_sustained, 3),
            ("grouped", section_grouped, 2), ("attention", section_attention, 4),
            ("passes", section_passes, 3), ("copies", section_copies, 1),
            ("collectives", section_collectives, 4)]


def measure(machine, minutes, wanted):
    result = Result()
    chosen = [one for one in SECTIONS if not wanted or one[0] in wanted]
    shares = sum(share for _, _, share in chosen)
    for name, section, share in chosen:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            section(machine, result, Turn(60 * minutes * share / shares))
        except Exception as problem:  # the other sections still count
            result.skip(name, problem)
        if machine.gpu:
            machine.torch.cuda.empty_cache()
    return result


def facts_of(torch, device):
    name = torch.cuda.get_device_name().removeprefix("NVIDIA ") if device == "cuda" else "CPU"
    total = torch.cuda.get_device_properties(0).total_memory if device == "cuda" else 0
    return {"device": name, "device_memory": total, "host": socket.gethostname(),
            "date": datetime.date.today().isoformat(), "torch": torch.__version__,
            "cuda": torch.version.cuda or "", "plan": WORK["plan"]}


def listed():
    lines = [f"plan {WORK['plan']}"]
    for key in ("products", "grouped", "attention", "passes"):
        name = key.removesuffix("s")
        lines += [f"{name} {json.dumps(one)}" for one in WORK[key]]
    return "\n".join(lines)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", default="measured.json", help="the JSON that is written")
    options.add_argument("--minutes", type=float, default=WORK["minutes"])
    options.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options.add_argument("--only", action="append", choices=[name for name, _, _ in SECTIONS])
    options.add_argument("--list", action="store_true", help="print the shapes; needs no PyTorch")
    given = options.parse_args()
    if given.list:
        print(listed())
        return
    import torch
    if given.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if "RANK" in os.environ:
        torch.distributed.init_process_group("nccl" if given.device == "cuda" else "gloo")
    result = measure(Machine(torch, given.device), given.minutes, given.only)
    if int(os.environ.get("RANK", 0)) == 0:
        with open(given.out + ".part", "w", encoding="utf-8") as file:
            file.write(result.json(facts_of(torch, given.device)))
        os.replace(given.out + ".part", given.out)
        print(f"{given.out}: written; next: rehearse calibrate {given.out} -o mine.textproto")


if __name__ == "__main__":
    main()
