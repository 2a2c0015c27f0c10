"""Lines of code of the stencil's formulations: ``python -m tools.formulations`` prints the table of docs/stencil.md.

A line counts if it contains code. Code shared by two formulations counts for both, code shared by all (the grid, the
data, the verification) for none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tenken.paths import ROOT

FOLDER = ROOT / "src" / "programs"
#: The files of each formulation.
FORMS: Mapping[str, tuple[str, ...]] = {
    "sequential": ("stencil_forms/sequential.cpp", "stencil_forms/row.h"),
    "openmp": ("stencil_forms/openmp.cpp", "stencil_forms/row.h"),
    "openacc": ("stencil_forms/openacc.cpp",),
    "shared": ("stencil_forms/shared.cpp", "stencil_forms/row.h"),
    "device": ("stencil_forms/device.cu", "stencil_forms/column_kernel.cuh"),
    "managed": ("stencil_forms/managed.cu", "stencil_forms/column_kernel.cuh"),
}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def lines_of(text: str) -> int:
    """Lines of C++ that contain code."""
    return sum(1 for line in _COMMENT.sub("", text).splitlines() if line.strip())


def counted() -> dict[str, int]:
    """Lines by formulation."""
    return {
        name: sum(lines_of((FOLDER / file).read_text(encoding="utf-8")) for file in files)
        for name, files in FORMS.items()
    }


def table() -> str:
    """Lines and their ratio to those of the plain loops, as in the publication of 2020."""
    lines = counted()
    rows = [f"| `{name}` | {count} | {count / lines['sequential']:.2f} |" for name, count in lines.items()]
    return "\n".join(["| formulation | lines | of `sequential` |", "|---|---:|---:|", *rows])


if __name__ == "__main__":
    print(table())
