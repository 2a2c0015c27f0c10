"""HPL: our own solver on GPUs and on the host, and the vendor's or the site's binary in its place."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import reframe as rfm
from reframe.core.backends import getlauncher
from reframe.core.builtins import parameter, run_after, run_before, variable

from checks import xhpl
from checks.base import RESULT_FILE, TenkenCheck
from checks.links import FIND_NCCL, NEAR_GPU
from tenken import verdict

#: Order of the matrix and columns eliminated together, by size of the problem.
SIZES = {"small": (32768, 1024), "large": (65536, 2048), "full": (98304, 2048)}
#: The same for all GPUs of a node, by their number; others take what fits.
OF_NODE = {2: (131072, 2048), 4: (188416, 2048), 8: (262144, 2048)}
#: GiB on the GPU beside the matrix: panels, rows on their way, libraries.
BESIDE_GIB = 8.0

# Finds the BLAS that pip brought, where none is named.
_FIND_BLAS = """if [ -z "$TENKEN_BLAS" ]; then for python in $(type -ap python3); do
  TENKEN_BLAS=$("$python" -c 'import scipy_openblas32 as b; print(f"{b.get_lib_dir()}/lib{b.get_library()}.so")' \\
    2>/dev/null) && break
done; [ -r "$TENKEN_BLAS" ] && export TENKEN_BLAS || unset TENKEN_BLAS; fi"""


class HplBase(TenkenCheck):
    """TFLOP/s of A x = b by HPL's rules, residual below 16, held against DGEMM with K = NB in the same job.

    Metrics: `hpl`, `residual`, `dgemm`, `phase`; `library` and `over_library` where the library is timed too.
    """

    program = "hpl"
    tags = {"hpl", "quick", "acceptance", "nightly", "published"}
    #: A job of its own program is long: the matrix, five seconds of heat, three runs.
    time_limit = "60m"

    @run_after("setup")
    def ask_for_repetitions(self):
        self.arguments = {"repetitions": 3, "warmup-seconds": 5, **self.arguments}
        self.asked = {"repetitions": self.arguments["repetitions"], **self.asked}


@rfm.simple_test
class Hpl(HplBase):
    """One GPU: N = 32768, 65536 and 98304, or what fills 90 % of a smaller memory; beside the library's own LU."""

    descr = "HPL on one GPU"
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    gpus = 1
    #: How large the matrix is.
    size = parameter(list(SIZES))

    @run_after("init")
    def leave_long_runs_to_long_modes(self):
        if self.size != "small":
            self.tags = self.tags - {"quick"}

    @run_after("setup")
    def set_problem(self):
        n, nb = SIZES[self.size]
        fits = n * n * 8 / 2**30 + BESIDE_GIB <= 0.95 * self.machine.gpu_memory_gib
        if not fits and self.size == "large":
            room = f"{self.machine.gpu_memory_gib:.0f} GiB"
            self.waive(f"not supported by the device: N={n} does not fit into {room}; size=full takes what fits")
        wanted = {"backend": "cuda", "nb": str(nb), **({"n": str(n)} if fits else {})}
        # the library is compared where there is room and time for it
        compare = fits and self.tenken_mode != "quick"
        self.arguments = {**self.arguments, **wanted, "gpus": "0", "compare-library": compare, "steps": True}
        self.asked = {**self.asked, **wanted}


@rfm.simple_test
class HplNode(HplBase):
    """All GPUs of a node together, one MPI rank each: N = 131072 on two, 188416 on four. Waived with one GPU."""

    descr = "HPL on all GPUs of a node"
    tags = {"hpl", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda +mpi"]
    valid_prog_environs = ["+cuda +mpi"]
    subjects = ["ranks"]
    on_gpus = True
    uses_mpi = True
    cores = 0
    env_vars = dict(NEAR_GPU)
    prerun_cmds = FIND_NCCL.splitlines()

    @run_after("setup")
    def one_rank_for_each_gpu(self):
        self.num_tasks = self.num_tasks_per_node = max(2, self.machine.gpus or 2)
        self.set_size(OF_NODE.get(self.num_tasks))

    def set_size(self, known: tuple[int, int] | None):
        n, nb = known or (0, 2048)
        room = self.num_tasks * (0.95 * self.machine.gpu_memory_gib - BESIDE_GIB)
        wanted = {"backend": "cuda", "nb": str(nb), **({"n": str(n)} if 0 < n * n * 8 / 2**30 <= room else {})}
        self.arguments = {**self.arguments, **wanted, "steps": True}
        self.asked = {**self.asked, **wanted}


@rfm.simple_test
class HplPublished(HplNode):
    """The publications' sizes: one node and two (R7, R8), ranks as GPUs, P x Q as printed."""

    descr = "HPL on the GPUs of one and more nodes, sizes of the publications"
    tags = {"hpl", "published"}
    valid_systems = ["+cuda +mpi +nodes"]
    #: Nodes -> N, NB, P, Q of the publication (Reedbush-H, two GPUs a node).
    nodes_used = parameter([1, 2, 4, 8])

    @run_after("setup")
    def one_rank_for_each_gpu(self):
        n, p, q = {1: (67200, 2, 1), 2: (96000, 2, 2), 4: (130176, 2, 4), 8: (192000, 2, 8)}[self.nodes_used]
        if self.machine.gpus != 2:
            self.waive(f"needs two GPUs: the publication has two a node, this machine {self.machine.gpus}")
        self.num_tasks_per_node = 2
        self.num_tasks = 2 * self.nodes_used
        wanted = {"backend": "cuda", "n": str(n), "nb": "384", "grid": f"{p}x{q}"}
        self.arguments = {**self.arguments, **wanted}
        self.asked = {**self.asked, **wanted}


class Sweep(HplBase):
    """Random N, NB and grids, ugly ones among them: every residual below 16, every solution that of cuSOLVER alone.

    Metrics: `residual` and `difference` of each case.
    """

    #: How many problems.
    cases = variable(int)

    metrics = ["residual", "difference"]
    tags = {"hpl", "acceptance", "published"}

    @run_after("setup")
    def ask_for_repetitions(self):
        # own panels and the library's, both at these sizes
        wanted = {"backend": "cuda", "repetitions": 1, "few-rows": 600, "sweep": self.cases, "sweep-most-n": 2500}
        self.arguments = {"warmup-seconds": 0, **wanted}
        self.asked = {key.replace("-", "_"): value for key, value in wanted.items()}


@rfm.simple_test
class HplSweep(Sweep):
    """60 random problems on one GPU."""

    descr = "60 random problems on one GPU, each against cuSOLVER's solution"
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    gpus = 1
    cases = 60


@rfm.simple_test
class HplSweepNode(Sweep):
    """30 random problems and grids on all GPUs of a node. Waived with one GPU."""

    descr = "30 random problems and grids on all GPUs of a node, each against cuSOLVER's solution"
    valid_systems = ["+cuda +mpi"]
    valid_prog_environs = ["+cuda +mpi"]
    subjects = ["ranks"]
    on_gpus = True
    uses_mpi = True
    cores = 0
    cases = 30
    env_vars = dict(NEAR_GPU)
    prerun_cmds = FIND_NCCL.splitlines()

    @run_after("setup")
    def one_rank_for_each_gpu(self):
        self.num_tasks = self.num_tasks_per_node = max(2, self.machine.gpus or 2)


@rfm.simple_test
class HplHost(HplBase):
    """The host: dgetrf of OpenBLAS or the site's BLAS on all cores of a node. Waived where there is none."""

    descr = "HPL on the host, LAPACK on all cores"
    tags = {"hpl", "quick", "acceptance", "nightly"}
    prerun_cmds = _FIND_BLAS.splitlines()

    @run_after("setup")
    def set_problem(self):
        cores = self.cores or 1
        n = 4096 if self.tenken_mode == "quick" else 8192 if cores < 16 else 16384 if cores < 64 else 32768
        self.asked = {**self.asked, "backend": "host", "n": str(n), "nb": "256"}
        self.arguments = {"warmup-seconds": 1, **self.asked}


class OtherHpl(HplBase):
    """Another implementation in the place of ours. The document is made out of what it prints.

    Metrics: `hpl`, `residual`. Waived where the program is not found.
    """

    subjects = ["ranks"]
    metrics = ["hpl", "residual"]
    cores = 0

    #: The command that starts it, e.g. `xhpl` or `apptainer run --nv /apps/hpc-benchmarks.sif ./hpl.sh --dat HPL.dat`.
    #: Empty: that of the variable, from the environment or the system file; else the default's name on PATH.
    hpl_command = variable(str, value="")

    #: Order of the matrix, block, and grid; ranks are P x Q.
    hpl_n = variable(int, value=0)
    hpl_nb = variable(int, value=0)
    hpl_p = variable(int, value=1)
    hpl_q = variable(int, value=1)

    #: The short name of the implementation, its usual command, the variable that names another, input and output file.
    implementation = variable(str)
    usual_command = variable(str)
    named_by = variable(str)
    input_file = variable(str)
    output_file = variable(str, type(None), value=None)

    @run_after("setup")
    def ask_for_repetitions(self):
        """One run: that is what they print."""
        self.num_tasks = self.hpl_p * self.hpl_q
        self.uses_mpi = self.num_tasks > 1
        self.asked = {"implementation": self.implementation, "ranks": self.num_tasks, "n": self.n, "nb": self.nb}
        self.arguments = {}

    @property
    def n(self) -> int:
        return self.hpl_n or {"quick": 2000}.get(self.tenken_mode, 8000)

    @property
    def nb(self) -> int:
        return self.hpl_nb or 192

    def command(self) -> str:
        named = self.machine.system.values(os.environ).get(self.named_by) or os.environ.get(self.named_by)
        return self.hpl_command or named or self.usual_command

    def problem(self) -> str:
        return xhpl.dat(self.n, self.nb, self.hpl_p, self.hpl_q)

    @run_before("run")
    def set_other_command(self):
        """Found or not is said by a line of its own; ReFrame's own launcher starts the ranks."""
        program = self.command().split()[0]
        Path(self.stagedir, self.input_file).write_text(self.problem())
        self.prerun_cmds = [
            *self.prerun_cmds,
            "tenken_there() {",
            f"  command -v {program} >/dev/null && return; echo TENKEN-HPL-MISSING {program}; return 3",
            "}",
        ]
        # a program of one rank may still be linked with MPI, which refuses root
        self.env_vars |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        self.job.num_tasks, self.job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        launch = self.job.launcher.run_command(self.job) if self.uses_mpi else ""
        self.executable, self.executable_opts = f"tenken_there && {launch} {self.command()}".replace("  ", " "), []
        self.job.launcher = getlauncher("local")()

    def judgement(self):
        """Writes the document that the program cannot write, then judges it as any other."""
        text = self.output_text()
        missing = re.search(r"^TENKEN-HPL-MISSING (\S+)$", text, re.M)
        nodes = self.nodes() or ["unknown"]
        path = Path(self.stagedir) / RESULT_FILE
        said = (self.implementation, [self.command()], nodes[0], nodes, self.num_tasks, self.n, self.nb)
        try:
            if missing:
                made = xhpl.document(xhpl.Output("none", ()), *said, self.hpl_p, self.hpl_q)
                made.update(status="waived", reason=f"library missing: no {missing[1]} ({self.named_by} may name one)")
            else:
                made = xhpl.document(xhpl.parse(self.printed(text)), *said, self.hpl_p, self.hpl_q)
            path.write_text(json.dumps(made))
        except xhpl.HplFormatError as error:
            path.write_text(str(error))  # not a document; where the job was cut short that is said first
            if self.exit_status()[1] is None:
                return (
                    verdict.failed(f"{self.where()}: {self.command()}: {error}", self.where()),
                    None,
                    str(error),
                    text,
                )
        return super().judgement()

    def printed(self, text: str) -> str:
        if self.output_file is None:
            return text
        path = Path(self.stagedir) / self.output_file
        return path.read_text(errors="replace") if path.is_file() else ""


@rfm.simple_test
class HplOther(OtherHpl):
    """The vendor's or the site's xhpl: NVIDIA HPC Benchmarks, netlib, AMD's, Intel's.

    `-S hpl_command=...` or the variable TENKEN_XHPL, of the environment or of the system file, names its command.
    """

    descr = "the vendor's or the site's HPL"
    tags = {"hpl", "acceptance", "published"}
    implementation = "xhpl"
    usual_command = "xhpl"
    named_by = "TENKEN_XHPL"
    input_file = "HPL.dat"


@rfm.simple_test
class HplHpcc(OtherHpl):
    """The HPL part of HPC Challenge (Debian's package hpcc)."""

    descr = "the HPL part of hpcc"
    tags = {"hpl", "acceptance"}
    implementation = "hpcc"
    usual_command = "hpcc"
    named_by = "TENKEN_HPCC"
    input_file = "hpccinf.txt"
    output_file = "hpccoutf.txt"

    def problem(self) -> str:
        return xhpl.hpcc_input(self.n, self.nb, self.hpl_p, self.hpl_q)
