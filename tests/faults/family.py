"""Become the server named by the first argument, after starting children that would like to stay."""

import os
import signal
import sys
import time


def stay() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for file in (0, 1, 2):
        os.dup2(null, file)
    while True:
        time.sleep(1000)


if os.fork() == 0:  # in the same group
    stay()
if os.fork() == 0:  # in a session of its own
    os.setsid()
    stay()
if os.fork() == 0:  # a daemon: orphaned, in a session of its own
    os.setsid()
    if os.fork() == 0:
        stay()
    os._exit(0)
os.execv(sys.executable, [sys.executable, "-I", "-S", sys.argv[1], "fine"])
