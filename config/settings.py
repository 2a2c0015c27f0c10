"""What ReFrame reads: `RFM_CONFIG_PATH=config`, set by the virtual environment of this checkout."""

import tenken.reframe.build
import tenken.reframe.launchers
import tenken.reframe.logs
from tenken.reframe.configuration import site_configuration as _assemble

tenken.reframe.logs.register()
tenken.reframe.build.register()
site_configuration = _assemble()
