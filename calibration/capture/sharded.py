#!/usr/bin/env python3
"""sharded.py — whole training steps of a Llama under FSDP2 on one GPU: rank 0 of many, whose
other ranks are PyTorch's "fake" process group. Collectives return at once; every kernel,
copy, stream and allocation of the rank is real. What torchtitan runs, in plain PyTorch.

    sharded.py --out FOLDER [--case NAME]...      needs a GPU and PyTorch 2.6 or newer

For each case: step times, peaks, a snapshot with history (two steps), one profiled step.
"""

import argparse
import csv
import gzip
import json
import os
import pathlib
import shutil
import statistics
import time
import traceback

CASES = {  # model, layers (0: all), ranks, sequences, tokens, recompute, compiled
    "8b-dp8-selective": ("llama-3.1-8b", 0, 8, 1, 8192, "selective", False),
    "8b-dp8-selective-compiled": ("llama-3.1-8b", 0, 8, 1, 8192, "selective", True),
    "8b-dp8-selective-compiled-b2": ("llama-3.1-8b", 0, 8, 2, 8192, "selective", True),
    "8b-dp8-full-compiled": ("llama-3.1-8b", 0, 8, 1, 8192, "full", True),
    "8b-dp8-full": ("llama-3.1-8b", 0, 8, 1, 8192, "full", False),
    "70b-dp64-full-compiled": ("llama-3.1-70b", 16, 64, 1, 8192, "full", True),
}
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def build(config, layers, sequence):
    import torch
    import torch.nn as nn
    import torch.nn.functional as functional
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    head, theta = hidden // heads, config.get("rope_theta", 500000.0)

    def rotated(x, table):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * table[None, :, None, :]).flatten(3).type_as(x)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.wq = nn.Linear(hidden, heads * head, bias=False)
            self.wk = nn.Linear(hidden, kv * head, bias=False)
            self.wv = nn.Linear(hidden, kv * head, bias=False)
            self.wo = nn.Linear(heads * head, hidden, bias=False)

        def forward(self, x, table):
            b, s, _ = x.shape
            q, k, v = (w(x).view(b, s, -1, head) for w in (self.wq, self.wk, self.wv))
            q, k = rotated(q, table), rotated(k, table)
            k, v = (t[:, :, :, None, :].expand(b, s, kv, heads // kv, head).reshape(
                b, s, heads, head) for t in (k, v))
            out = functional.scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
            return self.wo(out.transpose(1, 2).reshape(b, s, -1))

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.w1 = nn.Linear(hidden, ffn, bias=False)
            self.w2 = nn.Linear(ffn, hidden, bias=False)
            self.w3 = nn.Linear(hidden, ffn, bias=False)

        def forward(self, x):
            return self.w2(functional.silu(self.w1(x)) * self.w3(x))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.mlp = Attention(), Mlp()
            self.attention_norm = nn.RMSNorm(hidden, 1e-5)
            self.ffn_norm = nn.RMSNorm(hidden, 1e-5)

        def forward(self, x, table):
            x = x + self.attention(self.attention_norm(x), table)
            return x + self.mlp(self.ffn_norm(x))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.tok_embeddings = nn.Embedding(config["vocab_size"], hidden)
            self.layers = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.RMSNorm(hidden, 1e-5)
            self.output = nn.Linear(hidden, config["vocab_size"], bias=False)
            frequencies = theta ** (-torch.arange(0, head, 2, device="cpu").float() / head)
            angles = torch.outer(torch.arange(sequence, device="cpu").float(), frequencies)
            self.table = torch.polar(torch.ones_like(angles), angles).cuda()

        def forward(self, tokens):
            x = self.tok_embeddings(tokens)
            for layer in self.layers:
                x = layer(x, self.table)
            return self.output(self.norm(x))

    with torch.device("meta"):
        return Llama()


def selective(block):
    """Saves attention and every second product, recomputes the rest."""
    import torch
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
    aten = torch.ops.aten
    saved = {aten.mm.default, aten._scaled_dot_product_efficient_attention.default,
             aten._scaled_dot_product_flash_attention.default,
             aten._scaled_dot_product_cudnn_attention.default,
             torch.ops._c10d_functional.reduce_scatter_tensor.default}

    def context():
        count = {"forward": 0, "recompute": 0}

        def policy(ctx, op, *args, **kwargs):
            mode = "recompute" if ctx.is_recompute else "forward"
            if op == aten.mm.default:
                count[mode] += 1
            keep = op in saved and not (op == aten.mm.default and count[mode] % 2 == 0)
            return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    return checkpoint_wrapper(block, context_fn=context, preserve_rng_state=False)


def whole(block):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    return checkpoint_wrapper(block, preserve_rng_state=False)


def run(name, case, folder, results):
    import torch
    import torch.distributed as dist
    import torch.nn.functional as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore
    model_name, layers, ranks, sequences, tokens, recompute, compiled = case
    config = json.loads((ROOT / "models" / f"{model_name}.json").read_text())
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    mesh = init_device_mesh("cuda", (ranks,))
    torch.cuda.memory._record_memory_history(max_entries=1 << 22, stacks="python")
    model = build(config, layers or config["num_hidden_layers"], tokens)
    wrap = {"selective": selective, "full": whole, "none": lambda block: block}[recompute]
    for i, block in enumerate(model.layers):
        block = wrap(block)
        model.layers[i] = torch.compile(block, fullgraph=True) if compiled else block
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    fully_shard(model.tok_embeddings, mesh=mesh, mp_policy=policy)
    for block in model.layers:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard([model.norm, model.output], mesh=mesh, mp_policy=policy,
                reshard_after_forward=False)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device="cuda")
    with torch.no_grad():
        for p in model.parameters():
            local = p.to_local()
            local.normal_(0, 0.02) if p.dim() > 1 else local.fill_(1)
    loss_of = lambda out, labels: functional.cross_entropy(out.flatten(0, 1).float(),
                                                           labels.flatten())
    if compiled:
        loss_of = torch.compile(loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, betas=(0.9, 0.95), fused=True,
                                  weight_decay=0.1)
    ids = torch.randint(config["vocab_size"], (sequences, tokens), device="cuda")
    labels = torch.randint(config["vocab_size"], (sequences, tokens), device="cuda")

    def step():
        optimizer.zero_grad()
        out = model(ids)
        loss = loss_of(out, labels)
        del out
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        return loss

    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        step()
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(os.path.join(folder, name + ".pickle"))
    torch.cuda.memory._record_memory_history(enabled=None)
    peaks = torch.cuda.memory_stats()
    times, hosts = [], []
    for _ in range(6):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        hosts.append(time.perf_counter() - begin)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        with torch.profiler.record_function("ProfilerStep#3"):
            step()
            torch.cuda.synchronize()
    path = os.path.join(folder, name + ".trace.json")
    profiler.export_chrome_trace(path)
    with open(path, "rb") as plain, gzip.open(path + ".gz", "wb") as packed:
        shutil.copyfileobj(plain, packed)
    os.remove(path)
    gib = 2.0**30
    results.writerow(dict(name=name, step_ms=f"{1e3 * statistics.median(times):.2f}",
                host_ms=f"{1e3 * statistics.median(hosts):.2f}",
                all_ms=" ".join(f"{1e3 * t:.1f}" for t in times),
                allocated_gib=f"{peaks['allocated_bytes.all.peak'] / gib:.4f}",
                active_gib=f"{peaks['active_bytes.all.peak'] / gib:.4f}",
                reserved_gib=f"{peaks['reserved_bytes.all.peak'] / gib:.4f}",
                retries=peaks["num_alloc_retries"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", metavar="FOLDER", required=True)
    parser.add_argument("--case", action="append", choices=list(CASES), metavar="NAME")
    options = parser.parse_args()
    import subprocess
    import sys
    names = options.case or list(CASES)
    if len(names) > 1:  # each in a process of its own
        for name in names:
            begin = time.monotonic()
            code = subprocess.call([sys.executable, __file__, "--out", options.out, "--case", name])
            print(f"{name}: {time.monotonic() - begin:.0f} s, exit {code}", flush=True)
        return
    os.makedirs(options.out, exist_ok=True)
    columns = ["name", "step_ms", "host_ms", "all_ms", "allocated_gib", "active_gib",
               "reserved_gib", "retries"]
    try:
        with open(os.path.join(options.out, names[0] + ".csv"), "w", newline="") as file:
            table = csv.DictWriter(file, columns, restval="", lineterminator="\n")
            table.writeheader()
            run(names[0], CASES[names[0]], options.out, table)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
