"""What ReFrame reads: `RFM_CONFIG_PATH=config`, set by the virtual environment of this checkout."""

import config.unavailable  # noqa: F401 -- registers the back end of systems that cannot be used yet
from config.assemble import site_configuration as _assemble

site_configuration = _assemble()
