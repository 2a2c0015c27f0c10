"""The transformer that is trained: a usual decoder, in plain PyTorch.

Weights and optimiser are FP32; products are BF16, or FP8 in the blocks. Everything is drawn from a seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from shapes import Shape
from torch import Tensor, nn

EPSILON = 1e-5
#: Largest values of the two FP8 formats (OCP 8-bit floating point specification, 1.0).
E4M3_MAX, E5M2_MAX = 448.0, 57344.0


class Exchange:
    """Whether ranks exchange their parts under tensor parallelism. A run without the exchange shows its cost."""

    on = True


class _ToAll(torch.autograd.Function):
    """The same input on all ranks: gradients of the parts add up."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        if Exchange.on:
            dist.all_reduce(gradient)
        return gradient


class _FromAll(torch.autograd.Function):
    """The sum of the parts of all ranks."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        x = x.contiguous()
        if Exchange.on:
            dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient


def _quantised(x: Tensor, kind: torch.dtype, largest: float) -> tuple[Tensor, Tensor]:
    """FP8 with one scale per tensor, and the factor to restore it."""
    scale = largest / x.abs().max().float().clamp(min=1e-12)
    return (x.float() * scale).clamp(-largest, largest).to(kind), scale.reciprocal()


def _product(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, fast: bool) -> Tensor:
    """a times the transpose of b in FP8, as BF16. Both are stored by rows, as the tensor cores require."""
    return torch._scaled_mm(
        a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast
    )  # fmt: skip


class _Fp8Linear(torch.autograd.Function):
    """A linear layer whose three products are all FP8: E4M3 for values, E5M2 for gradients."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        x8, scale_x = _quantised(flat, torch.float8_e4m3fn, E4M3_MAX)
        w8, scale_w = _quantised(weight, torch.float8_e4m3fn, E4M3_MAX)
        ctx.save_for_backward(x8, w8, scale_x, scale_w)
        return _product(x8, w8, scale_x, scale_w, True).view(*x.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x8, w8, scale_x, scale_w = ctx.saved_tensors
        flat = gradient.reshape(-1, gradient.shape[-1])
        g8, scale_g = _quantised(flat, torch.float8_e5m2, E5M2_MAX)
        of_x = _product(g8, w8.t().contiguous(), scale_g, scale_w, False)
        of_w = _product(g8.t().contiguous(), x8.t().contiguous(), scale_g, scale_x, False)
        return of_x.view(*gradient.shape[:-1], w8.shape[1]), of_w


def linear(x: Tensor, weight: Tensor, fp8: bool) -> Tensor:
    cast = weight.to(x.dtype)
    return _Fp8Linear.apply(x, cast) if fp8 else F.linear(x, cast)


def norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON) * weight).to(x.dtype)


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions: pairs of the first and second half of each head."""
    first, second = x.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


class Block(nn.Module):
    """Attention and a gated layer, each after a norm. With `parts` > 1 heads and width are divided between ranks."""

    def __init__(self, shape: Shape, parts: int, fp8: bool, device: torch.device) -> None:
        super().__init__()
        self.heads, self.parts, self.fp8 = shape.heads // parts, parts, fp8
        inner, width = shape.dim // parts, shape.ffn // parts

        def made(*size: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*size, device=device))

        self.norm_attention, self.norm_mlp = made(shape.dim), made(shape.dim)
        self.qkv, self.out = made(3 * inner, shape.dim), made(shape.dim, inner)
        self.gate_up, self.down = made(2 * width, shape.dim), made(shape.dim, width)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        x = x + self._attention(norm(x, self.norm_attention), cosine, sine)
        return x + self._mlp(norm(x, self.norm_mlp))

    def _attention(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        batch, length, _ = x.shape
        x = _ToAll.apply(x) if self.parts > 1 else x
        qkv = linear(x, self.qkv, self.fp8).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        found = F.scaled_dot_product_attention(rotated(q, cosine, sine), rotated(k, cosine, sine), v, is_causal=True)
        found = linear(found.transpose(1, 2).reshape(batch, length, -1), self.out, self.fp8)
        return _FromAll.apply(found) if self.parts > 1 else found

    def _mlp(self, x: Tensor) -> Tensor:
        x = _ToAll.apply(x) if self.parts > 1 else x
        gate, up = linear(x, self.gate_up, self.fp8).chunk(2, -1)
        found = linear(F.silu(gate) * up, self.down, self.fp8)
        return _FromAll.apply(found) if self.parts > 1 else found


def head(x: Tensor, weight: Tensor, embedding: Tensor, targets: Tensor) -> Tensor:
    """The mean loss of all tokens."""
    logits = F.linear(norm(x, weight), embedding.to(x.dtype))
    return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))


class Transformer(nn.Module):
    """The whole model; its forward is the loss. `part` of `parts`: this rank's share under tensor parallelism."""

    def __init__(self, shape: Shape, device: torch.device, fp8: bool = False, part: int = 0, parts: int = 1) -> None:
        super().__init__()
        if shape.heads % parts or shape.ffn % parts:
            raise ValueError(f"{shape.heads} heads and a width of {shape.ffn} cannot be divided by {parts} ranks")
        self.shape, self.part, self.parts = shape, part, parts
        self.embedding = nn.Parameter(torch.empty(shape.vocabulary, shape.dim, device=device))
        self.norm_last = nn.Parameter(torch.empty(shape.dim, device=device))
        self.blocks = nn.ModuleList(Block(shape, parts, fp8, device) for _ in range(shape.layers))
        self.head: Callable[..., Tensor] = head
        #: Called with name and output of each block; not compiled then.
        self.seen: Callable[[str, Tensor], None] | None = None
        half = shape.dim // shape.heads // 2
        angles = torch.arange(shape.sequence, device=device).float()[:, None] * 10000.0 ** (
            -torch.arange(half, device=device).float() / half
        )
        self.register_buffer("cosine", angles.cos().to(torch.bfloat16), persistent=False)
        self.register_buffer("sine", angles.sin().to(torch.bfloat16), persistent=False)

    def divided(self, name: str) -> bool:
        """Whether ranks have different parts of a parameter under tensor parallelism."""
        return self.parts > 1 and name.rpartition(".")[2] in ("qkv", "out", "gate_up", "down")

    @torch.no_grad()
    def reset(self, seed: int) -> None:
        """Weights from the seed: the same whole matrices for any number of parts."""
        for index, (name, parameter) in enumerate(self.named_parameters()):
            last = name.rpartition(".")[2]
            if last.startswith("norm"):
                parameter.fill_(1.0)
                continue
            deviation = 0.02 / math.sqrt(2 * self.shape.layers) if last in ("out", "down") else 0.02
            rows, columns = parameter.shape
            random = torch.Generator(device=parameter.device).manual_seed(seed * 1_000_003 + index)
            if not self.divided(name):
                parameter.normal_(0.0, deviation, generator=random)
                continue
            across = last in ("out", "down")
            whole = (rows, columns * self.parts) if across else (rows * self.parts, columns)
            drawn = torch.empty(whole, device=parameter.device).normal_(0.0, deviation, generator=random)
            if across:
                parameter.copy_(drawn[:, self.part * columns : (self.part + 1) * columns])
            else:  # q, k and v, or gate and up, are each divided
                groups = {"qkv": 3, "gate_up": 2}[last]
                each = rows // groups
                drawn = drawn.view(groups, self.parts, each, columns)[:, self.part]
                parameter.copy_(drawn.reshape(rows, columns))

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = F.embedding(tokens, self.embedding).to(torch.bfloat16)
        for index, block in enumerate(self.blocks):
            # `forward` is the uncompiled one
            x = (block if self.seen is None else block.forward)(x, self.cosine, self.sine)
            if self.seen is not None:
                self.seen(f"block {index}", x)
        return (self.head if self.seen is None else head)(x, self.norm_last, self.embedding, targets)


def tokens_of(shape: Shape, batch: int, seed: int, step: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Tokens of a step and those that follow them: arithmetic sequences of an eighth of the vocabulary, whose
    frequencies a model learns within a few steps."""
    random = torch.Generator(device=device).manual_seed(seed * 7_919 + step)
    most = shape.vocabulary // 8
    first = torch.randint(most, (batch, 1), generator=random, device=device)
    stride = torch.randint(1, 17, (batch, 1), generator=random, device=device)
    row = (first + stride * torch.arange(shape.sequence + 1, device=device)) % most
    return row[:, :-1].contiguous(), row[:, 1:].contiguous()
