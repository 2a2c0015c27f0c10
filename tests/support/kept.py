"""The kept sessions of real machines, samples included: tests/data/README.md."""

from __future__ import annotations

from functools import lru_cache
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

OPENACC = ROOT / "tests" / "data" / "h200-openacc.tar.xz"
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


def all_records() -> list[records.Record]:
    """Every kept record, in the order of their files."""
    return list(_of(FILE))


def first_runs() -> list[records.Record]:
    """Records with request and token, as this version writes them."""
    return list(_of(FIRST_RUNS))


def user_run() -> list[records.Record]:
    """The records of a newcomer's whole session."""
    return list(_of(USER_RUN))


def two_cards() -> list[records.Record]:
    """The records of a newcomer's whole session on two GPUs, and one of a solver over both."""
    return list(_of(TWO_CARDS))


def openacc() -> list[records.Record]:
    """The first records of OpenACC on a GPU, and two of mode published; three of StreamOpenACC were judged by rules for
    our own kernels.
    """
    return list(_of(OPENACC))


def one_user() -> list[records.Record]:
    """`make run` of one GPU, as an ordinary user and as root."""
    return list(_of(ONE_USER))


def h100() -> list[records.Record]:
    """`make run` of one H100, as an ordinary user and as root, and of another."""
    return list(_of(H100, H100_AGAIN))


def modes() -> list[records.Record]:
    """The records of many modes; three were judged FAIL by rules that have been corrected since."""
    return list(_of(MODES))


def acceptance() -> list[records.Record]:
    """The records of five sessions of one GPU."""
    return list(_of(ACCEPTANCE))


def two_quick() -> list[records.Record]:
    """The records of two sessions of another GPU."""
    return list(_of(TWO_QUICK))


def launches() -> list[records.Record]:
    """The records of launches of GEMM, session by session."""
    return list(_of(LAUNCHES))


def quick_run() -> list[records.Record]:
    """The records of `--system h200 --mode quick`, and of every precision in mode acceptance."""
    return list(_of(QUICK_RUN))


def one_card() -> list[records.Record]:
    """The records of all sessions of one GPU on 23 November 2026."""
    return list(_of(ONE_CARD))


def two_clean() -> list[records.Record]:
    """The records of two newcomers' sessions on two GPUs."""
    return list(_of(TWO_CLEAN))


def version_2() -> list[records.Record]:
    """The records of `make run` on two H100, the first of results of version 2."""
    return list(_of(VERSION_2))
