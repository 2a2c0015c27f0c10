"""Runs one of the OSU benchmarks among mpi4py's demos, with few repetitions and messages of at most 64 KiB.

    mpirun -np 2 python3 osu_port.py demo/osu_latency.py [-c]

The demos verify nothing. With -c, as with OSU's own programs, every message is compared with what its sender filled in,
and each line ends in Pass or Fail; --fault changes one byte of each message of 64 B.
"""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from pathlib import Path
from typing import Any

from mpi4py import MPI

_WORDS = bytes(range(251))


class Compared(MPI.Intracomm):
    """A communicator that fills what is sent and compares what is received; `wrong` has the sizes that differ."""

    fault = False

    def __new__(cls, other: MPI.Intracomm) -> Compared:
        self: Compared = super().__new__(cls, other)
        self.compared, self.wrong = set(), set()  # of sizes in bytes
        return self

    compared: set[int]
    wrong: set[int]

    @staticmethod
    def content(sender: int, size: int) -> bytes:
        first = (31 * sender + size) % 251
        return (_WORDS * (size // 251 + 2))[first : first + size]

    def fill(self, message: list[Any]) -> None:
        memory, size = message[0], message[1]
        memory[:size] = self.content(self.rank, size)
        if self.fault and size == 64:
            memory[7] ^= 1

    def compare(self, message: list[Any], sender: int) -> None:
        memory, size = message[0], message[1]
        self.compared.add(size)
        if memory[:size] != self.content(sender, size):
            self.wrong.add(size)

    def Send(self, message: Any, dest: int, tag: int = 0) -> None:
        self.fill(message)
        super().Send(message, dest, tag)

    def Recv(self, message: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None) -> None:
        message[0][: message[1]] = bytes(message[1])
        super().Recv(message, source, tag, status)
        self.compare(message, source)


def main() -> None:
    file, *options = sys.argv[1:]
    program = runpy.run_path(file)[Path(file).stem]
    few = {"skip": 2, "loop": 20, "skip_large": 1, "loop_large": 5, "MAX_MSG_SIZE": 1 << 16}
    if "-c" not in options:
        program(**few)
        return
    world = Compared(MPI.COMM_WORLD)
    world.fault = "--fault" in options
    MPI.COMM_WORLD = world  # type: ignore[misc]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        program(**few)
    compared = set.intersection(*world.allgather(world.compared))
    wrong = set.union(*world.allgather(world.wrong))
    for line in printed.getvalue().splitlines():
        size = line.split()[0]
        if size.isdigit() and int(size) in compared:
            line += f"{'Fail' if int(size) in wrong else 'Pass':>18}"
        print(line)


if __name__ == "__main__":
    main()
