"""The committed examples of a night: the lock, the time limit, what is posted; and the pipelines."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tenken.paths import ROOT
from tests.cluster.conftest import on_a_small_disk, small_disks  # noqa: F401 -- a fixture
from tests.support.reframe import reframe

REFRAME = """#!/bin/sh
trap 'echo "jobs cancelled"; kill $pid; exit 1' TERM
env | grep -E '^(SLURM_|RFM_COLORIZE)' | sort
sleep ${SLEEP:-0} & pid=$!
wait $pid
exit ${CODE:-0}
"""
TENKEN = """#!/bin/sh
if [ "$1" = gate ]; then
    mkdir -p "$5"; echo "# Tenken gate: of $3" > "$5/summary.md"; echo page > "$5/nightly.html"
    echo "Gate: verdict"; exit ${GATE:-0}
fi
[ "$1" = report ] || exit 0
mkdir -p output/pages; echo page > output/pages/$3.html; echo "Tenken: verdicts"
[ "${TENKEN_TERMINAL:-}" = brief ] || echo "Verdict    Check    Where"; echo "Page: output/pages/$3.html"
"""


@pytest.fixture
def night(tmp_path: Path):
    """A checkout in which reframe and tenken are stand-ins."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    bin_ = tmp_path / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "activate").write_text(f"PATH={bin_}:$PATH; export PATH\n")
    for name, text in (("reframe", REFRAME), ("tenken", TENKEN), ("post", '#!/bin/sh\necho "$@" > posted\n')):
        (bin_ / name).write_text(text)
        (bin_ / name).chmod(0o755)

    def start(**env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(tmp_path / "examples" / "nightly" / "nightly.sh"), "minislurm"],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **env},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    start.folder = tmp_path  # type: ignore[attr-defined]
    return start


def children(pid: int) -> list[int]:
    """A process and all that it started."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in found for one in children(int(child)))]


def log(folder: Path) -> str:
    (path,) = (folder / "output" / "nightly").glob("*.log")
    return path.read_text()


def test_a_night_runs_reports_and_posts(night):
    process = night(TENKEN_POST="post")
    output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "")
    page, logged, status, gate, gated = (night.folder / "posted").read_text().split()
    assert (night.folder / page).read_text() == "page\n"
    assert "Tenken: verdicts" in (night.folder / logged).read_text()
    assert (status, gate, gated) == ("0", "output/gate/minislurm", "0")
    assert "Gate: verdict" in (night.folder / logged).read_text()


@pytest.mark.parametrize(("code", "gate", "status"), [("0", "1", 1), ("0", "3", 3), ("1", "0", 1), ("2", "3", 2)])
def test_a_night_ends_with_what_the_gate_says(night, code, gate, status):
    process = night(CODE=code, GATE=gate)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == status
    assert ("Gate: verdict" in output) == (gate != "0" or code != "0")


@pytest.mark.parametrize(
    ("code", "gate", "subject"),
    [
        ("0", "0", None),
        ("0", "1", "Tenken: something got worse; the night ended with 0"),
        ("0", "3", "Tenken: the gate could not judge all (status 3); the night ended with 0"),
        ("1", "0", "Tenken: nothing got worse; the night ended with 1"),
    ],
)
def test_what_arrives_in_the_mailbox(night, code, gate, subject):
    mail = night.folder / ".venv" / "bin" / "mail"
    mail.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > mailed; cat > body\n')
    mail.chmod(0o755)
    post = str(night.folder / "examples" / "nightly" / "post-mail.sh")
    night(CODE=code, GATE=gate, TENKEN_POST=post, TENKEN_MAILTO="ops@site").communicate(timeout=30)
    mailed = night.folder / "mailed"
    assert mailed.exists() == (subject is not None)
    if subject is not None:
        arguments = mailed.read_text().splitlines()
        assert arguments[:2] == ["-s", subject] and arguments[-1] == "ops@site"
        assert all((night.folder / one).is_file() for one in arguments[3:-1:2])
        text = (night.folder / "body").read_text()
        assert "# Tenken gate: of minislurm" in text and "Verdict    Check    Where\nPage: " in text


@pytest.mark.parametrize(
    ("version", "attached"),
    [
        ("s-nail v14.9.24, 2022-03-26 (built for Linux)", ["-a", "page.html"]), ("12.5 7/5/10", ["-a", "page.html"]),
        ("mail (GNU Mailutils) 3.15", ["-A", "page.html"]),
        ("mail: invalid option -- 'V'\nusage: mail [-dEIinv] [-a header] [-b bcc-addr] to-addr ...", []),
    ],
)  # fmt: skip
def test_every_kind_of_mail_gets_an_option_that_it_has(tmp_path: Path, version: str, attached: list[str]) -> None:
    mail = tmp_path / "mail"
    mail.write_text(f'#!/bin/sh\n[ "$1" != -V ] || {{ echo "{version}" >&2; exit 1; }}\nprintf "%s\\n" "$@"; cat\n')
    mail.chmod(0o755)
    (tmp_path / "page.html").write_text("page")
    (tmp_path / "log").write_text("Verdict    Check    Where\nPage: /there/page.html\n")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TENKEN_MAILTO": "ops@site"}
    words = ["sh", str(ROOT / "examples/nightly/post-mail.sh"), "page.html", "log", "1", "gate", "3"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[2 : 3 + len(attached)] == [*attached, "ops@site"], done.stdout
    assert "Page: /there/page.html" in done.stdout
    silent = subprocess.run([*words[:4], "0", "gate", "0"], cwd=tmp_path, env={"PATH": env["PATH"]},
                            capture_output=True, text=True, check=False)  # fmt: skip
    assert silent.returncode == 2 and "TENKEN_MAILTO is not set: no mail is sent" in silent.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "LOGNAME": "op"},
        {"LANG": "C", "XDG_RUNTIME_DIR": "/run/user/1"},
    ],
    ids=["none", "cron", "systemd"],
)
def test_a_night_needs_nothing_of_a_login_shell(night, environment):
    """Without HOME, PATH, TERM and a terminal, and with files of its own that others may not read."""
    script = night.folder / "examples/nightly/nightly.sh"
    done = subprocess.run(
        ["/bin/sh", "-c", f'umask 077; cd /; exec 0<&-; exec "{script}" minislurm'],
        env={**environment, "TENKEN_POST": "post"}, start_new_session=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (night.folder / "posted").is_file() and "RFM_COLORIZE=n" in log(night.folder)


def test_a_failed_night_says_so_where_cron_mails_it(night):
    process = night(CODE="1", GATE="3")
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "Tenken: verdicts" in output and output.count("Gate: verdict") == 1


def test_two_nights_never_overlap(night):
    first = night(SLEEP="4")
    until = time.time() + 10
    lock = night.folder / "output" / "nightly" / "minislurm.lock"
    while not (lock.exists() and lock.read_text()) and time.time() < until:
        time.sleep(0.05)
    second = night()
    output, _ = second.communicate(timeout=30)
    assert second.returncode == 75
    assert f"the last night of minislurm still runs (process {first.pid} on" in output
    first.communicate(timeout=30)
    assert first.returncode == 0
    third = night()
    third.communicate(timeout=30)
    assert third.returncode == 0


def test_what_a_night_posts_with_may_stay_in_the_background(night):
    """It does not hold the lock: all further nights would be left out."""
    post = night.folder / ".venv" / "bin" / "post"
    post.write_text("#!/bin/sh\nsleep 60 > /dev/null 2>&1 &\necho $! > posted\n")
    night(TENKEN_POST="post").communicate(timeout=30)
    left = int((night.folder / "posted").read_text())
    try:
        again = night()
        output, _ = again.communicate(timeout=30)
    finally:
        os.kill(left, signal.SIGKILL)
    assert (again.returncode, output) == (0, "")


def test_a_night_ends_at_its_hard_limit_and_reports_what_there_is(night):
    process = night(SLEEP="60", TENKEN_LIMIT="1s")
    process.communicate(timeout=30)
    assert process.returncode != 0
    assert "jobs cancelled" in log(night.folder)
    assert "Tenken: verdicts" in log(night.folder)


@pytest.mark.parametrize("group", [False, True])
def test_sigterm_reaches_reframe_and_the_night_says_so(night, group):
    """ReFrame and its jobs continued, while the lock named a process that was gone. systemd signals all at once."""
    process = night(SLEEP="60")
    until = time.time() + 20
    while "reframe -c checks" not in (log(night.folder) if list(night.folder.rglob("*.log")) else ""):
        assert time.time() < until
        time.sleep(0.05)
    time.sleep(0.5)
    for pid in children(process.pid) if group else [process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode != 0
    assert "jobs cancelled" in log(night.folder) and "Tenken: verdicts" in log(night.folder)
    again = night()
    again.communicate(timeout=30)
    assert again.returncode == 0


def test_a_night_whose_script_was_killed_is_told_by_the_next(night):
    process = night(SLEEP="8")
    until = time.time() + 20
    while not list(night.folder.rglob("output/nightly/*.log")):
        assert time.time() < until
        time.sleep(0.05)
    time.sleep(0.5)
    process.kill()
    process.wait()
    said = subprocess.run(
        [str(night.folder / "examples" / "nightly" / "nightly.sh"), "minislurm"],
        env={"PATH": os.environ["PATH"], "HOME": str(night.folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 75
    assert f"process {process.pid} of the last night of minislurm is gone, but the ReFrame" in said.stderr
    process.communicate(timeout=30)


@pytest.mark.usefixtures("small_disks")
def test_a_night_on_a_full_disk_says_so_and_starts_nothing(night):
    """The next one, once there is space, runs normally."""
    script = [str(night.folder / "examples" / "nightly" / "nightly.sh"), "minislurm"]
    done = subprocess.run(
        [*on_a_small_disk(night.folder / "output", True), *script],
        env={"PATH": os.environ["PATH"], "HOME": str(night.folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 74, done.stderr
    assert (
        f"nightly: {night.folder}/output/nightly/minislurm.lock cannot be written: is its disk full (0 KiB"
        in done.stderr
    )
    assert ".log" not in done.stdout
    process = night()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_what_slurm_told_the_night_does_not_reach_its_jobs(night):
    process = night(SLURM_CONF="/etc/slurm.conf", SLURM_MEM_PER_NODE="100", SLURM_NTASKS="1")
    process.communicate(timeout=30)
    lines = [line for line in log(night.folder).splitlines() if line.startswith("SLURM_")]
    assert lines == ["SLURM_CONF=/etc/slurm.conf"]


@pytest.mark.parametrize(
    "file", ["examples/ci/gitlab-ci.yml", "examples/ci/github-nightly.yml", ".github/workflows/tests.yml"]
)
def test_pipelines_are_yaml(file):
    assert YAML(typ="safe").load((ROOT / file).read_text())


def test_gitlabs_pipeline_is_generated_with_a_job_for_each_check(tmp_path):
    pipeline = tmp_path / "pipeline.yml"
    outcome = reframe("--system", "minislurm", "--mode", "nightly", f"--ci-generate={pipeline}", folder=tmp_path)
    assert outcome.code == 0, outcome.output
    made = YAML(typ="safe").load(pipeline.read_text())
    jobs = [name for name in made if name.startswith("StreamHost")]
    assert len(jobs) == 1
    assert any("reframe" in line and "-r" in line for line in made[jobs[0]]["script"])


TABLE = """noise of the session
Verdict    Check    Where    Node    Why
PASS       Stream   m        n1
FAIL       P2P      m        n2      slow
Session s: FAIL (1 FAIL, 1 PASS)

Page: output/pages/s.html
noise of the gate
"""


@pytest.mark.parametrize(
    ("log_text", "summary", "page", "body", "attached"),
    [
        (TABLE, "# Tenken gate", True, ["# Tenken gate", "FAIL       P2P      m        n2      slow", "Page: "], 1),
        # the first night: no history yet, so no summary
        (TABLE, None, True, ["the gate's own line", "Session s: FAIL"], 1),
        # it ended before its report
        ("tenken: no nvcc\nlast words\n", None, False, ["last words"], 0),
    ],
)
def test_the_mail_has_the_table_and_attaches_what_exists(
    tmp_path: Path, log_text: str, summary: str | None, page: bool, body: list[str], attached: int
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mail").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > mailed; cat > body\n')
    (tmp_path / "bin" / "mail").chmod(0o755)
    (tmp_path / "gate").mkdir()
    (tmp_path / "gate.log").write_text("the gate's own line\n")
    (tmp_path / "night.log").write_text(log_text)
    if summary:
        (tmp_path / "gate" / "summary.md").write_text(summary + "\n")
    if page:
        (tmp_path / "p.html").write_text("page")

    def post(**env: str) -> subprocess.CompletedProcess[str]:
        script = str(ROOT / "examples" / "nightly" / "post-mail.sh")
        more = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", **env}
        words = [script, "p.html", "night.log", "1", "gate", "3"]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, env=more)

    without = post()
    assert (without.returncode, without.stderr.count("\n")) == (2, 1) and "TENKEN_MAILTO is not set" in without.stderr
    assert post(TENKEN_MAILTO="ops@site").returncode == 0
    text = (tmp_path / "body").read_text()
    assert all(one in text for one in body) and "noise" not in text
    assert (tmp_path / "mailed").read_text().splitlines().count("-a") == attached
