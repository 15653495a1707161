"""What a capture runs: the shapes of one pipeline stage on one tensor-parallel rank, and the order
of its passes. Plain Python, so that it can be read, printed and tested where there is no GPU and no
PyTorch.

Shapes are those of Megatron-LM's layers under tensor and sequence parallelism (Shoeybi et al.,
arXiv:1909.08053, section 3; Korthikanti et al., arXiv:2205.05198, section 4.2); models come from
models/*.json, the config.json of each; cases from cases.csv.
"""

import csv
import json
import pathlib
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PADDING = 128  # Megatron-LM pads the vocabulary to a multiple of 128 x tp
ELEMENT = 2  # bytes of an activation in bf16
# How the operands of a product lie, by its role (cuBLAS's words).
LAYOUT = {"forward": "TN", "input_gradient": "NN", "weight_gradient": "NT"}


@dataclass(frozen=True)
class Model:
    name: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    rope_theta: float


@dataclass(frozen=True)
class Case:
    name: str
    model: Model
    tp: int
    sequence: int
    micro_batch: int
    stages: int
    stage: int
    layers: int  # of this stage
    microbatches: int
    recompute: str  # none, full

    @property
    def tokens(self):
        return self.sequence * self.micro_batch

    @property
    def shard(self):  # tokens between tensor-parallel regions
        return self.tokens // self.tp

    @property
    def query(self):
        return self.model.heads * self.model.head_dim // self.tp

    @property
    def key_value(self):
        return self.model.kv_heads * self.model.head_dim // self.tp

    @property
    def ffn(self):
        return self.model.ffn // self.tp

    @property
    def vocab(self):
        multiple = PADDING * self.tp
        return -(-self.model.vocab // multiple) * multiple // self.tp

    @property
    def first(self):
        return self.stage == 0

    @property
    def last(self):
        return self.stage == self.stages - 1


@dataclass(frozen=True)
class Product:
    """A matrix product: m rows, n columns, k summed over."""

    name: str
    role: str  # forward, input_gradient, weight_gradient
    m: int
    n: int
    k: int


def model(name):
    config = json.loads((ROOT / "models" / f"{name}.json").read_text())
    heads = config["num_attention_heads"]
    hidden = config["hidden_size"]
    return Model(
        name=name,
        layers=config["num_hidden_layers"],
        hidden=hidden,
        ffn=config["intermediate_size"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads", heads),
        head_dim=config.get("head_dim", hidden // heads),
        vocab=config["vocab_size"],
        rope_theta=config.get("rope_theta", 10000.0),
    )


def cases(path=HERE / "cases.csv"):
    """Every case of the table. Raises ValueError with the case's name if one is impossible."""
    found = []
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            numbers = {key: int(row[key]) for key in
                       ("tp", "sequence", "micro_batch", "stages", "stage", "layers",
                        "microbatches")}
            case = Case(name=row["name"], model=model(row["model"]), recompute=row["recompute"],
                        **numbers)
            check(case)
            found.append(case)
    return found


def check(case):
    m = case.model
    for what, number in (("heads", m.heads), ("key-value heads", m.kv_heads), ("MLP", m.ffn),
                         ("sequence", case.sequence)):
        if number % case.tp != 0:
            raise ValueError(f"{case.name}: tp {case.tp} does not divide {what} {number}")
    if case.recompute not in ("none", "full"):
        raise ValueError(f"{case.name}: recompute is none or full, not {case.recompute}")
    if not 0 <= case.stage < case.stages:
        raise ValueError(f"{case.name}: there is no stage {case.stage} of {case.stages}")


def layer_products(case):
    """The four linear modules of a layer: forward, input gradient, weight gradient."""
    m = case.model
    modules = [("qkv", case.query + 2 * case.key_value, m.hidden),
               ("projection", m.hidden, case.query),
               ("fc1", 2 * case.ffn, m.hidden),
               ("fc2", m.hidden, case.ffn)]
    products = []
    for name, n, k in modules:
        products += three(name, case.tokens, n, k)
    return products


def head_products(case):
    return three("head", case.tokens, case.vocab, case.model.hidden) if case.last else []


def three(name, tokens, n, k):
    return [Product(name, "forward", tokens, n, k),
            Product(name, "input_gradient", tokens, k, n),
            Product(name, "weight_gradient", n, k, tokens)]


def parameters(case):
    """(name, shape) of every parameter of the stage, in the order of registration."""
    m = case.model
    found = []
    if case.first:
        found.append(("word_embedding", (case.vocab, m.hidden)))
    for layer in range(case.layers):
        found += [(f"layers.{layer}.projection", (m.hidden, case.query)),
                  (f"layers.{layer}.qkv_norm", (m.hidden,)),
                  (f"layers.{layer}.qkv", (case.query + 2 * case.key_value, m.hidden)),
                  (f"layers.{layer}.fc1_norm", (m.hidden,)),
                  (f"layers.{layer}.fc1", (2 * case.ffn, m.hidden)),
                  (f"layers.{layer}.fc2", (m.hidden, case.ffn))]
    if case.last:
        found += [("final_norm", (m.hidden,)), ("output", (case.vocab, m.hidden))]
    return found


def elements(shape):
    product = 1
    for size in shape:
        product *= size
    return product


def one_f_one_b(stages, stage, microbatches):
    """[("F" or "B", microbatch)]: the 1F1B schedule (PipeDream-Flush, arXiv:2006.09503)."""
    warm_up = min(stages - 1 - stage, microbatches)
    order = [("F", i) for i in range(warm_up)]
    for i in range(warm_up, microbatches):
        order += [("F", i), ("B", i - warm_up)]
    return order + [("B", i) for i in range(microbatches - warm_up, microbatches)]


def saved_bytes(case):
    """Bytes that one layer keeps from forward to backward (sim/program/INVENTORY.md, section 8),
    without statistics: two residuals, two norm outputs, query, key, value, attention's output (and
    its contiguous copy where there are several sequences), fc1's output and SwiGLU's."""
    if case.recompute == "full":
        return ELEMENT * case.shard * case.model.hidden
    per_token = case.query * (2 if case.micro_batch == 1 else 3) + 2 * case.key_value + 3 * case.ffn
    return ELEMENT * (4 * case.shard * case.model.hidden + case.tokens * per_token)


def plan_text(case):
    """The plan that `rehearse` replays to be compared with the capture."""
    m = case.model
    lines = [f'name: "{case.name}"',
             f'source: "calibration/capture/cases.csv, {case.name}"',
             "architecture {",
             f'  name: "{m.name}, {case.layers} layers a stage"',
             f"  layers: {case.layers * case.stages}", f"  hidden: {m.hidden}", f"  ffn: {m.ffn}",
             f"  heads: {m.heads}", f"  kv_heads: {m.kv_heads}", f"  head_dim: {m.head_dim}",
             f"  vocab: {m.vocab}", "}",
             'cluster: "dgx-h200"',
             f"# The capture is stage {case.stage} of {case.stages}.",
             f"tp: {case.tp}", f"pp: {case.stages}", "dp: 1",
             f"micro_batch: {case.micro_batch}",
             f"global_batch: {case.micro_batch * case.microbatches}",
             f"sequence: {case.sequence}",
             "gradient_accumulation_fusion: false", "rope_fusion: false",
             "attention_mask: false", "check_for_nan: false", "distributed_optimizer: false",
             "overlap_grad_reduce: false"]
    if case.recompute == "full":
        lines += ["recompute: full", "recompute_method: uniform", "recompute_layers: 1"]
    return "\n".join(lines) + "\n"


def files(case):
    """What a capture of the case writes."""
    return [f"{case.name}.textproto", f"{case.name}.pickle", f"{case.name}.events.csv",
            f"{case.name}.trace.json.gz"]


TABLES = ["gemm.csv", "memory.csv"]


def describe(case):
    m = case.model
    kinds = " ".join(f"{kind}{i}" for kind, i in
                     one_f_one_b(case.stages, case.stage, case.microbatches))
    total = sum(elements(shape) for _, shape in parameters(case))
    lines = [f"case {case.name}: {m.name}, tp {case.tp}, sequence {case.sequence}, micro batch "
             f"{case.micro_batch}, stage {case.stage} of {case.stages}, {case.layers} layers, "
             f"recompute {case.recompute}",
             f"  order {kinds}",
             f"  parameters {total}"]
    for product in layer_products(case) + head_products(case):
        lines.append(f"  product {product.name} {product.role} {product.m} {product.n} {product.k}")
    lines.append(f"  attention causal {case.micro_batch} {m.heads // case.tp} "
                 f"{m.kv_heads // case.tp} {m.head_dim} {case.sequence}")
    lines.append(f"  saved {saved_bytes(case)} bytes a layer")
    lines += [f"  writes {name}" for name in files(case)]
    return "\n".join(lines)
