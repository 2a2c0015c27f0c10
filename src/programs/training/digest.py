"""Checksums of tensors by their bits, and single bits flipped in them."""

from __future__ import annotations

import torch
from torch import Tensor

#: Odd numbers: a product with one modulo 2^64 loses no bit, so a word that differs changes the sum.
FACTOR, NEXT = 0x9E3779B97F4A7C15 - 2**64, 0xBF58476D1CE4E5B9 - 2**64
#: Words that are added up at once: 64 MiB of weights.
PIECE = 1 << 23
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_weights: dict[torch.device, Tensor] = {}


def words(x: Tensor) -> Tensor:
    """The elements of a contiguous tensor as integers of the same size."""
    return x.detach().contiguous().view(-1).view(_WORDS[x.element_size()])


def checksum(x: Tensor) -> Tensor:
    """A 64-bit sum of the words of a tensor, each multiplied by a different odd number, modulo 2^64; on its device,
    without waiting. Any single word that differs, and any two that are exchanged and differ, change it but by
    chance."""
    flat = words(x)
    if x.device not in _weights:
        index = torch.arange(PIECE, device=x.device, dtype=torch.int64)
        _weights[x.device] = (index * FACTOR) | 1
    weights = _weights[x.device]
    total = torch.zeros((), dtype=torch.int64, device=x.device)
    for start in range(0, flat.numel(), PIECE):
        piece = flat[start : start + PIECE].to(torch.int64)
        total = total * NEXT + (piece * weights[: piece.numel()]).sum()
    return total


def text(number: int) -> str:
    """A checksum as 16 hexadecimal digits."""
    return f"{number & (2**64 - 1):016x}"


@torch.no_grad()
def flip(x: Tensor, element: int, bit: int) -> None:
    """Flip one bit of one element; both indices are taken modulo the size."""
    flat = x.detach().view(-1).view(_WORDS[x.element_size()])
    bit %= 8 * x.element_size()
    mask = 1 << bit
    if bit == 8 * x.element_size() - 1 and flat.dtype != torch.uint8:
        mask -= 1 << (bit + 1)
    flat[element % flat.numel()] ^= mask
