"""Steps of one process on one device: timed ones, deterministic ones with fingerprints, and ones with a flipped bit."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from digest import checksum, flip, text
from model import Exchange, Transformer, head, tokens_of
from shapes import Shape
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim.adamw import adamw

#: Steps before anything is timed: allocation, the plans of libraries, gradient buckets.
WARM_UP = 4
#: Steps between two readings of the host's clock, so that the device never waits for it.
AHEAD = 2
#: Steps that are timed as one, without the events of phases.
PLAIN = 10
LEARNING_RATE, BETAS = 3e-4, (0.9, 0.95)
PHASES = ("forward", "backward", "optimiser")

Print = tuple[int, str, str]


@dataclass(frozen=True)
class Fault:
    """One bit of one element that is flipped at a step: of a weight before it is used, of a gradient before the
    optimiser, or of the output of a block after its fingerprint."""

    kind: str
    step: int
    tensor: int
    element: int
    bit: int

    @classmethod
    def drawn(cls, draw: random.Random, steps: int, kind: str) -> Fault:
        return cls(kind, draw.randrange(steps), draw.randrange(1 << 16), draw.randrange(1 << 40), draw.randrange(32))


@dataclass
class Timed:
    """Seconds of steps and of their phases; energy of all of them in joules."""

    steps: list[float] = field(default_factory=list)
    phases: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in PHASES})
    plain: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    joules: float | None = None
    seconds: float = 0.0


class Clock:
    """Moments of a device, by its events, or of the host."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"

    def now(self) -> Any:
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) / 1e3 if self.cuda else end - begin

    def wait(self, moment: Any) -> None:
        if self.cuda:
            moment.synchronize()


class AdamW:
    """AdamW by PyTorch's fused kernel, called as torch.optim.AdamW(fused=True) does. That class imports PyTorch's
    compiler, which takes as long as all the rest, also where nothing is compiled."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.parameters = list(parameters)
        #: Of each parameter, from its first gradient on.
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    def clear(self) -> None:
        for one in self.parameters:
            one.grad = None

    @torch.no_grad()
    def step(self) -> None:
        used = [(one, one.grad) for one in self.parameters if one.grad is not None]
        for one, _ in used:
            if one not in self.state:
                count = torch.zeros((), dtype=torch.float32, device=one.device)
                self.state[one] = {
                    "step": count, "exp_avg": torch.zeros_like(one), "exp_avg_sq": torch.zeros_like(one)
                }  # fmt: skip
        averages, squares, counts = (
            [self.state[one][name] for one, _ in used] for name in ("exp_avg", "exp_avg_sq", "step")
        )
        adamw(
            [one for one, _ in used], [grad for _, grad in used], averages, squares, [], counts, fused=True,
            amsgrad=False, beta1=BETAS[0], beta2=BETAS[1], lr=LEARNING_RATE, weight_decay=0.01, eps=1e-8,
            maximize=False,
        )  # fmt: skip


class Trainer:
    """The model, its optimiser and its data. Ranks of data parallelism draw different tokens, those of tensor
    parallelism the same ones."""

    def __init__(
        self, shape: Shape, batch: int, seed: int, device: torch.device, fp8: bool = False, parallel: str = "none",
        rank: int = 0, world: int = 1, micro_batches: int = 1,
    ) -> None:  # fmt: skip
        self.shape, self.batch, self.seed, self.device = shape, batch, seed, device
        self.micro_batches = micro_batches
        self.parallel, self.rank, self.world = parallel, rank, world
        tensor = parallel == "tensor"
        self.model = Transformer(shape, device, fp8, rank if tensor else 0, world if tensor else 1)
        self.model.reset(seed)
        self.ddp = None
        if parallel == "data":
            ids = [device.index or 0] if device.type == "cuda" else None
            self.ddp = DistributedDataParallel(self.model, device_ids=ids, gradient_as_bucket_view=True)
        self.optimiser = AdamW(self.model.parameters())
        self.clock = Clock(device)
        self.number = self.micro_batch = 0
        self.alone = False
        #: Called with the gradients before the optimiser.
        self.before_optimiser: Callable[[], None] | None = None

    @property
    def tokens_a_step(self) -> int:
        """Tokens of this process; ranks of tensor parallelism share them."""
        return self.micro_batches * self.batch * self.shape.sequence

    def compile(self) -> None:
        """Block by block: all blocks have the same code, which is compiled once."""
        for block in self.model.blocks:
            block.compile()
        self.model.head = torch.compile(head)

    def reset(self) -> None:
        """The state of the seed, before the first step."""
        self.model.reset(self.seed)
        self.optimiser.clear()
        for state in self.optimiser.state.values():
            for value in state.values():
                value.zero_()
        self.number = 0

    def data(self) -> tuple[Tensor, Tensor]:
        part = self.rank if self.parallel == "data" else 0
        number = self.number * self.micro_batches + self.micro_batch
        return tokens_of(self.shape, self.batch, self.seed + 104_729 * part, number, self.device)

    def step(self, moments: list[Any] | None = None) -> Tensor:
        """One step; its mean loss, without waiting for it. `moments`: the ends of its phases are appended. The last
        micro-batch exchanges the gradients of all."""
        note = (lambda: None) if moments is None else (lambda: moments.append(self.clock.now()))
        losses = []
        for number in range(self.micro_batches):
            self.micro_batch = number
            tokens, targets = self.data()
            quiet = self.ddp is not None and (self.alone or number < self.micro_batches - 1)
            with self.ddp.no_sync() if quiet and self.ddp is not None else contextlib.nullcontext():
                loss = (self.ddp or self.model)(tokens, targets)
                loss = loss / self.micro_batches if self.micro_batches > 1 else loss
                note()
                loss.backward()
            losses.append(loss.detach())
            note()
        if self.before_optimiser is not None:
            self.before_optimiser()
        self.optimiser.step()
        self.optimiser.clear()
        note()
        self.number += 1
        return sum(losses[1:], losses[0])

    # ---- timed ----

    @contextlib.contextmanager
    def by_itself(self) -> Iterator[None]:
        """Without exchange between ranks: the same work on each; the results are not used."""
        self.alone, Exchange.on = True, False
        try:
            yield
        finally:
            self.alone, Exchange.on = False, True

    def timed(
        self, seconds: float, least: int, plain: bool = False, joules: Callable[[], float | None] | None = None
    ) -> Timed:
        """Steps for this many seconds, at least `least`; all ranks agree when they end. `plain`: as many steps again
        without events in between, alternating with the others."""
        found = Timed()
        self._wait()
        self._barrier()
        energy, begun = joules() if joules else None, time.perf_counter()
        losses: list[Tensor] = []
        while True:
            moments: list[Any] = [self.clock.now()]
            for index in range(PLAIN):
                losses.append(self.step(moments))
                if index >= AHEAD:
                    self.clock.wait(moments[-1 - AHEAD * len(self.parts)])
            self.clock.wait(moments[-1])
            self._add(found, moments)
            if plain:
                begin = self.clock.now()
                for _ in range(PLAIN):
                    self.step()
                end = self.clock.now()
                self.clock.wait(end)
                found.plain.append(self.clock.seconds(begin, end) / PLAIN)
            if self._agreed(time.perf_counter() - begun >= seconds and len(found.steps) >= least):
                break
        self._wait()
        found.seconds = time.perf_counter() - begun
        after = joules() if joules else None
        found.joules = None if energy is None or after is None else after - energy
        found.losses = [float(one) for one in torch.stack(losses).tolist()]
        return found

    @property
    def parts(self) -> tuple[str, ...]:
        """The phases of a step in their order."""
        forward, backward, optimiser = PHASES
        return (forward, backward) * self.micro_batches + (optimiser,)

    def _add(self, found: Timed, moments: list[Any]) -> None:
        each = len(self.parts)
        for index in range(PLAIN):
            ends = moments[index * each : (index + 1) * each + 1]
            found.steps.append(self.clock.seconds(ends[0], ends[-1]))
            spent = dict.fromkeys(PHASES, 0.0)
            for name, begin, end in zip(self.parts, ends, ends[1:], strict=False):
                spent[name] += self.clock.seconds(begin, end)
            for name, seconds in spent.items():
                found.phases[name].append(seconds)

    def _agreed(self, done: bool) -> bool:
        if self.world == 1:
            return done
        flag = torch.tensor([int(done)], device=self.device)
        dist.all_reduce(flag, op=dist.ReduceOp.MIN)
        return bool(flag.item())

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _barrier(self) -> None:
        if self.world > 1:
            self._agreed(True)

    # ---- deterministic ----

    def deterministic(
        self, steps: int, every: int, fault: Fault | None = None, times: list[float] | None = None
    ) -> list[Print]:
        """Fingerprints of `steps` steps from the present state: loss and output of each block at every step; weights,
        gradients and both moments of the optimiser at every step whose number is one less than a multiple of `every`.
        """
        kept: list[tuple[int, str, Tensor]] = []
        names = dict(self.model.named_parameters())

        def keep(name: str, value: Tensor, differs: bool) -> None:
            kept.append((self.number, f"{name} of rank {self.rank}" if differs else name, checksum(value)))

        def seen(name: str, value: Tensor) -> None:
            of = f" of micro-batch {self.micro_batch}" if self.micro_batches > 1 else ""
            keep(f"{name}{of}", value, self.parallel == "data")
            if (
                fault is not None
                and self.micro_batch == 0
                and self._hits(fault, "activation")
                and name == f"block {fault.tensor % self.shape.layers}"
            ):
                flip(value, fault.element, fault.bit)

        def optimising() -> None:
            if (self.number + 1) % every == 0:
                for name, parameter in names.items():
                    assert parameter.grad is not None
                    keep(f"gradient of {name}", parameter.grad, self.model.divided(name))
            if fault is not None and self._hits(fault, "gradient"):
                chosen = list(names.values())[fault.tensor % len(names)]
                assert chosen.grad is not None
                flip(chosen.grad, fault.element, fault.bit)

        self.model.seen, self.before_optimiser = seen, optimising
        try:
            for _ in range(steps):
                begin = self.clock.now()
                if fault is not None and self._hits(fault, "weight"):
                    flip(list(names.values())[fault.tensor % len(names)], fault.element, fault.bit)
                number = self.number
                loss = self.step()
                self.number = number
                keep("loss", loss, self.parallel == "data")
                if (number + 1) % every == 0:
                    for name, parameter in names.items():
                        differs = self.model.divided(name)
                        keep(name, parameter, differs)
                        state = self.optimiser.state[parameter]
                        for moment in ("exp_avg", "exp_avg_sq"):
                            keep(f"{moment} of {name}", state[moment], differs)
                self.number = number + 1
                end = self.clock.now()
                if times is not None:
                    self.clock.wait(end)
                    times.append(self.clock.seconds(begin, end))
        finally:
            self.model.seen, self.before_optimiser = None, None
        numbers = torch.stack([one for _, _, one in kept]).tolist()
        return [(step, name, text(number)) for (step, name, _), number in zip(kept, numbers, strict=False)]

    def _hits(self, fault: Fault, kind: str) -> bool:
        return fault.kind == kind and fault.step == self.number

    # ---- flipped bits ----

    def state(self) -> list[Tensor]:
        """Weights and all of the optimiser's state."""
        states = self.optimiser.state
        return [
            *self.model.parameters(),
            *(one for parameter in self.model.parameters() for one in states[parameter].values()),
        ]

    def put(self, state: list[Tensor], number: int) -> None:
        with torch.no_grad():
            for own, one in zip(self.state(), state, strict=False):
                own.copy_(one)
        self.number = number

    def flips(self, count: int, steps: int, every: int, seed: int) -> dict[str, dict[str, int]]:
        """By kind: one bit flipped per run; found by the fingerprints up to the next multiple of `every` steps, without
        lasting change (masked), or changed the state without being found (missed)."""
        self.deterministic(1, every)  # the optimiser has a state from the first step on
        self.reset()
        clean: list[Print] = []
        states = []
        for _ in range(0, steps, every):
            states.append([one.clone() for one in self.state()])
            clean += self.deterministic(every, every)
        states.append([one.clone() for one in self.state()])
        draw = random.Random(seed)
        found: dict[str, dict[str, int]] = {}
        for index in range(count):
            fault = Fault.drawn(draw, steps, ("weight", "gradient", "activation")[index % 3])
            begin = fault.step // every
            self.put(states[begin], begin * every)
            prints = self.deterministic(every, every, fault)
            expected = [one for one in clean if begin * every <= one[0] < (begin + 1) * every]
            # by another method: bits of the whole state
            same = all(
                torch.equal(a.view(torch.int32), b.view(torch.int32))
                for a, b in zip(self.state(), states[begin + 1], strict=False)
            )
            outcome = "found" if prints != expected else "masked" if same else "missed"
            of_kind = found.setdefault(fault.kind, {"found": 0, "masked": 0, "missed": 0})
            of_kind[outcome] += 1
        return found


def product_seconds(device: torch.device, size: int, seconds: float) -> list[float]:
    """Seconds of products of two BF16 matrices of random numbers, `size` in all directions, one after another."""
    a, b = (torch.randn(size, size, device=device).to(torch.bfloat16) for _ in range(2))
    clock, found, begun = Clock(device), [], time.perf_counter()
    while time.perf_counter() - begun < seconds or len(found) < 3:
        begin = clock.now()
        for _ in range(PLAIN):
            a @ b
        end = clock.now()
        clock.wait(end)
        found.append(clock.seconds(begin, end) / PLAIN)
    return found[len(found) // 2 :] if len(found) > 5 else found
