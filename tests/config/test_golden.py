"""Job scripts of all checks on all systems against the golden ones, and those against what the sites publish."""

from __future__ import annotations

import difflib
import re
import subprocess

import pytest

from systems import loader
from tenken.paths import ROOT
from tests.config.golden import FOLDER, SYSTEMS, render

_NODES = 'echo "TENKEN-NODES $tenken_nodes"'
_END = 'echo "TENKEN-END status=$tenken_status nodes=$tenken_nodes"'
_GPUS = "nvidia-smi -L | sed 's/^/TENKEN-GPU /'"

#: What a site's published scripts and notes hold, as regular expressions of whole lines.
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
#: What must not stand there.
NOT_PUBLISHED = {"miyabi": ["ngpus", "ncpus"], "tsubame3": ["-g gz00"], "pegasus": ["hostfile", "-N "]}


@pytest.mark.parametrize("name", SYSTEMS)
def test_job_scripts_are_the_golden_ones(name, tmp_path):
    for file, text in render(name, tmp_path).items():
        golden = FOLDER / name / file
        assert golden.is_file(), f"no golden scripts of {name}: python -m tests.config.golden {name}"
        diff = difflib.unified_diff(
            golden.read_text().splitlines(), text.splitlines(), f"golden/{name}/{file}", "now", lineterm="", n=4
        )
        changes = "\n".join(diff)
        assert not changes, (
            f"{changes}\n(if this is meant: python -m tests.config.golden {name}, and say why in CHANGELOG.md)"
        )


def scripts(name: str) -> list[str]:
    return (FOLDER / name / "scripts.txt").read_text().split("\n==== ")


@pytest.mark.parametrize("name", PUBLISHED)
def test_scripts_hold_what_the_site_publishes(name):
    lines = (FOLDER / name / "scripts.txt").read_text().splitlines()
    missing = [line for line in PUBLISHED[name] if not any(re.fullmatch(line, one) for one in lines)]
    assert not missing
    jobs = "\n".join(script for script in scripts(name) if _END in script)
    assert not [text for text in NOT_PUBLISHED.get(name, []) if text in jobs]


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_job_names_its_nodes_its_gpus_and_its_end(name):
    jobs = [script for script in scripts(name) if "BuildPrograms" not in script.splitlines()[0]]
    assert jobs
    for script in jobs:
        lines = script.rstrip().splitlines()
        assert lines[-2:] == [_END, "exit $tenken_status"]
        assert _NODES in lines
        if any(p.node.gpu for p in loader.load(name).partitions.values()):
            assert any(_GPUS in line for line in lines)


def test_a_golden_script_changes_only_with_a_line_in_the_changelog():
    """Each commit that took a line out of one, or put another in its place; a new script is no change."""
    files = "tests/config/golden/*/scripts.txt"
    command = ["git", "log", "--no-merges", "--diff-filter=M", "--numstat", "--format=%h %s", "--", files]
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
