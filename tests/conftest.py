"""What holds for all tests."""

import signal

# A shell that runs the tests in the background, or nohup, has them and every program they start ignore these.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)
