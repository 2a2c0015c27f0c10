"""What ReFrame reads: `RFM_CONFIG_PATH=config`, set by the virtual environment of this checkout."""

import sys

import tenken.reframe.build
import tenken.reframe.launchers
import tenken.reframe.logs
import tenken.reframe.terminal
from tenken.errors import TenkenError
from tenken.reframe.configuration import site_configuration as _assemble

tenken.reframe.logs.register()
tenken.reframe.build.register()
tenken.reframe.terminal.register()
try:
    site_configuration = _assemble()
except TenkenError as error:
    sys.exit(f"tenken: {error}")
