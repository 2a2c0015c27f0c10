"""The pictures of the documentation: ``make pictures`` draws them from kept records, in light and dark.

Needs a headless Chromium. A digest of the templates is stored with the pictures, so that a test can tell without a
browser that one has changed since.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tenken.archive import packed
from tenken.cli import main as tenken
from tenken.paths import ROOT
from tenken.report import page, signed

FOLDER = ROOT / "docs" / "images"
DIGESTS = FOLDER / "templates.json"
TEMPLATES = page.TEMPLATES
#: The session whose page and last lines are shown.
TWO_H200, SESSION = ROOT / "tests" / "data" / "h200-two-clean.tar.xz", "20261123T015311Z-bcadd0"
#: Colours of a picture: enough for text on two backgrounds, and a third of the bytes.
COLOURS = 48


def session(target: Path) -> None:
    """The page of `make run` on two H200."""
    tenken(["report", "--archive", str(packed.folder_of(TWO_H200)), "--session", SESSION, "--output", str(target)])


def night(target: Path) -> None:
    """The page of the gate over the synthetic cluster, whose faults are known."""
    from tools import synthetic

    folder = target.parent
    synthetic.generate(folder / "perflogs")
    tenken(
        ["gate", "--archive", str(folder / "perflogs"), "--store", str(folder / "store.duckdb"),
         "--output", str(folder / "gate"), "--max-age", "0"],
    )  # fmt: skip
    shutil.copyfile(next((folder / "gate").glob("*.html")), target)


@dataclass(frozen=True)
class Picture:
    """One page, its first `height` pixels, and the templates that it is made of."""

    name: str
    draw: Callable[[Path], None]
    templates: tuple[str, ...]
    height: int

    def files(self) -> tuple[Path, Path]:
        """In light and in dark."""
        return FOLDER / f"{self.name}.png", FOLDER / f"{self.name}-dark.png"

    def digest(self) -> str:
        found = hashlib.sha256()
        for name in self.templates:
            found.update(name.encode() + (TEMPLATES / name).read_bytes())
        return found.hexdigest()


PICTURES = (
    Picture("page", session, ("page.html", "style.css"), 1000),
    Picture("nightly", night, ("nightly.html", "style.css"), 1000),
)


def kept() -> dict[str, str]:
    """The digest of the templates of each picture when it was made."""
    return dict(json.loads(DIGESTS.read_text(encoding="utf-8"))) if DIGESTS.is_file() else {}


def photograph(browser: str, html: Path, target: Path, height: int) -> None:
    """Raises RuntimeError with the browser's last line if it wrote nothing."""
    with tempfile.TemporaryDirectory(prefix="tenken-browser-") as home:
        command = [
            browser, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
            "--hide-scrollbars", f"--window-size=1100,{height}", f"--user-data-dir={home}", f"--screenshot={target}",
            html.resolve().as_uri(),
        ]  # fmt: skip
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "HOME": home}
        )
    if not target.is_file():
        raise RuntimeError(f"{browser}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")


def smaller(file: Path) -> None:
    """The same picture in few colours."""
    from PIL import Image

    with Image.open(file) as image:
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)


def main(names: list[str]) -> int:
    browser = signed.browser()
    if browser is None:
        print("no headless browser found (such as Chromium; TENKEN_BROWSER may name one)", file=sys.stderr)
        return 2
    digests = kept()
    for picture in PICTURES:
        if names and picture.name not in names:
            continue
        with tempfile.TemporaryDirectory(prefix="tenken-pictures-") as folder:
            html = Path(folder) / "page.html"
            picture.draw(html)
            light, dark = picture.files()
            photograph(browser, html, light, picture.height)
            text = html.read_text(encoding="utf-8")
            html.write_text(text.replace("@media screen and (prefers-color-scheme: dark)", "@media screen"), "utf-8")
            photograph(browser, html, dark, picture.height)
        for file in (light, dark):
            smaller(file)
            print(f"{file.relative_to(ROOT)}: {file.stat().st_size / 1000:.0f} kB")
        digests[picture.name] = picture.digest()
    DIGESTS.write_text(json.dumps(digests, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
