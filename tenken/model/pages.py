"""Where programs report that the pages of their arrays are, before and after."""

from __future__ import annotations

from typing import Any

from tenken.model.formula import Unknown, pcie

#: Where all pages are at the end, as programs write it.
ON_HOST = "-> host 100 %, device 0 %"
#: A rate this far above that of the link, counting each byte as read and written, was not limited by the link.
BEYOND = 1.2


def pages_of(run: Any, one: Any, place: str) -> tuple[None, float] | None:
    """The highest rate of a GPU on arrays whose pages ended up on the host, in GB/s; None: no pages did, or the link is
    unknown or not PCIe. `place` names the arrays."""
    said = [str(run.result.path.get(f"pages.{place}.{end}")) for end in ("source", "destination")]
    device = run.result.device(one.subject.first)
    if device is None or device.pageable_uses_host_page_tables or not all(text.endswith(ON_HOST) for text in said):
        return None
    if not device.pcie_generation_max or not device.pcie_width_max:
        return None
    try:
        return None, BEYOND * 2 * pcie(device.pcie_generation_max, device.pcie_width_max)
    except Unknown:
        return None
