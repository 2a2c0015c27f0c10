"""What the job script reads of its host."""

from __future__ import annotations

import pytest

from tenken.reframe import joblines


@pytest.mark.parametrize(("online", "cpus"), [
    ("0", 1), ("0-15", 16), ("0-3,8,10-11", 7), ("", None), ("all", None), ("0-", None), ("3-1000000000", None),
])  # fmt: skip
def test_cpus_are_those_that_the_kernel_has_online(online: str, cpus: int | None) -> None:
    host = f"TENKEN-HOST machine=m kernel=k online={online} memory_kib=8 cpu=c"
    reading = joblines.report(f"TENKEN-BEGIN token=t node=n time=1 job=none\n{host}\n").host
    assert reading.logical_cpus == cpus and reading.memory_bytes == 8192
