"""Builds the wheel, with the catalogue and data sheets, which a checkout keeps where a site edits them."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


def package_data() -> list[str]:
    """Files that the package reads from the checkout, and from its own folder `data/` where there is none."""
    return [
        "src/programs/common.yaml",
        "src/programs/side_by_side.yaml",
        *(
            str(file.relative_to(ROOT))
            for name in ("metrics.yaml", "derived.py")
            for file in sorted((ROOT / "src" / "programs").glob(f"*/{name}"))
        ),
        "systems/hardware.yaml",
        "systems/kinds.yaml",
    ]


class Build(build_py):
    """Copies them into the wheel; an editable install reads the checkout itself."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for name in package_data():
                target = Path(self.build_lib) / "tenken" / "data" / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, target)


setup(cmdclass={"build_py": Build})
