"""gpu-burn: products on all GPUs for a while, each compared with the first."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import variable

from tenken.parsers import gpu_burn
from tenken.reframe.foreign import Figure, NamedProgram, first_word

#: Seconds by mode. A GPU with 141 GB first reports after 12 s, one with 80 GB and a third of its rate after 20 s.
SECONDS = {"quick": 30, "acceptance": 30, "nightly": 60, "published": 300}
#: Its kernel file is next to the program, which looks for it in the working folder.
_KERNEL = (
    '$(d=$(dirname "$(command -v {0})"); for k in "$d"/compare.fatbin "$d"/compare.ptx; '
    'do [ ! -f "$k" ] || {{ echo "-c $k"; break; }}; done)'
)


@rfm.simple_test
class GpuBurn(NamedProgram):
    """Reports the rate of the slowest GPU and its errors, since the exit status is 0 even if a GPU computed wrongly.

    `named_command` or the variable TENKEN_GPU_BURN names the command or its folder; waived if it is not on the node.
    """

    descr = "gpu-burn: products on all GPUs, each compared"
    program = "gpu_burn"
    tags = {"compute", "acceptance"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    on_gpus = True
    command = usual_command = "gpu_burn"
    named_by = "TENKEN_GPU_BURN"
    figures = {
        "rate": Figure("products in single precision, slowest GPU", "GFLOP/s", "higher"),
        "errors": Figure("elements that differ, all GPUs", "1", "lower", sign="zero"),
    }
    own_verifications = ("each GPU is OK", "each GPU was tested")

    #: Seconds; 0: by mode.
    gpu_burn_seconds = variable(int, value=0)

    #: Options: -tc for Tensor cores, -d for double precision; -m states the memory.
    gpu_burn_options = variable(str, value="-m 90%")

    def options(self):
        seconds = self.gpu_burn_seconds or SECONDS[self.size_mode]
        kernel = _KERNEL.format(first_word(self.program_named()))
        return f"{kernel} {self.gpu_burn_options} {seconds}"

    def parse(self, output):
        found = gpu_burn.parse(output)
        return {"rate": min(found.rates), "errors": float(sum(found.errors))}

    def wrong(self, output):
        found = gpu_burn.parse(output)
        bad = [f"GPU {gpu}: {state}" for gpu, state in enumerate(found.states) if state != "OK"]
        bad += [f"GPU {gpu}: {count} errors" for gpu, count in enumerate(found.errors) if count]
        here = self.machine.gpus
        missing = f"{len(found.states)} GPUs; the node has {here}" if here and len(found.states) != here else ""
        return {"each GPU is OK": ", ".join(bad), "each GPU was tested": missing}
