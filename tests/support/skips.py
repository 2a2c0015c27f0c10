"""Tests that may be skipped in CI, and why they cannot be run there. Any other skip is a failure: a test that is never
run shows nothing.

Elsewhere a test may be skipped if a machine lacks something (no root for Debian's packages, no mount namespaces)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Allowed:
    """`reason`: a pattern of the whole message of the skip; `where`: the beginning of the test's id; `why`: why CI
    cannot run it."""

    where: str
    reason: str
    why: str


ALLOWED = (
    Allowed(
        "tests/test_environments.py::", r"no Python 3\.\d+ here",
        "an image has one Python or a few; the one that it has is tested",
    ),
    Allowed(
        "tests/programs/", "this machine does not report its caches",
        "a virtual machine may hide them, and the test is of what is refused for their size",
    ),
    Allowed("tests/programs/test_cuda.py::", "this machine has a driver", "the test is of what is said without one"),
    Allowed("tests/unit/toolchains/test_kit.py::", "the kit of this test is for x86_64", "it is of one architecture"),
    Allowed(
        "tests/unit/test_processors.py::", "this processor lacks AVX-512, .* without asking",
        "the kernels would end at an illegal instruction; the other ones are tested",
    ),
    Allowed(
        "tests/unit/reports/test_sealed_acceptance.py::", "ssh-keygen is not installed",
        "the pure tests install nothing, and only OpenSSH's own program shows what it accepts",
    ),
    Allowed("tests/unit/test_processors.py::", "OpenBLAS has these kernels for x86_64", "it is of one architecture"),
)  # fmt: skip


def in_ci(env: Mapping[str, str] = os.environ) -> bool:
    """Whether the tests run unattended: then a skip must be one of those."""
    return bool({"CI", "TENKEN_CI"} & env.keys())


def refused(test: str, reason: str) -> str | None:
    """Why this test may not be skipped for this reason in CI; None: it may."""
    if any(test.startswith(one.where) and re.fullmatch(one.reason, reason) for one in ALLOWED):
        return None
    return f"{test} is skipped in CI: {reason}; make it run, or add it with its reason to tests/support/skips.py"
