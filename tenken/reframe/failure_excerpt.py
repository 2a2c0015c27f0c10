"""Why a program, a launcher or a build failed, from its output: the relevant lines at the end."""

from __future__ import annotations

import re

#: Packages of Debian and Ubuntu with a command that a job needs.
PACKAGES = {
    "cmake": "cmake",
    "ninja": "ninja-build",
    "make": "make",
    "g++": "g++",
    "gcc": "gcc",
    "nvcc": "nvidia-cuda-toolkit",
    "mpicxx": "libopenmpi-dev",
    "mpirun": "openmpi-bin",
    "flock": "util-linux",
}

#: A horizontal rule, which launchers draw around a message.
_RULE = re.compile(r"[-=*_#~+ ]{8,}")
#: Lines that follow every failure and do not explain it.
_EPILOGUE = re.compile(
    r"ninja: build stopped"
    r"|\w*make(\[\d+\])?: \*\*\*"
    r"|(gmake|make)(\[\d+\])?: (Leaving|Entering) "
    r"|-- Configuring incomplete"
    r"|See also \""
    r"|Primary job +terminated normally"
    r"|a non-zero exit code\. Per user-direction"
    r"|(mpirun|mpiexec|prterun)( has| detected| noticed)?.*"
    r"(exited? with non-zero|exiting improperly|job to be terminated)"
    r"|with the \S+ job|Process name: |Exit code: "
    r"|\[\S+:\d+\] \S+ FORCE-TERMINATE AT "
    r"|srun: (error: .*Exited with exit code|Terminating|launch/\S+: _step_signal)"
    r"|FAILED: |\[\d+/\d+\] "
    r"|collect2: error: ld returned |\S*ld(\.\w+)?: error: lto-wrapper failed|compilation terminated"
    r"|(lto-wrapper|\w+ mkoffload|mkoffload): fatal error: \S+ returned "
    r"|TENKEN-"
)
_ERROR = re.compile(
    r"\b(fatal|error|errors|cannot|can't|could not|failed|unable|undefined reference|not found|no such|denied|refused"
    r"|killed|segmentation fault|abort(ed)?|terminate called|exception|out of memory|illegal instruction|bus error)\b",
    re.IGNORECASE,
)
# `script: line 12: cmake: command not found` of bash, `sh: 1: cmake: not found` of dash, in any language
_MISSING = re.compile(r"^[^:]*: (?:\w+ )?\d+: (?:exec: )?([\w.+/-]+): \S", re.MULTILINE)
#: bash's line of a program that was killed; of signal 9 the program itself prints nothing.
_KILLED = re.compile(r": line \d+: +\d+ Killed\b")
#: Messages of a program that could not write.
_FULL_DISK = re.compile(r"^.*(?:No space left on device|Disk quota exceeded).*$", re.MULTILINE)
#: CMake explains below the line that names its file, whose path may be long; the first error causes those that follow.
_CMAKE = re.compile(r"^(CMake Error)\b[^\n]*((?:\n(?:[ \t]+.*)?)+)", re.MULTILINE)
#: Characters of an answer.
LONGEST = 400


def why(text: str, status: int | None = None) -> str:
    """The reason for a failure in `text` (standard error, or all output); empty if there is none.

    A message between rules (Open MPI's) is given from its beginning, and so is CMake's first error; otherwise the last
    lines that mention an error or, if there are none, the last three. Exit status 127 names the command that was not
    found, and its package; 137 is explained.
    """
    if status == 137 and _KILLED.search(text):
        return "killed by signal 9, as by the kernel where memory, or the job's share of it, is short (dmesg names it)"
    if status == 127:
        missing = _MISSING.findall(text)
        if missing:
            name = missing[-1]
            package = PACKAGES.get(name.rsplit("/", 1)[-1])
            hint = f": install the package {package} (apt-get install {package})" if package else ""
            return f"command '{name}' was not found{hint}"
    full = _FULL_DISK.findall(text)
    if full:  # a part that could not be found or built
        return _short(full[-1].strip(), keep_end=True)
    blocks = _blocks(text)
    framed = _last_frame(blocks)
    if framed:
        return _short(" ".join(framed), keep_end=False)
    lines = [line for block in blocks for line in block]
    own = [line for line in lines if line.startswith("tenken: ")]
    if own:  # a missing part that the job script itself found explains the lines before it
        return _short(own[-1], keep_end=True)
    explained = _CMAKE.search(text)
    if explained:
        return _short(f"{explained[1]}: {' '.join(explained[2].split())}", keep_end=False)
    errors = [line for line in lines[-60:] if _ERROR.search(line)]
    return _short(" | ".join(errors[-2:] or lines[-3:]), keep_end=True)


def _blocks(text: str) -> list[list[str]]:
    """The relevant lines between rules; empty if there are none, or if a launcher only summarises what has ended."""
    blocks: list[list[str]] = [[]]
    for line in (line.strip() for line in text.splitlines()):
        if _RULE.fullmatch(line):
            blocks.append([])
        elif re.search(r"\w", line):
            blocks[-1].append(line)
    framed = [block if not block or not _EPILOGUE.match(block[0]) else [] for block in blocks[1:-1]]
    kept = [blocks[0], *framed, *blocks[1:][-1:]]
    return [[line for line in block if not _EPILOGUE.match(line)] for block in kept]


def _last_frame(blocks: list[list[str]]) -> list[str]:
    """The last message between two rules, if nothing relevant follows it."""
    if len(blocks) < 3 or blocks[-1]:
        return []
    return next((block for block in reversed(blocks[1:-1]) if block), [])


def _short(text: str, keep_end: bool) -> str:
    if len(text) <= LONGEST:
        return text
    return f"... {text[4 - LONGEST :]}" if keep_end else f"{text[: LONGEST - 4]} ..."
