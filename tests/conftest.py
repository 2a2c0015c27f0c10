"""What holds for all tests."""

import os
import signal

from tenken.paths import ROOT

# A shell that runs the tests in the background, or nohup, has them and every program they start ignore these.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)

# Checks that only tests have import each other as tests.*: the suite itself is installed as tenken alone.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
