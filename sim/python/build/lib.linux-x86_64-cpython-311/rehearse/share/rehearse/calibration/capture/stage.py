"""One pipeline stage in plain PyTorch, as Megatron-LM with TransformerEngine lays it out, without
communication: what a collective would fill is allocated and copied instead.

- Parameters are views of one buffer, their gradients of one fp32 buffer (`main_grad`); a weight
  gradient is a bf16 tensor that is added there and dropped, as without gradient accumulation fusion.
- A linear module saves its own shard of the input and gathers it again in backward.
- SwiGLU saves its input alone; attention is PyTorch's fused kernel.

Where it differs from the real modules, README.md says so.
"""

import torch
import torch.nn.functional as functional
from torch.autograd import Function, Variable
from torch.utils.checkpoint import checkpoint

import shapes


def gathered(local, tokens):
    """What an all-gather over the tensor-parallel ranks would fill."""
    if local.shape[0] == tokens:
        return local
    whole = local.new_empty((tokens,) + tuple(local.shape[1:]))
    whole[: local.shape[0]].copy_(local)
    return whole


def scattered(whole, shard):
    """What a reduce-scatter would leave here."""
    if whole.shape[0] == shard:
        return whole
    local = whole.new_empty((shard,) + tuple(whole.shape[1:]))
    local.copy_(whole[:shard])
    return local


class RmsNorm(Function):
    @staticmethod
    def forward(ctx, x, weight, epsilon):
        rsigma = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + epsilon)
        ctx.save_for_backward(x, weight, rsigma)
        return (x * rsigma).to(x.dtype) * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight, rsigma = ctx.saved_tensors
        normal = x.float() * rsigma
        inner = grad.float() * weight.float()
        accumulate(weight, (grad.float() * normal).sum(0))
        mean = (inner * normal).mean(-1, keepdim=True)
        return ((inner - normal * mean) * rsigma).to(x.dtype), None, None


def accumulate(weight, gradient):
    weight.main_grad.add_(gradient.to(weight.dtype))


class ColumnParallel(Function):
    """Gathers its input over the sequence, in both directions; keeps the shard."""

    @staticmethod
    def forward(ctx, x, weight, tokens):
        ctx.save_for_backward(x, weight)
        ctx.tokens = tokens
        return gathered(x, tokens) @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        whole = gathered(x, ctx.tokens)
        grad_input = grad @ weight
        local = scattered(grad_input, x.shape[0])
        del grad_input
        accumulate(weight, grad.t() @ whole)
        return local, None, None


class RowParallel(Function):
    """Its output is reduced and scattered over the sequence; its gradient is gathered."""

    @staticmethod
    def forward(ctx, x, weight, shard):
        ctx.save_for_backward(x, weight)
        return scattered(x @ weight.t(), shard)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad = gathered(grad, x.shape[0])
        grad_input = grad @ weight
        accumulate(weight, grad.t() @ x)
        return grad_input, None, None


class SwiGlu(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        gate, up = x.chunk(2, -1)
        return functional.silu(gate) * up

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gate, up = x.chunk(2, -1)
        sigmoid = torch.sigmoid(gate)
        out = torch.empty_like(x)
        torch.mul(grad * up, sigmoid * (1 + gate * (1 - sigmoid)), out=out[..., : gate.shape[-1]])
        torch.mul(grad, gate * sigmoid, out=out[..., gate.shape[-1]:])
        return out


class VocabularyCrossEntropy(Function):
    """The steps of vocab-parallel cross entropy on one shard of the vocabulary: an fp32 copy that
    becomes the softmax in place, and its gradient in place."""

    @staticmethod
    def forward(ctx, logits, target):
        values = logits.float()
        values.sub_(values.max(-1, keepdim=True).values)
        picked = values.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        values.exp_()
        total = values.sum(-1)
        loss = total.log() - picked
        values.div_(total.unsqueeze(-1))
        ctx.save_for_backward(values, target)
        ctx.dtype = logits.dtype
        return loss

    @staticmethod
    def backward(ctx, grad):
        softmax, target = ctx.saved_tensors
        softmax.scatter_add_(-1, target.unsqueeze(-1), -torch.ones_like(softmax[..., :1]))
        softmax.mul_(grad.unsqueeze(-1))
        return softmax.to(ctx.dtype), None


def rotary_table(case, device):
    d = case.model.head_dim
    frequencies = case.model.rope_theta ** (-torch.arange(0, d, 2, device=device).float() / d)
    angles = torch.outer(torch.arange(case.sequence, device=device).float(), frequencies)
    return torch.cat((angles, angles), -1)


def rotate(x, table):
    """x: batch, heads, sequence, head size."""
    first, second = x.chunk(2, -1)
    turned = torch.cat((-second, first), -1)
    return x * table.cos().to(x.dtype) + turned * table.sin().to(x.dtype)


def heads_of_queries(x, heads):
    """Keys or values copied for every head of their group."""
    b, groups, s, d = x.shape
    return x.unsqueeze(2).expand(b, groups, heads // groups, s, d).reshape(b, heads, s, d)


def attention(q, k, v):
    """The fused kernel; where PyTorch has none (before 2.0, for a dry run), the plain formula."""
    if q.shape[1] != k.shape[1]:
        k, v = heads_of_queries(k, q.shape[1]), heads_of_queries(v, q.shape[1])
    if hasattr(functional, "scaled_dot_product_attention"):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(mask, float("-inf")).softmax(-1) @ v


class Stage:
    def __init__(self, case, device, dtype=torch.bfloat16):
        self.case, self.device, self.dtype = case, device, dtype
        # Weights come one by one and are then copied into one buffer, as Megatron-LM does.
        named = shapes.parameters(case)
        weights = [torch.empty(shape, dtype=dtype, device=device) for _, shape in named]
        total = sum(weight.numel() for weight in weights)
        self.buffer = torch.zeros(total, dtype=dtype, device=device)
        self.gradients = torch.zeros(total, dtype=torch.float32, device=device)
        self.parameters = {}
        at = 0
        for (name, shape), weight in zip(named, weights):
            if device != "meta":
                weight.normal_(0, 0.02) if len(shape) > 1 else weight.fill_(1)
            view = self.buffer[at: at + weight.numel()].view(shape)
            view.copy_(weight)
            view.requires_grad_(True)
            view.main_grad = self.gradients[at: at + weight.numel()].view(shape)
            self.parameters[name] = view
            at += weight.numel()
        del weights, weight
        self.master = self.buffer.float()
        self.exp_avg = self.exp_avg_sq = None

    def layer(self, i, x, table):
        case, p = self.case, lambda name: self.parameters[f"layers.{i}.{name}"]
        s, b, d = case.sequence, case.micro_batch, case.model.head_dim
        mixed = ColumnParallel.apply(RmsNorm.apply(x, p("qkv_norm"), 1e-5), p("qkv"), case.tokens)
        # Tokens are sequence-major, as everywhere in Megatron-LM.
        q, k, v = (part.view(s, b, -1, d).permute(1, 2, 0, 3) for part in
                   mixed.split((case.query, case.key_value, case.key_value), -1))
        out = attention(rotate(q, table), rotate(k, table), v.contiguous())
        out = out.permute(2, 0, 1, 3).reshape(case.tokens, case.query)
        x = x + RowParallel.apply(out, p("projection"), case.shard)
        up = ColumnParallel.apply(RmsNorm.apply(x, p("fc1_norm"), 1e-5), p("fc1"), case.tokens)
        return x + RowParallel.apply(SwiGlu.apply(up), p("fc2"), case.shard)

    def forward(self, x):
        """From token ids (first stage) or the received activations; on the last stage to the loss."""
        case = self.case
        table = rotary_table(case, self.device)
        if case.first:
            rows = Embedding.apply(x, self.parameters["word_embedding"])
            x = Scatter.apply(rows, case.shard)
        for i in range(case.layers):
            if case.recompute == "full":
                x = checkpoint(self.layer, i, x, table, use_reentrant=True,
                               preserve_rng_state=False)
            else:
                x = self.layer(i, x, table)
        if not case.last:
            return x
        x = RmsNorm.apply(x, self.parameters["final_norm"], 1e-5)
        logits = ColumnParallel.apply(x, self.parameters["output"], case.tokens)
        target = torch.zeros(case.tokens, dtype=torch.int64, device=self.device)
        return VocabularyCrossEntropy.apply(logits, target).mean()

    def receive(self):
        """What the stage before sends, or a microbatch of ids."""
        case = self.case
        if case.first:
            return torch.randint(case.vocab, (case.tokens,), device=self.device)
        return self.message((case.shard, case.model.hidden)).requires_grad_(True)

    def message(self, shape):
        """What another stage would send: noise, as constants draw less power than a run does."""
        tensor = torch.empty(shape, dtype=self.dtype, device=self.device)
        return tensor if self.device == "meta" else tensor.normal_()

    def step(self):
        """Forward and backward passes in 1F1B order, then Adam."""
        self.gradients.zero_()
        alive = {}
        for kind, i in shapes.one_f_one_b(self.case.stages, self.case.stage,
                                          self.case.microbatches):
            if kind == "F":
                source = self.receive()
                out = self.forward(source)
                shape = out.shape
                if not self.case.last:
                    # The output is sent; one element takes its place, autograd needs its node only.
                    out.data = out.new_empty(1)
                alive[i] = (source, out)
            else:
                source, out = alive.pop(i)
                gradient = torch.ones_like(out) if self.case.last else self.message(shape)
                Variable._execution_engine.run_backward((out,), (gradient,), False, False, (),
                                                        allow_unreachable=True,
                                                        accumulate_grad=True)
                del source, out, gradient
        self.update()

    def update(self):
        """Adam in a few passes over the flat buffers; its state comes with the first step."""
        if self.exp_avg is None:
            self.exp_avg = torch.zeros_like(self.master)
            self.exp_avg_sq = torch.zeros_like(self.master)
        if self.device == "meta":
            return
        torch._fused_adam_([self.master], [self.gradients], [self.exp_avg], [self.exp_avg_sq], [],
                           [torch.ones((), device=self.device)], lr=1e-4, beta1=0.9, beta2=0.95,
                           weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)
        self.buffer.copy_(self.master)


class Embedding(Function):
    @staticmethod
    def forward(ctx, ids, table):
        ctx.save_for_backward(ids, table)
        return functional.embedding(ids, table)

    @staticmethod
    def backward(ctx, grad):
        ids, table = ctx.saved_tensors
        gradient = torch.ops.aten.embedding_dense_backward(grad, ids, table.shape[0], -1, False)
        accumulate(table, gradient)
        return None, None


class Scatter(Function):
    @staticmethod
    def forward(ctx, rows, shard):
        ctx.tokens = rows.shape[0]
        return scattered(rows, shard)

    @staticmethod
    def backward(ctx, grad):
        return gathered(grad, ctx.tokens), None
