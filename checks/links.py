"""GPU to GPU: peer copies, MPI between host and device buffers, NCCL; every link of a node and between nodes."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from tenken.reframe import budget
from tenken.reframe.base import TenkenCheck
from tenken.reframe.links import FIND_NCCL, NEAR_GPU, MpiBase, read_ports

#: Collectives of NCCL in FP64, and reductions in other types.
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "sendrecv", "alltoall")
OF_TYPES = tuple(f"{one}_{of}" for one in ("all_reduce", "reduce_scatter") for of in ("fp32", "bf16"))


@rfm.simple_test
class P2P(TenkenCheck):
    """Copies between all ordered pairs of GPUs of a node, direct and through the host.

    Metrics per pair: `peer`, `memcpy_peer`, `read`, `write`, `both_ways`, `driver_staged`, `host_staged` in GB/s and
    `latency` in us; per GPU `all_to_one`, `one_to_all`; by size `*_by_size` and `*_time`.
    """

    descr = "copies between the GPUs of a node"
    share = 18
    program = "p2p"
    tags = {"links", "p2p", "quick", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda +gpus2"]
    valid_prog_environs = ["+cuda"]
    subjects = ["pair"]

    @run_after("setup")
    def set_sizes(self):
        """Sizes are swept between the first two GPUs, in finer steps if figures are published; not in mode quick."""
        factor = {"quick": 16, "acceptance": 4, "nightly": 16, "published": 2}[self.size_mode]
        quick = self.size_mode == "quick"
        # the pairs of eight GPUs are 28 times those of two
        short = quick or (self.size_mode == "acceptance" and (self.machine.gpus or 0) > budget.FEW_GPUS)
        self.arguments = {
            "gpus": "all",
            "bytes": "256Mi" if short else "1Gi",
            "staged-bytes": "64Mi" if short else "256Mi",
            "sweep": "none" if quick else "first",
            "sweep-factor": factor,
            "warmup-seconds": 0.3 if quick else 1,
            **self.arguments,
        }
        self.expected_parameters |= {"transfers": "all", "repetitions": 100}


@rfm.simple_test
class MpiHost(MpiBase):
    """Four ranks of one node with buffers in host memory: the MPI itself, without any GPU."""

    descr = "MPI messages between four ranks of a node, host buffers"
    share = 6
    tags = {"links", "mpi", "quick", "acceptance", "nightly"}
    valid_systems = ["+mpi"]
    valid_prog_environs = ["+host_mpi"]
    num_tasks = 4
    num_tasks_per_node = 4

    @run_after("setup")
    def set_sizes(self):
        """Once the partition is known: messages of the mode, in host memory."""
        quick = self.size_mode == "quick"
        self.arguments = {
            "buffers": "host",
            "max-bytes": "64Ki" if quick else "4Mi",
            "factor": 64 if quick else 4,
            "window-bytes": "16Mi",
            "warmup-seconds": 0.1,
            **self.arguments,
        }
        self.expected_parameters |= {"buffers": "host"}


@rfm.simple_test
class MpiDevice(MpiBase):
    """Two ranks of one node with a GPU each: device buffers, compared with a peer copy in the same job. Additional
    metric: `peer_copy`. Device buffers below 60 % of it are "not GPUDirect", a FAIL if the system file claims
    `device_mpi`. Waived if the MPI does not accept device pointers.
    """

    descr = "MPI messages between two GPUs of a node, device buffers"
    share = 15
    tags = {"links", "mpi", "quick", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda +mpi +gpus2"]
    valid_prog_environs = ["+cuda +mpi"]
    num_tasks = 2
    num_tasks_per_node = 2
    on_gpus = True

    @run_after("setup")
    def set_sizes(self):
        """Once the partition is known: tests and messages of the mode, in GPU memory."""
        quick = self.size_mode == "quick"
        self.arguments = {
            "buffers": "device",
            "tests": "latency,bandwidth" if quick else "all",
            "max-bytes": "256Mi",
            "factor": 64 if quick else 4,
            # four messages of the largest size: the fixed cost of a window is spread over them
            "window-bytes": "1Gi",
            **self.arguments,
        }


@rfm.simple_test
class MpiMixed(MpiBase):
    """Two ranks of one node with a GPU each, and all other combinations of memory."""

    descr = "MPI messages between two GPUs of a node, host, device and managed buffers mixed"
    share = 12
    tags = {"links", "mpi", "acceptance", "published"}
    valid_systems = ["+cuda +mpi +gpus2"]
    valid_prog_environs = ["+cuda +mpi"]
    num_tasks = 2
    num_tasks_per_node = 2
    on_gpus = True
    # small windows: transfers through the host are slow
    arguments = {
        "buffers": "host,host-device,device-host,managed",
        "tests": "latency,bandwidth",
        "max-bytes": "4Mi",
        "factor": 16,
        "window-bytes": "16Mi",
        "warmup-seconds": 0.1,
    }


class MpiPair(MpiBase):
    """Two nodes with a rank each."""

    num_tasks = 2
    num_tasks_per_node = 1
    num_nodes = variable(int, value=2)

    #: The network device that the messages must take, like `mlx5_3:1`; the counters of the ports show whether they did.
    #:
    #: :default: ``""``, as the MPI chooses
    rail = variable(str, value="")

    @run_after("setup")
    def force_the_rail(self):
        """Once the partition is known: restricts UCX to one device."""
        if self.rail:
            self.env_vars = {**self.env_vars, "UCX_NET_DEVICES": self.rail}

    @run_after("setup")
    def refuse_more_nodes(self):
        """Once the partition is known: rejects any number of nodes but two."""
        if self.num_nodes != 2:
            raise ReframeError(f"{self.unique_name}: num_nodes is {self.num_nodes}; allowed: 2, it measures a pair")

    @run_before("run")
    def read_the_ports(self):
        """Just before the job script is written: adds readings of the port counters around the command."""
        read_ports(self)


@rfm.simple_test
class MpiHostBetweenNodes(MpiPair):
    """Two nodes with a rank each and buffers in host memory: the network and the MPI, without any GPU."""

    descr = "MPI messages between two nodes, host buffers"
    share = 10
    tags = {"links", "mpi", "quick", "acceptance", "nightly"}
    valid_systems = ["+mpi +nodes"]
    valid_prog_environs = ["+host_mpi"]
    expected_parameters = {"nodes": 2, "buffers": "host"}

    @run_after("setup")
    def set_sizes(self):
        """Once the partition is known: messages of the mode, in host memory."""
        quick = self.size_mode == "quick"
        self.arguments = {
            "nodes": 2,
            "buffers": "host",
            "max-bytes": "64Ki" if quick else "4Mi",
            "factor": 64 if quick else 4,
            "window-bytes": "16Mi",
            **self.arguments,
        }


@rfm.simple_test
class MpiBetweenNodes(MpiPair):
    """Two nodes with a rank and a GPU each: device buffers over the network (R5, R6 of the publications)."""

    descr = "MPI messages between GPUs of two nodes, device buffers"
    share = 20
    tags = {"links", "mpi", "acceptance", "nightly", "published"}
    valid_systems = ["+cuda +mpi +nodes"]
    valid_prog_environs = ["+cuda +mpi"]
    on_gpus = True
    arguments = {"nodes": 2, "buffers": "device,host", "max-bytes": "4Mi", "factor": 2}
    expected_parameters = {"nodes": 2}


@rfm.simple_test
class MpiAllAtOnce(MpiBase):
    """All nodes at once with a rank each: bisections by the order of the nodes and at random, incast, latency of two
    nodes while the others send, and which node arrives late in collectives. It uses four nodes, or as many as `-S
    MpiAllAtOnce.num_nodes=64` gives. With `-S MpiAllAtOnce.minutes=10` each of them lasts ten minutes.
    """

    descr = "bisection, incast, a victim under load and late arrivals between several nodes"
    share = 10
    tags = {"links", "mpi", "acceptance"}
    valid_systems = ["+mpi"]
    valid_prog_environs = ["+host_mpi"]
    metrics = ["bisection", "incast", "victim", "arrival", "alltoall", "allreduce"]
    num_nodes = variable(int, value=4)

    #: Minutes of each pattern; 0: as short as the clock allows.
    #:
    #: :default: ``0``
    minutes = variable(float, value=0.0)

    @run_after("init")
    def need_so_many_nodes(self):
        """When it is listed: needs that many nodes."""
        self.need_nodes(self.num_nodes)

    @run_after("setup")
    def set_sizes(self):
        """Once the partition is known: a rank on each node."""
        self.num_tasks, self.num_tasks_per_node = self.num_nodes, 1
        self.arguments = {
            "ranks": self.num_nodes, "nodes": self.num_nodes, "buffers": "host", "patterns": "all",
            "tests": "latency,allreduce,alltoall", "min-bytes": 8, "max-bytes": "64Ki", "factor": 64,
            "window-bytes": "16Mi", "repetition-seconds": 60 * self.minutes / 100, **self.arguments,
        }  # fmt: skip
        self.expected_parameters |= {"nodes": self.num_nodes, "buffers": "host", "patterns": "all"}

    @run_before("run")
    def read_the_ports(self):
        """Just before the job script is written: reads the counters of the ports around the command."""
        read_ports(self)


@rfm.simple_test
class Nccl(TenkenCheck):
    """NCCL between all GPUs of a node in one process: bus bandwidth and time of five collectives by size.

    Metrics: `all_reduce`, `all_gather`, `reduce_scatter`, `sendrecv`, `alltoall` in GB/s, `*_time` in us; reductions
    also in FP32 and BF16 (`all_reduce_bf16`). Waived without NCCL.
    NCCL is searched in the library path, TENKEN_NCCL, and Python installations.
    """

    descr = "NCCL between the GPUs of a node"
    share = 20
    program = "nccl"
    tags = {"links", "nccl", "acceptance", "nightly"}
    valid_systems = ["+cuda +gpus2"]
    valid_prog_environs = ["+cuda"]
    subjects = ["ranks"]
    on_gpus = True
    cores = 0
    # NCCL's threads would inherit the single CPU to which the main thread would be bound
    env_vars = {"OMP_PROC_BIND": NEAR_GPU["OMP_PROC_BIND"]}
    prerun_cmds = FIND_NCCL.splitlines()
    metrics = [*COLLECTIVES, *(f"{one}_time" for one in COLLECTIVES), *OF_TYPES]

    #: The largest message, in GiB: two arrays of it must fit into a GPU's memory.
    #:
    #: :default: ``1``
    max_gib = variable(int, value=1)

    @property
    def members(self) -> int:
        """GPUs that take part."""
        return self.gpus or 1

    @run_after("setup")
    def set_sizes(self):
        """Once the partition is known: messages that divide among the GPUs."""
        # each GPU's part is a multiple of 16 bytes
        part = 16 * self.members
        self.arguments = {
            "gpus": "all",
            "min-bytes": part * -(-1024 // part),
            "max-bytes": part * (self.max_gib * 2**30 // part),
            "factor": 16 if self.shortened else 4,
            "warmup-seconds": 0.3,
            **self.arguments,
        }
        self.expected_parameters |= {"operations": "all", "repetitions": 100}


@rfm.simple_test
class NcclBetweenNodes(Nccl):
    """NCCL between all GPUs of several nodes, a rank for each GPU, started by MPI: two nodes, or as many as
    `-S NcclBetweenNodes.num_nodes=64` gives.
    """

    descr = "NCCL between the GPUs of several nodes"
    tags = {"links", "nccl", "acceptance", "nightly"}
    valid_systems = ["+cuda +mpi"]
    valid_prog_environs = ["+cuda +mpi"]
    uses_mpi = True
    env_vars = dict(NEAR_GPU)
    num_nodes = variable(int, value=2)

    #: The GPUs of one node as if each were a node: NCCL sends over the network's adapters, or over sockets without any.
    #:
    #: :default: ``False``
    as_nodes = variable(bool, value=False)

    @run_after("init")
    def need_so_many_nodes(self):
        """At listing: requires that many nodes, or two GPUs that stand in for nodes."""
        if self.as_nodes:
            self.num_nodes = 1
            self.valid_systems = [f"{one} +gpus2" for one in self.valid_systems]
            self.arguments = {**self.arguments, "as-nodes": True}
        else:
            self.need_nodes(self.num_nodes)

    @property
    def members(self) -> int:
        return self.num_nodes * (self.machine.gpus or 1)

    @run_after("setup")
    def one_rank_for_each_gpu(self):
        """Once the partition is known: a rank for each GPU."""
        self.num_tasks_per_node = self.machine.gpus or 1
        self.num_tasks = self.members

    @run_before("run")
    def read_the_ports(self):
        """Just before the job script is written: adds readings of the port counters around the command."""
        read_ports(self)
