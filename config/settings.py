"""The configuration that ReFrame reads: `RFM_CONFIG_PATH=config`, set by the virtual environment of this checkout."""

import sys

import tenken.reframe.again
import tenken.reframe.budget
import tenken.reframe.build
import tenken.reframe.deprecations
import tenken.reframe.full_disk
import tenken.reframe.launchers
import tenken.reframe.leftovers
import tenken.reframe.logs
import tenken.reframe.orphans
import tenken.reframe.setup_failures
import tenken.reframe.stages
import tenken.reframe.terminal
import tenken.reframe.variables
from tenken.errors import TenkenError
from tenken.reframe.configuration import site_configuration as _assemble

tenken.reframe.deprecations.register()
tenken.reframe.logs.register()
tenken.reframe.build.register()
tenken.reframe.budget.register()
tenken.reframe.full_disk.register()
tenken.reframe.setup_failures.register()
tenken.reframe.orphans.register()
tenken.reframe.leftovers.register()
tenken.reframe.stages.register()
tenken.reframe.terminal.register()
tenken.reframe.variables.register()
tenken.reframe.again.register()
try:
    site_configuration = _assemble()
except TenkenError as error:
    sys.exit(f"tenken: {error}")
