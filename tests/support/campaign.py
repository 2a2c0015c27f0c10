"""`python -m tests.support.campaign ACTION NAME ...` is `tenken campaign ACTION NAME ...`, of this checkout."""

from __future__ import annotations

import argparse
import sys

from tenken.commands import campaign
from tenken.errors import TenkenError


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser()
    campaign.register(parser.add_subparsers(required=True))
    given = parser.parse_args(["campaign", *words])
    try:
        return int(given.func(given))
    except TenkenError as error:
        print(f"tenken: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
