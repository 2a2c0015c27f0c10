"""What ReFrame reads: `RFM_CONFIG_PATH=config`, set by the virtual environment of this checkout."""

import config.launchers  # noqa: F401 -- registers them
from config.assemble import site_configuration as _assemble

site_configuration = _assemble()
