"""The command lines of the documentation, parsed by the programs themselves, including bounds, choices and sizes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs import commands

pytestmark = [pytest.mark.build]

#: Not in a build for the host: tests/docs/test_commands.py looks up their options in the sources.
ELSEWHERE = {"p2p": "CUDA", "mpi_p2p": "MPI", "nccl": "CUDA"}

#: Values that only a build with CUDA accepts.
OF_A_GPU = {("--backend", "cuda"), ("--form", "managed")}


def of_the_host(words: list[str], known: set[str]) -> list[str]:
    """A command line without the GPU back end and its options, which a build for the host lacks."""
    kept: list[str] = []
    left_out = False
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word.startswith("--"):
            left_out = word not in known or (word, following) in OF_A_GPU
        if not left_out:
            kept.append(word)
    return kept


def read(program: Path, words: list[str]) -> str | None:
    """The program's refusal; with --help it parses everything before it, and runs nothing."""
    said = subprocess.run([str(program), "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^\s+(--[\w-]+)", said, re.M))
    assert {"--json", "--help"} <= known, said[:400]
    command = [str(program), *of_the_host(words, known), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip()


def test_the_programs_take_the_commands_of_the_documentation(build_dir: Path) -> None:
    wrong, count = [], 0
    for command in commands.documented()[0]:
        name = Path(command.words[0]).name
        if name not in commands.programs() or name in ELSEWHERE:
            continue
        count += 1
        refused = read(build_dir / "bin" / name, list(command.words[1:]))
        wrong += [f"{command}: {refused}"] if refused else []
    assert not wrong, "\n".join(wrong)
    assert count > 40
    assert not [name for name in ELSEWHERE if (build_dir / "bin" / name).exists()], "is built, and can be read here"


@pytest.mark.parametrize("words", [["--repetitions", "0"], ["--array-bytes", "1Xi"], ["--backend", "hots"], ["extra"]])
def test_a_value_that_is_refused_is_found(build_dir: Path, words: list[str]) -> None:
    assert read(build_dir / "bin" / "stream", words)


def test_options_of_a_gpu_are_left_out() -> None:
    words = ["--backend", "cuda", "--gpus", "0,2", "--at-once", "--repetitions", "3"]
    assert of_the_host(words, {"--backend", "--repetitions"}) == ["--repetitions", "3"]
    assert of_the_host(["--backend", "host"], {"--backend"}) == ["--backend", "host"]
