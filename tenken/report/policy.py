"""The content policy of pages: nothing external, and no script except their own."""

from __future__ import annotations

import base64
import hashlib

from markupsafe import Markup


def meta(script: str = "", beside: str = "") -> Markup:
    """The Content-Security-Policy of a page whose only script is `script`, exactly as between its tags.

    Styles are in the page and its drawings, or in a file `beside` it ("'self' file:"); images only as `data:`.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"'sha256-{digest}'" if script else "'none'"
    styles = " ".join(filter(None, (beside, "'unsafe-inline'")))
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src {styles}; img-src data:; font-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return Markup('<meta http-equiv="Content-Security-Policy" content="{}">').format(Markup(policy))
