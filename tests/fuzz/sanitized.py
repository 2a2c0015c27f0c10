"""`python -m tests.fuzz.sanitized [COUNT [SEED]]`: broken .mtx files and HPL.dat under sanitizers (docs/fuzzing.md)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tenken.paths import ROOT

SOURCES = ROOT / "src"
#: Harness of tests/programs/fuzz -> the sources that it tests.
HARNESSES = {
    "market": ("lib/sparse/matrix_market.cpp", "lib/sparse/byte_source.cpp", "lib/sparse/csr.cpp"),
    "dat": ("programs/hpl/dat.cpp",),
}
_FLAGS = ["-std=c++14", "-O1", "-g0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{SOURCES}"]


def build(name: str, folder: Path, sources: Sequence[str] | None = None) -> str:
    """Compile a harness, or a file with a full path; returns the program. Raises CalledProcessError."""
    harness = Path(name) if "/" in name else ROOT / "tests" / "programs" / "fuzz" / f"{name}.cpp"
    program = folder / f"fuzz_{harness.stem}"
    tried = [str(SOURCES / one) for one in (HARNESSES[name] if sources is None else sources)]
    subprocess.run(["g++", *_FLAGS, "-o", str(program), str(harness), *tried], check=True)
    return str(program)


def main() -> int:
    given = sys.argv[1:3]
    count, seed = given[0] if given else "5000", given[1] if len(given) > 1 else str(int(time.time()))
    worst = 0
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in HARNESSES:
            print(f"{name}: ", end="", flush=True)
            worst |= subprocess.run([build(name, Path(folder)), count, seed], check=False).returncode
    return worst


if __name__ == "__main__":
    sys.exit(main())
