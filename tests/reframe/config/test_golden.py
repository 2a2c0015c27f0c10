"""Job scripts of all checks on all systems, compared with the golden ones, and those with the sites' publications."""

from __future__ import annotations

import difflib
import re
import subprocess
from collections import Counter
from functools import partial
from typing import Any

import pytest

from tenken.machines import loader
from tenken.paths import ROOT
from tenken.reframe import joblines
from tests.reframe.config import golden
from tests.reframe.config.golden import (
    FOLDER,
    OF_MODES,
    OF_REQUESTS,
    SYSTEMS,
    Script,
    beside,
    files,
    modes,
    requests,
    scripts,
)
from tests.support.options import ranges, refused

_NODES = 'echo "TENKEN-NODES $tenken_nodes"'
_BEGIN = 'echo "TENKEN-BEGIN token=$tenken_token '
_END = joblines.end()[0]
_ENTER = joblines.enter("/").replace("/", "{stage}", 1)
_GPUS = "nvidia-smi -L | sed 's/^/TENKEN-GPU /'"

#: Contents of a site's published scripts and notes, as regular expressions of whole lines.
PUBLISHED = {
    "miyabi": [
        "#PBS -q regular-g", "#PBS -W group_list=gz00", "#PBS -l select=1:mpiprocs=1", "#PBS -l select=2:mpiprocs=1",
        "#PBS -l walltime=00:30:00", "#PBS -j oe", "source /etc/profile.d/modules.sh", "module purge",
        "module load gcc/12.4.0", "module load cuda/12.6", "module load ompi-cuda/4.1.6-12.6",
        "module load nvidia/24.9", "module load nv-hpcx/24.9", "unset OMPI_MCA_mca_base_env_list",
        "mpirun -np? 2 --map-by ppr:1:node .*", "#PBS -l place=scatter",
    ],
    "pegasus": [
        "#PBS -A gz00", "#PBS -q gen_S", "#PBS -b 1", "#PBS -b 2", "#PBS -l elapstim_req=00:30:00",
        "#PBS -T openmpi", "#PBS -v NQSV_MPI_VER=5.0.10/gcc11.4.0-cuda12.6.3", "#PBS --cpunum-lhost=48",
        "#PBS --gpunum-lhost=1", "module load openmpi/5.0.10/gcc11.4.0-cuda12.6.3", "module load cuda/12.6.3",
        "module load nvhpc-hpcx-cuda13/25.11", r"mpirun \$\{NQSV_MPIOPTS\} -np 2 -npernode 1 .*", "#!/bin/bash",
    ],
    "reedbush-h": [
        "#PBS -q h-small", "#PBS -l select=1:mpiprocs=1", "#PBS -W group_list=gz00", "#PBS -l walltime=00:30:00",
        r"\. /etc/profile.d/modules.sh", "module load cuda9/9.2.148", "module load pgi/19.3", "module load openmpi",
    ],
    "reedbush-l": [
        "#PBS -q l-small", "#PBS -l select=1:mpiprocs=1", "#PBS -W group_list=gz00", "#PBS -l walltime=00:30:00",
        r"\. /etc/profile.d/modules.sh", "module load cuda9/9.2.148", "module load pgi/19.3", "module load openmpi",
    ],
    "tsubame3": [
        r"#\$ -cwd", r"#\$ -l f_node=1", r"#\$ -l f_node=2", r"#\$ -l h_rt=00:30:00", "module load cuda/9.2.148",
        "module load pgi/19.1", "module load openmpi", r"\. /etc/profile.d/modules.sh",
    ],
    "minislurm": [
        "#SBATCH --partition=gpu", "#SBATCH --nodes=2", "#SBATCH --no-requeue", "srun .*",
    ],
}  # fmt: skip
#: Lines that must not occur there.
NOT_PUBLISHED = {"miyabi": ["ngpus", "ncpus"], "tsubame3": ["-g gz00"], "pegasus": ["hostfile"]}


#: How each third-party binary is started, and how its command begins or ends.
FOREIGN_CHECKS = {
    "HpcgBinary": r"; by: \S+ .* rank /site/xhpcg$", "HplOther": r"&& /site/xhpl\b", "HplHpcc": r"&& hpcc\b",
    "HplMxpOther": r"&& /site/xhpl_mxp .*--gpu-affinity",
    "MpiOsu": r'; each by: \S+ .* rank "\$1" -c', "NcclTests": r'; each by: "\$1" -b 1024 -e 1073741824 ',
}  # fmt: skip


#: A system of each scheduler, whose scripts `make test` compares.
FIRST = ("h200", "minislurm", "miyabi", "pegasus", "tsubame3")


def _marked(name: str) -> Any:
    """One dry run per system, in whichever worker has its tests."""
    group = pytest.mark.xdist_group(f"golden {name}")
    return pytest.param(name, marks=[group] if name in FIRST else [group, pytest.mark.sessions])


@pytest.fixture(scope="module", params=map(_marked, SYSTEMS))
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Script]]:
    """A system and its distinct job scripts."""
    return request.param, scripts(request.param, tmp_path_factory.mktemp("golden").resolve())


def test_job_scripts_are_the_golden_ones(site):
    name, found = site
    for file, text in files(found).items():
        golden = FOLDER / name / file
        assert golden.is_file(), f"no golden scripts of {name}: python -m tests.reframe.config.golden {name}"
        diff = difflib.unified_diff(
            golden.read_text().splitlines(), text.splitlines(), f"golden/{name}/{file}", "now", lineterm="", n=4
        )
        changes = "\n".join(diff)
        assert not changes, (
            f"{changes}\n(if this is meant: python -m tests.reframe.config.golden {name}, and say why in CHANGELOG.md)"
        )


def test_the_commands_of_each_mode_and_the_requests_are_the_golden_ones(tmp_path):
    now = {"modes.txt": modes(OF_MODES, tmp_path.resolve()), "requests.txt": requests(tmp_path.resolve() / OF_REQUESTS)}
    for file, text in now.items():
        golden = (FOLDER / OF_MODES / file).read_text().splitlines()
        changes = "\n".join(difflib.unified_diff(golden, text.splitlines(), f"golden {file}", "now", lineterm="", n=0))
        assert not changes, f"{changes}\n(if this is meant: python -m tests.reframe.config.golden {OF_MODES})"


@pytest.mark.sessions
def test_each_scheduler_is_among_the_first():
    used = [{part.scheduler for part in loader.load(name).partitions.values()} for name in SYSTEMS]
    assert set().union(*used) == set().union(*(one for one, name in zip(used, SYSTEMS, strict=True) if name in FIRST))


def _is_build(name: str) -> bool:
    """Whether a script's title, or a check's name, is that of a build."""
    return bool(re.search(r"\bBuild(Programs|First)\b", name))


@pytest.mark.parametrize("name", SYSTEMS)
def test_golden_scripts_are_short_enough_to_be_read(name):
    # of them 25 for digests of what a job wrote, 60 for third-party programs, 5 for HPL between nodes, 40 for training
    # and OSU's collectives, 17 for counters of the node around a burn-in, 15 for finding NCCL and not
    # binding it, and 15 for all nodes at once
    assert len((FOLDER / name / "scripts.txt").read_text().splitlines()) <= 505


def test_scripts_hold_what_the_site_publishes(site):
    name, found = site
    lines = {line for script in found for line in script.text.splitlines()}
    assert not [line for line in PUBLISHED.get(name, []) if not any(re.fullmatch(line, one) for one in lines)]
    jobs = "\n".join(script.text for script in found if _END in script.text)
    assert not [text for text in NOT_PUBLISHED.get(name, []) if text in jobs]


def test_every_job_names_its_nodes_its_gpus_and_its_end(site):
    name, found = site
    jobs = [script.text for script in found if not _is_build(script.title)]
    assert jobs
    for script in jobs:
        lines = script.rstrip().splitlines()
        assert lines[-2:] == [_END, "exit $tenken_status"]
        assert _NODES in lines
        assert next(line for line in lines if line and line[0] != "#") == _ENTER
        # files left by an earlier attempt are removed before anything of this one is run
        (begun,) = [at for at, line in enumerate(lines) if line.startswith(_BEGIN)]
        assert lines[begun - 3].startswith("rm -rf -- {stage}/result.json")
        if any(p.node.gpu for p in loader.load(name).partitions.values()):
            assert any(_GPUS in line for line in lines)


def test_every_command_is_told_those_of_other_peoples_binaries_too(site):
    _, found = site
    commands = dict(line.split(" ", 2)[2].split(": ", 1) for script in found for line in script.commands)
    assert not [check for check, command in commands.items() if command == "(build)" and not _is_build(check)]
    for check, command in FOREIGN_CHECKS.items():
        assert check not in commands or re.search(command, commands[check]), commands[check]


def test_other_peoples_binaries_are_run_somewhere():
    told = "".join((FOLDER / name / "commands.txt").read_text() for name in SYSTEMS)
    assert not [check for check in FOREIGN_CHECKS if f" {check}: " not in told]


@pytest.mark.parametrize("change", ["in the middle", "order", "end", "begin", "nothing alike"])
def test_what_a_script_is_beside_another_tells_every_change(change):
    """Two different scripts are never shown as equal: the differences turn one into the other."""
    one = ["a", "b", "c", "b", "d"]
    other = {
        "in the middle": ["a", "b", "x", "c", "b", "d"], "order": ["a", "c", "b", "b", "d"], "end": [*one, "e"],
        "begin": ["z", *one], "nothing alike": ["p", "q"],
    }[change]  # fmt: skip
    told = beside(one, other)
    assert told
    kept, made = list(one), Counter(other)
    for line in told:
        if line[0] == "-":
            kept.remove(line[1:])
    assert Counter(kept) + Counter(line[1:] for line in told if line[0] == "+") == made


def what_is_new() -> str:
    """The commits that the main branch does not have; on that branch itself the last one. The others were checked when
    they were new."""
    for main in ("origin/main", "main"):
        base = subprocess.run(
            ["git", "merge-base", "HEAD", main], cwd=ROOT, capture_output=True, text=True, check=False
        )
        ahead = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
        if base.returncode == 0 and base.stdout != ahead.stdout:
            return f"{base.stdout.strip()}..HEAD"
    return "HEAD~1..HEAD"


def test_a_golden_script_changes_only_with_a_line_in_the_changelog():
    """Each commit that removed or replaced a line in one; a new script is not a change."""
    files = "tests/reframe/config/golden/*/scripts.txt"
    command = [
        "git",
        "log",
        what_is_new(),
        "--no-merges",
        "--diff-filter=M",
        "--numstat",
        "--format=%h %s",
        "--",
        files,
    ]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip("this checkout has no git history")
    commit, changed = "", set()
    for line in found.stdout.splitlines():
        numbers = re.match(r"\d+\t(\d+)\t", line)
        if numbers and int(numbers[1]):
            changed.add(commit)
        elif line and not numbers:
            commit = line
    for commit in changed:
        show = ["git", "show", "--name-only", "--format=", commit.split()[0]]
        shown = subprocess.run(show, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        assert "CHANGELOG.md" in shown, f"{commit}: a golden script changed and CHANGELOG.md does not say why"


def test_a_check_file_that_does_not_load_is_an_error(tmp_path, monkeypatch):
    """ReFrame skips it with status 0: without it the golden files would look complete."""
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "broken.py").write_text("import reframe\nimport no_such_module\n")
    monkeypatch.setattr(golden, "reframe", partial(golden.reframe, checks=str(tmp_path / "checks")))
    with pytest.raises(RuntimeError, match=r"skipping test file .*broken\.py"):
        scripts("v100", tmp_path / "run")


def test_probes_load_without_what_pytest_exports(tmp_path, monkeypatch):
    """`make golden` runs outside pytest, in a checkout whose folder `tests` is not in PYTHONPATH."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(golden, "reframe", partial(golden.reframe, checks="tests/reframe/checks/doctored"))
    assert any(" ProbeOne:" in line for script in scripts("v100", tmp_path) for line in script.commands)


def test_the_programs_accept_what_the_checks_pass():
    """A factor of 16384 between sizes was above the program's maximum, in a mode that no machine here had run."""
    commands = [
        line for file in FOLDER.glob("*/*.txt") for line in re.findall(r"bin/(\w+) (.*?--.*)", file.read_text())
    ]
    assert len(commands) > 500 and sum(len(ranges(one)) for one in {program for program, _ in commands}) > 30
    for program, line in commands:
        assert not refused(program, re.findall(r"--([\w-]+) (\S+)", line)), line
