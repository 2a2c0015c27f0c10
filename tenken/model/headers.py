"""What the C++ programs are built with from the catalogue: a header and a source file for each.

    python -m tenken.model.headers PROGRAMS FOLDER

writes, for each PROGRAMS/<program>/metrics.yaml, FOLDER/<program>.h with the tolerance of each verification and
FOLDER/<program>.cpp with the digest of the catalogue's entries. Unchanged files are not rewritten, so that nothing is
recompiled.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tenken.errors import CatalogueError
from tenken.model import catalogue

_HEADER = """\
// Generated from programs/{name}/metrics.yaml: the verifications of {name}.
#pragma once

#include <string>

#include "lib/base/verification.h"

namespace catalogue {{

{one_by_one}
/// A verification by its name. @throws std::logic_error for one that metrics.yaml does not declare
inline tenken::Verified named(const std::string& name) {{
    static const tenken::Verified all[] = {{{all}}};
    return tenken::verified_among(all, name);
}}

}}  // namespace catalogue
"""
_SOURCE = """\
// Generated from programs/{name}/metrics.yaml; declared in lib/base/document.h.
namespace tenken {{

const char* catalogue_digest() {{
    return "{digest}";
}}

}}  // namespace tenken
"""


def texts(program: catalogue.Program) -> tuple[str, str]:
    """Header and source of a program. Raises CatalogueError for a verification whose name is not an identifier."""
    declared = program.contract.verifications
    for one in declared:
        if not one.name.isidentifier():
            raise CatalogueError(f"{program.name}: verifications: name is {one.name!r}; allowed: lower case letters, _")
    lines = (f'constexpr tenken::Verified {v.name}() {{ return {{"{v.name}", {v.tolerance!r}}}; }}' for v in declared)
    header = _HEADER.format(
        name=program.name,
        one_by_one="".join(f"{line}\n" for line in lines),
        all=", ".join(f"{v.name}()" for v in declared),
    )
    return header, _SOURCE.format(name=program.name, digest=program.digest)


def write(programs: Path, folder: Path) -> None:
    """Write the files of all programs. Raises CatalogueError, OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(programs.glob("*/metrics.yaml")):
        program = catalogue.load_program(path)
        for ending, text in zip((".h", ".cpp"), texts(program), strict=True):
            file = folder / f"{program.name}{ending}"
            if not file.is_file() or file.read_text(encoding="utf-8") != text:
                file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        write(Path(sys.argv[1]), Path(sys.argv[2]))
    except (CatalogueError, OSError) as error:
        sys.exit(str(error))
