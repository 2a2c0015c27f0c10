"""Sizes of the models, and derived numbers: parameters, operations, memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Sizes of the model. `heads` x at most 128 is `dim`; `ffn`: width of the gated layer; `sequence`: tokens."""

    dim: int
    layers: int
    heads: int
    ffn: int
    vocabulary: int
    sequence: int

    @property
    def multiplied(self) -> int:
        """Parameters that take part in products: those of the blocks, and the embedding as output layer."""
        return self.layers * (4 * self.dim**2 + 3 * self.dim * self.ffn) + self.vocabulary * self.dim

    @property
    def parameters(self) -> int:
        return self.multiplied + (2 * self.layers + 1) * self.dim

    @property
    def operations_a_token(self) -> int:
        """Operations of forward and backward: two for each multiplied parameter and token, three times (once forward,
        for the gradients of inputs and of weights), and for causal attention half of both products of each layer."""
        return 6 * self.multiplied + 6 * self.layers * self.dim * self.sequence

    def bytes_needed(self, batch: int, compiled: bool, copies: int = 0) -> float:
        """Estimate of the memory in bytes: weights, gradients and two moments in FP32, activations, logits; `copies` of
        the gradients: buckets that are exchanged, sums over micro-batches."""
        a_token = self.layers * (self.dim * (26 if compiled else 45) + self.ffn * (8 if compiled else 9))
        return (16.0 + 4.0 * copies) * self.parameters + batch * self.sequence * (
            a_token + self.vocabulary * (6 if compiled else 16)
        )


SHAPES = {
    "1b": Shape(2048, 14, 16, 8192, 32768, 2048),
    "50m": Shape(512, 10, 8, 2048, 16384, 512),
    "tiny": Shape(64, 2, 4, 160, 256, 32),
}
