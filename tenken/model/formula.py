"""Formulas of metrics.yaml: how a figure is derived, and its limit from attributes of the hardware.

A formula is an expression in a subset of Python's syntax: numbers, texts, + - * / // %, **, comparisons, `a if b else
c`, and, or, not, and these names:

    total                      the value of that metric of the same subject, at the coordinates that it has
    total(memory="pageable")   the same with one coordinate changed; None as a value takes it away
    total.best                 another statistic of it: best, median, p5, p95
    value  value.median        the value that a limit or an expectation is of
    limit                      its physical limit, for floors
    at.n  parameter.steps      coordinate of the value, parameter of the run
    count.bytes                what one sample counts: bytes, operations, cells
    gpu.l2_bytes peer.l2_bytes attribute of the value's GPU, and of the second one of a pair
    link.count link.kind       active links of the pair; of one GPU those to all others
    provenance.KEY placement.ranks host.cores subject.first   what the program reports of its run
    min max sqrt log exp floor int                 functions of numbers
    pcie(generation, width)    GB/s of a PCIe link in one direction
    balance(GB/s, gpu.multiprocessors, gpu.sm_clock_max_mhz)   1; less where memory outruns the multiprocessors
    row("units", gpu.compute_capability, "fp16")   a number of a table of common.yaml

An unknown attribute is None: `not gpu.integrated` is then true, and a formula that computes with it gives None. Only
formulas of the catalogue (the suite's or a site's own checks) are read; no text of a result or record is evaluated.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tenken.errors import CatalogueError

#: Giga-transfers per second of a PCIe lane by generation, and the share of its bits that is payload: PCI-SIG's base
#: specifications; 8b/10b, 128b/130b, and FLITs of 242 of 256 bytes.
_PCIE = {1: (2.5, 0.8), 2: (5, 0.8), 3: (8, 128 / 130), 4: (16, 128 / 130), 5: (32, 128 / 130), 6: (64, 242 / 256)}

OWNERS = ("at", "parameter", "count", "gpu", "peer", "link", "provenance", "placement", "host", "subject")
STATISTICS = ("best", "median", "p5", "p95")
#: The value itself, whatever its metric.
ITSELF = "value"
#: Its physical limit.
LIMIT = "limit"


class Unknown(Exception):
    """A part of a formula has no value in this run."""


class Scope(Protocol):
    """Looks up the names of a formula."""

    def metric(self, name: str, changed: Mapping[str, Any], statistic: str = "") -> float:
        """Raises Unknown."""

    def attribute(self, owner: str, name: str) -> Any:
        """None: not known."""

    def row(self, table: str, *keys: Any) -> float:
        """Raises Unknown."""


def pcie(generation: float, width: float) -> float:
    """GB/s of a PCIe link in one direction. Raises Unknown for an unknown generation."""
    rate = _PCIE.get(int(generation))
    if rate is None:
        raise Unknown
    return rate[0] * rate[1] * width / 8


#: GB/s of memory per multiprocessor and MHz of an H200 (4800 GB/s, 132 at 1980 MHz; B200: 0.027). The shares of the
#: bandwidth that solvers and stencils reach were measured up to this value.
_FED = 0.0184


def balance(bandwidth: float, multiprocessors: float | None, mhz: float | None) -> float:
    """The share of a bandwidth in GB/s that these multiprocessors can use, relative to an H200; 1 if unknown."""
    return min(1.0, _FED * multiprocessors * mhz / bandwidth) if multiprocessors and mhz else 1.0


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": min, "max": max, "sqrt": math.sqrt, "log": math.log, "exp": math.exp, "floor": math.floor, "int": int,
    "pcie": pcie, "balance": balance,
}  # fmt: skip
_BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_COMPARED = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.In: lambda one, many: one in many, ast.NotIn: lambda one, many: one not in many,
}  # fmt: skip
_Part = Callable[[Scope], Any]


class Formula:
    """One formula. `metrics` are the metrics that it names, in order; `own` those at the same place as the value."""

    def __init__(self, text: str, where: str) -> None:
        """Raises CatalogueError for anything but the part of the syntax above."""
        self.text, self._where = text, where
        self.metrics: tuple[str, ...] = ()
        self.own: tuple[str, ...] = ()
        try:
            tree = ast.parse(text, mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise CatalogueError(f"{where}: {text!r} is not a formula") from None
        self._evaluate = self._part(tree.body)

    def value(self, scope: Scope) -> float | None:
        """The formula's value; None: a part of it is unknown, or it is undefined (a division by zero)."""
        try:
            found = self._evaluate(scope)
        except (Unknown, ArithmeticError, ValueError, TypeError):
            return None
        return None if found is None or isinstance(found, str) or not math.isfinite(found) else float(found)

    def _part(self, node: ast.expr) -> _Part:
        method = getattr(self, f"_of_{type(node).__name__}", None)
        if method is None:
            raise CatalogueError(f"{self._where}: {self.text!r}: {ast.unparse(node)!r} is not allowed in a formula")
        part: _Part = method(node)
        return part

    def _of_Constant(self, node: ast.Constant) -> _Part:
        value = node.value
        if not (value is None or type(value) in (int, float, str, bool)):
            raise CatalogueError(f"{self._where}: {self.text!r}: {value!r} is not allowed in a formula")
        return lambda scope: value

    def _of_Tuple(self, node: ast.Tuple) -> _Part:
        parts = [self._part(one) for one in node.elts]
        return lambda scope: tuple(part(scope) for part in parts)

    def _of_Name(self, node: ast.Name) -> _Part:
        name = node.id
        if name not in (ITSELF, LIMIT):
            self.metrics = (*self.metrics, name)
            self.own = (*self.own, name)
        return lambda scope: scope.metric(name, {})

    def _of_Attribute(self, node: ast.Attribute) -> _Part:
        owner, name = (node.value.id if isinstance(node.value, ast.Name) else ""), node.attr
        if name in STATISTICS and owner and owner not in OWNERS:
            self._of_Name(node.value)  # type: ignore[arg-type]
            return lambda scope: scope.metric(owner, {}, name)
        if owner not in OWNERS:
            raise CatalogueError(
                f"{self._where}: {self.text!r}: {ast.unparse(node)!r} is not an attribute of {', '.join(OWNERS)}"
            )
        return lambda scope: scope.attribute(owner, name)

    def _of_Call(self, node: ast.Call) -> _Part:
        if not isinstance(node.func, ast.Name):
            raise CatalogueError(f"{self._where}: {self.text!r}: {ast.unparse(node.func)!r} cannot be called")
        name = node.func.id
        arguments = [self._part(one) for one in node.args]
        changed = {one.arg or "": self._part(one.value) for one in node.keywords}
        if name == "row" and not changed:
            return lambda scope: scope.row(*(one(scope) for one in arguments))
        if name in FUNCTIONS and not changed:
            function = FUNCTIONS[name]
            return lambda scope: function(*(one(scope) for one in arguments))
        if arguments or "" in changed:
            allowed = ", ".join(FUNCTIONS)
            raise CatalogueError(f"{self._where}: {self.text!r}: {name} is not a function; allowed: {allowed}")
        self.metrics = (*self.metrics, name)
        return lambda scope: scope.metric(name, {key: one(scope) for key, one in changed.items()})

    def _of_BinOp(self, node: ast.BinOp) -> _Part:
        operation = _BINARY.get(type(node.op))
        if operation is None:
            raise CatalogueError(f"{self._where}: {self.text!r}: {ast.unparse(node)!r} is not allowed in a formula")
        left, right = self._part(node.left), self._part(node.right)
        return lambda scope: operation(left(scope), right(scope))

    def _of_UnaryOp(self, node: ast.UnaryOp) -> _Part:
        inner = self._part(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda scope: not inner(scope)
        sign = -1 if isinstance(node.op, ast.USub) else 1
        return lambda scope: sign * inner(scope)

    def _of_BoolOp(self, node: ast.BoolOp) -> _Part:
        parts = [self._part(one) for one in node.values]
        every = all if isinstance(node.op, ast.And) else any
        return lambda scope: every(part(scope) for part in parts)

    def _of_Compare(self, node: ast.Compare) -> _Part:
        parts = [self._part(one) for one in (node.left, *node.comparators)]
        tests = [_COMPARED.get(type(one)) for one in node.ops]
        if None in tests:
            raise CatalogueError(f"{self._where}: {self.text!r}: {ast.unparse(node)!r} is not allowed in a formula")

        def compared(scope: Scope) -> bool:
            values = [part(scope) for part in parts]
            pairs = zip(tests, values, values[1:], strict=False)
            return all(test(one, other) for test, one, other in pairs if test is not None)

        return compared

    def _of_IfExp(self, node: ast.IfExp) -> _Part:
        test, then, otherwise = (self._part(one) for one in (node.test, node.body, node.orelse))
        return lambda scope: then(scope) if test(scope) else otherwise(scope)
