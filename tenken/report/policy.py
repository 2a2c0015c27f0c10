"""What a page may load: nothing from outside, and no script but its own."""

from __future__ import annotations

import base64
import hashlib

from markupsafe import Markup


def meta(script: str = "", beside: str = "") -> Markup:
    """The Content-Security-Policy of a page whose only script is `script`, exactly as it stands between its tags.

    Styles stand in the page and at drawings, or in a file `beside` it ("'self' file:"); pictures may be `data:` alone.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"'sha256-{digest}'" if script else "'none'"
    styles = " ".join(filter(None, (beside, "'unsafe-inline'")))
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src {styles}; img-src data:; font-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return Markup('<meta http-equiv="Content-Security-Policy" content="{}">').format(Markup(policy))
