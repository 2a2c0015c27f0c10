"""The kept sessions of real machines, samples included: tests/data/README.md."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path

from tenken.archive import packed, records
from tenken.paths import ROOT

FILE = ROOT / "tests" / "data" / "h200-archive.tar.xz"
#: `make run` of a bare machine as root from the kit, and gemm and hpl_mxp in mode acceptance: with request and token.
FIRST_RUNS = ROOT / "tests" / "data" / "h200-first-runs.tar.xz"
#: `make run` of a bare machine as an ordinary user from the kit, with locks and load in every result.
USER_RUN = ROOT / "tests" / "data" / "h200-user-run.tar.xz"
#: `make run` of a bare machine with two GPUs as root, and HPL-MxP over both.
TWO_CARDS = ROOT / "tests" / "data" / "h200-two-cards.tar.xz"
#: The system file's own run in mode quick on one GPU, and GEMM and HPL-MxP in mode acceptance.
QUICK_RUN = ROOT / "tests" / "data" / "h200-quick-run.tar.xz"
#: Five runs of one GPU in mode quick, for its acceptance.
ACCEPTANCE = ROOT / "tests" / "data" / "h200-acceptance.tar.xz"
#: Two whole runs of another GPU in mode quick.
TWO_QUICK = ROOT / "tests" / "data" / "h200-two-quick.tar.xz"

#: Launches of DGEMM on two GPUs, before and after algorithms were compared one at a time.
LAUNCHES = ROOT / "tests" / "data" / "h200-gemm-launches.tar.xz"
VERSION_2 = ROOT / "tests" / "data" / "h100-two-v2.tar.xz"
#: Third-party programs on two H100, and ours next to them.
FIELD = ROOT / "tests" / "data" / "h100-field.tar.xz"

#: One GPU as root: the system file's own run in mode quick, ten launches of DGEMM, HPL-MxP; `make run` as an ordinary
#: user and as root.
ONE_CARD = ROOT / "tests" / "data" / "h200-one-card.tar.xz"
#: `make run` of a bare machine with two GPUs, as an ordinary user and as root.
TWO_CLEAN = ROOT / "tests" / "data" / "h200-two-clean.tar.xz"
#: One GPU and two: the whole quick run, `make run` as an ordinary user, and checks of modes acceptance and published.
MODES = ROOT / "tests" / "data" / "h200-modes.tar.xz"

#: OpenACC on a GPU, of which three were judged by rules for our own kernels, and two of mode published.
OPENACC = ROOT / "tests" / "data" / "h200-openacc.tar.xz"
#: `make run` of one GPU, as an ordinary user and as root.
ONE_USER = ROOT / "tests" / "data" / "h200-one-user.tar.xz"
#: A GPU that no system file describes: `make run` of an H100, as an ordinary user and as root.
H100 = ROOT / "tests" / "data" / "h100-one-user.tar.xz"
#: The same for another H100, after the GPU began to write transfer's sources.
H100_AGAIN = ROOT / "tests" / "data" / "h100-two-runs.tar.xz"
#: A user whose PATH lacks CUDA: `make run` and the system file's own run in mode quick.
PATH_USER = ROOT / "tests" / "data" / "h200-path-user.tar.xz"


@lru_cache
def _of(*files: Path) -> tuple[records.Record, ...]:
    """Cached per process: several modules need them for collection."""
    return tuple(record for file in files for record in records.records(packed.folder_of(file)))


def archive() -> Path:
    """The kept archive as a read-only folder."""
    return packed.folder_of(FILE)


#: The records of each, in the order of their files.
all_records = partial(_of, FILE)
first_runs = partial(_of, FIRST_RUNS)
user_run = partial(_of, USER_RUN)
two_cards = partial(_of, TWO_CARDS)
openacc = partial(_of, OPENACC)
one_user = partial(_of, ONE_USER)
h100 = partial(_of, H100, H100_AGAIN)
modes = partial(_of, MODES)
acceptance = partial(_of, ACCEPTANCE)
two_quick = partial(_of, TWO_QUICK)
launches = partial(_of, LAUNCHES)
quick_run = partial(_of, QUICK_RUN)
one_card = partial(_of, ONE_CARD)
two_clean = partial(_of, TWO_CLEAN)
version_2 = partial(_of, VERSION_2)
