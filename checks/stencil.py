"""A stencil over GPUs, ranks and nodes: methods of halo exchange, their cost, and scaling."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from tenken.reframe.base import TenkenCheck
from tenken.reframe.links import FIND_NCCL, MpiBase

# Finds the NVSHMEM that the kit or pip brought, and the libraries that it loads itself.
_FIND_NVSHMEM = """if [ -z "$TENKEN_NVSHMEM" ]; then for folder in "$NVSHMEM_HOME" "$VIRTUAL_ENV/nvshmem" \\
  $(for python in $(type -ap python3); do
    "$python" -c 'import nvidia.nvshmem as n; print(n.__path__[0])' 2>/dev/null; done); do
  [ -r "$folder/lib/libnvshmem_host.so.3" ] && export TENKEN_NVSHMEM="$folder/lib/libnvshmem_host.so.3" && break
done; [ -z "$TENKEN_NVSHMEM" ] || export LD_LIBRARY_PATH="${TENKEN_NVSHMEM%/*}:$LD_LIBRARY_PATH"; fi"""

#: Metrics of every exchange.
RATES = ["cells", "efficiency", "total", "compute", "pack", "halo_node", "halo_net", "sync", "share"]


class StencilBase(TenkenCheck):
    """27 points in double, blocks of 4 steps, verified on a small grid divided in the same way and on the last step.

    Metrics: `cells` (Gcell/s) and `efficiency` (% of that many times the best single slab) by exchange, `total` (s, 128
    steps; 32 in mode quick), phases of a block in ms and their `share`; `alone`, `fused` and `copy` of each GPU.
    """

    program = "stencil"

    def slab(self, gpus: int) -> dict[str, int]:
        """Cells of one slab: 512 planes per node as published, otherwise as many as fit on a GPU, at most 17 GB."""
        if self.size_mode == "published":
            return {"nx": 2048, "ny": 2048, "nz": 512 // gpus}
        if self.size_mode == "quick" or self.machine.gpu_memory_gib < 20:
            return {"nx": 1024, "ny": 1024, "nz": 128}
        return {"nx": 2048, "ny": 1024 if self.size_mode == "acceptance" else 2048, "nz": 256}

    def ask(self, **more: object) -> None:
        """The program's arguments, which its document must repeat."""
        asked = {"points": 27, "precision": "double", "repetitions": 100, "steps": 128, **more}
        self.expected_parameters = {**asked, **self.expected_parameters}
        # A GPU at its power cap slows down within a second. An efficiency is a ratio of rates after that, but a
        # kernel's own rate is taken before: after 0.3 s it would include the limiter's first dip (174 instead of 202
        # Gcell/s with two steps per pass on an H200).
        settled = more.get("backend") == "cuda" and more.get("exchange") != "none"
        warm = (1 if self.size_mode == "quick" else 2) if settled else 0.5
        self.arguments = {**self.expected_parameters, "warmup-seconds": warm, **self.arguments}


@rfm.simple_test
class Stencil(StencilBase):
    """One GPU after the other, without neighbours: the cost of a step, with one step and with several per pass."""

    descr = "stencil on one GPU"
    share = 9
    tags = {"stencil", "quick", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
    #: Points of the stencil.
    points = parameter([27, 7])
    #: Of the cells.
    precision = parameter(["double", "single"])

    @run_after("init")
    def leave_single_precision_to_long_modes(self):
        """At listing: no single precision in modes quick and acceptance."""
        if self.precision == "single":
            self.tags = self.tags - {"quick", "acceptance"}

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: a grid by mode and memory."""
        side = 1024 if self.machine.gpu_memory_gib >= 32 and self.size_mode != "quick" else 512
        # a repetition is one step (two if they are fused), so that all end before the power cap takes effect
        self.ask(
            backend="cuda", exchange="none", points=self.points, precision=self.precision,
            nx=side, ny=side, nz=side, bt=1,
        )  # fmt: skip
        self.arguments["gpus"] = "all"
        if self.size_mode != "quick":
            self.arguments["energy-seconds"] = 2.5


@rfm.simple_test
class StencilGpus(StencilBase):
    """Weak and strong scaling over the GPUs of a node in one process: halos from GPU to GPU and through the host."""

    descr = "stencil over the GPUs of a node"
    share = 32
    tags = {"stencil", "quick", "acceptance", "nightly", "published"}
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu", "ranks"]
    metrics = ["alone", "copy", "gain", *RATES]
    cores = 0
    #: GPUs of the node that take part.
    num_gpus = parameter([2, 4, 8])
    #: The same slab for each GPU, or one grid for all.
    scaling = parameter(["weak", "strong"])

    @run_after("init")
    def need_so_many_gpus(self):
        """At listing: requires that many GPUs."""
        self.valid_systems = [f"+cuda +gpus{self.num_gpus}"]

    @run_after("init")
    def leave_strong_scaling_to_long_modes(self):
        """Strong scaling has the same links and kernels as weak scaling, and takes another 15 s on two GPUs."""
        if self.scaling == "strong":
            self.tags = self.tags - {"quick", "acceptance"}

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: a slab for each GPU."""
        self.gpus = self.num_gpus
        slab = self.slab(self.num_gpus)
        steps = 32 if self.size_mode == "quick" else 128
        self.ask(backend="cuda", exchange="host,p2p", scaling=self.scaling, bt=4, steps=steps, nodes=1, **slab)
        self.arguments["gpus"] = ",".join(str(i) for i in range(self.num_gpus))


@rfm.simple_test
class StencilWays(StencilBase):
    """The other exchanges within one process: NCCL, and managed memory with a grid of 17 GB in all."""

    descr = "stencil over the GPUs of a node by NCCL and by managed memory"
    share = 28
    tags = {"stencil", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda +gpus2"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu", "ranks"]
    metrics = ["alone", "copy", *RATES]
    cores = 0
    prerun_cmds = FIND_NCCL.splitlines()
    #: How halos travel.
    way = parameter(["nccl", "managed"])

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: a slab for each GPU, smaller in managed memory."""
        slab = self.slab(self.gpus or 1)
        if self.way == "managed":
            slab["nz"] = max(slab["nz"] // (self.gpus or 1), 32)
        self.ask(backend="cuda", exchange=self.way, bt=4, nodes=1, **slab)
        self.arguments["gpus"] = "all"


class StencilRanksBase(StencilBase):
    """A rank for each GPU."""

    subjects = ["ranks"]
    metrics = RATES
    uses_mpi = True
    on_gpus = True
    cores = 0
    env_vars = dict(MpiBase.env_vars)
    prerun_cmds = _FIND_NVSHMEM.splitlines()


@rfm.simple_test
class StencilRanks(StencilRanksBase):
    """The exchanges between processes of a node: MPI with device buffers, CUDA IPC, NVSHMEM."""

    descr = "stencil over the GPUs of a node, a rank for each"
    share = 20
    tags = {"stencil", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda +mpi +gpus2"]
    valid_prog_environs = ["+cuda +mpi"]
    #: How halos travel.
    way = parameter(["mpi", "p2p", "nvshmem"])

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: a rank and a slab for each GPU."""
        self.num_tasks = self.num_tasks_per_node = self.gpus or 2
        self.ask(
            backend="cuda", exchange=self.way, bt=4, ranks=self.num_tasks, nodes=1, **self.slab(self.num_tasks_per_node)
        )


@rfm.simple_test
class StencilNodes(StencilRanksBase):
    """Weak and strong scaling over nodes; within a node halos go from GPU to GPU or through the host (S1 to S7)."""

    descr = "stencil over nodes"
    share = 40
    tags = {"stencil", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda +mpi"]
    valid_prog_environs = ["+cuda +mpi"]
    #: Methods of halo exchange; the first two run in one job, since their ratio is a metric.
    way = parameter(["host,p2p", "mpi"])
    #: Nodes; more than two in mode published only.
    num_nodes = parameter([2, 4, 16, 64])
    #: The same slab for each GPU, or one grid for all.
    scaling = parameter(["weak", "strong"])

    @run_after("init")
    def need_so_many_nodes(self):
        """At listing: requires that many nodes; more than two only in mode published."""
        self.need_nodes(self.num_nodes)
        if self.num_nodes > 2:
            self.only_in_mode("published")

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: a rank for each GPU, and a grid by the scaling."""
        self.num_tasks_per_node = self.gpus or 1
        self.num_tasks = self.num_nodes * self.num_tasks_per_node
        slab = self.slab(self.num_tasks_per_node)
        if self.scaling == "strong":
            slab["nz"] *= self.num_tasks_per_node
        self.ask(
            backend="cuda",
            exchange=self.way,
            scaling=self.scaling,
            bt=4,
            ranks=self.num_tasks,
            nodes=self.num_nodes,
            **slab,
        )


@rfm.simple_test
class StencilHost(StencilBase):
    """Two slabs in host memory, halos copied, OpenMP on all cores."""

    descr = "stencil on the host"
    share = 22
    tags = {"stencil", "quick", "acceptance", "nightly"}
    subjects = ["host", "ranks"]
    metrics = ["alone", *RATES]

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: a grid of the mode in two parts."""
        side = 256 if self.size_mode != "quick" else 128
        self.ask(backend="host", exchange="host", parts=2, nx=side, ny=side, nz=side // 2, bt=4)
        if self.size_mode != "quick":
            self.arguments["energy-seconds"] = 2.5


@rfm.simple_test
class StencilHostRanks(StencilBase):
    """Four ranks (two if a node has too few CPUs) with a slab each in host memory, halos by messages of MPI."""

    descr = "stencil on the host, four MPI ranks"
    share = 20
    tags = {"stencil", "acceptance", "nightly"}
    valid_systems = ["+mpi"]
    valid_prog_environs = ["+host_mpi"]
    subjects = ["ranks"]
    metrics = RATES
    uses_mpi = True
    num_tasks = 4
    num_tasks_per_node = 4
    cores = 0
    env_vars = dict(MpiBase.env_vars)

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: a grid of the mode among the ranks."""
        side = 128 if self.tenken_mode == "acceptance" else 192
        self.ask(backend="host", exchange="mpi", nx=side, ny=side, nz=side // 2, bt=4, ranks=self.num_tasks)


@rfm.simple_test
class StencilBlocks(StencilBase):
    """1 to 16 steps between exchanges on the GPUs of a node, and which number takes the minimum time (S1, S3)."""

    descr = "stencil over the GPUs of a node, by steps between exchanges"
    tags = {"stencil", "published"}
    valid_systems = ["+cuda +gpus2"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu", "ranks"]
    metrics = ["alone", "copy", *RATES]
    cores = 0
    #: Steps between two exchanges, and the depth of a halo.
    block = parameter([1, 2, 4, 8, 16])

    @run_after("init")
    def keep_to_the_mode(self):
        """At listing: only in mode published."""
        self.only_in_mode("published")

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: one block of time, a slab for each GPU."""
        self.ask(backend="cuda", exchange="host,p2p", bt=self.block, nodes=1, **self.slab(self.gpus or 2))
        self.arguments["gpus"] = "all"


@rfm.simple_test
class StencilHostNodes(StencilBase):
    """The CPUs of 64 nodes, one rank on each with 128 GiB in two arrays, blocks of 16 steps (S5's figure of MPI
    alone)."""

    descr = "stencil on the CPUs of many nodes, MPI"
    tags = {"stencil", "published"}
    valid_systems = ["+mpi"]
    valid_prog_environs = ["+host_mpi"]
    subjects = ["ranks"]
    metrics = RATES
    uses_mpi = True
    # 100 blocks of 16 steps at 6 s per step, as published
    time_limit = "4h"
    env_vars = dict(MpiBase.env_vars)
    #: Nodes, as published.
    num_nodes = parameter([64])

    @run_after("init")
    def need_so_many_nodes(self):
        """At listing: requires that many nodes; only in mode published."""
        self.need_nodes(self.num_nodes)
        self.only_in_mode("published")

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: the published grid, one rank per node with all its cores."""
        room = (self.machine.partition.node.memory_bytes or 0) / 2**30
        if room < 160:
            self.waive(f"not supported by the device: 128 GiB of arrays do not fit into a node of {room:.0f} GiB")
        self.num_tasks, self.num_tasks_per_node = self.num_nodes, 1
        # one rank uses the whole node, with one thread per core
        self.env_vars = {name: value for name, value in self.env_vars.items() if name != "OMP_NUM_THREADS"}
        self.ask(
            backend="host", exchange="mpi", scaling="weak", bt=16, ranks=self.num_tasks, nodes=self.num_nodes,
            nx=2048, ny=2048, nz=2048,
        )  # fmt: skip


class FormBase(TenkenCheck):
    """One formulation of the stencil of 27 points in double, as short as its programming model allows. It is verified
    like the others: a small grid against one step at a time, and every cell of the last step.

    Metrics: `cells` (Gcell/s) of all parts; docs/stencil.md has the lines of code of each formulation.
    """

    program = "stencil_forms"
    tags = {"stencil", "published"}
    subjects = ["ranks"]

    def ask(self, form: str, nx: int, ny: int, nz: int, steps: int) -> None:
        self.expected_parameters = {
            "form": form,
            "nx": nx,
            "ny": ny,
            "nz": nz,
            "steps": steps,
            **self.expected_parameters,
        }
        self.arguments = {**self.expected_parameters, "repetitions": 5, "warmup-seconds": 0.2, **self.arguments}

    def ask_on_host(self, form: str) -> None:
        quick = self.size_mode == "quick"
        side = 96 if quick else 256
        self.ask(form, side, side, side, 4 if quick else 16)

    def ask_on_gpu(self, form: str) -> None:
        """8.6 GB of arrays, and the same amount on the host for the verification; quick: 2.1 GB."""
        small = self.size_mode == "quick" or self.machine.gpu_memory_gib < 16
        side = 512 if small else 1024
        self.ask(form, side, side, 512, 16)


@rfm.simple_test
class StencilForms(FormBase):
    """Plain loops, and the same with OpenMP: the basis of comparison for the other formulations."""

    descr = "stencil in plain loops and with OpenMP"
    #: Of the formulation.
    form = parameter(["sequential", "openmp"])
    cores = 0

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: one form, on the host."""
        self.ask_on_host(self.form)


@rfm.simple_test
class StencilOpenACC(FormBase):
    """OpenACC, on the device that its runtime has; a compiler without offloading runs it on one core."""

    descr = "stencil by OpenACC"
    valid_prog_environs = ["+one_openacc"]
    on_gpus = True
    lists_gpus = False

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: on the host by g++, else on the GPU."""
        if self.machine.environment.is_gcc:
            self.ask_on_host("openacc")
        else:
            self.ask_on_gpu("openacc")


@rfm.simple_test
class StencilPgas(FormBase):
    """A partitioned global address space on the host: processes that read each other's planes of one grid."""

    descr = "stencil over a global address space, host"
    cores = 0

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: partitioned memory, on the host."""
        self.ask_on_host("shared")


@rfm.simple_test
class StencilPgasGpus(FormBase):
    """The same over all GPUs of the node: one grid in managed memory. With CUDA on one GPU for comparison."""

    descr = "stencil over a global address space, GPUs"
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    cores = 0
    #: Memory of the formulation: one GPU's own memory, or managed memory of all.
    form = parameter(["device", "managed"])

    @run_after("setup")
    def set_problem(self):
        """Once the partition is known: one form on one GPU, managed memory on all."""
        self.ask_on_gpu(self.form)
        self.arguments["gpus"] = "all" if self.form == "managed" else "0"
