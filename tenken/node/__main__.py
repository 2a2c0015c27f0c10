"""`python -I -m tenken.node`: as the command `tenken-node`."""

import sys

from tenken.node.cli import main

if __name__ == "__main__":
    sys.exit(main())
