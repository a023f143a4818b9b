"""The main program of a function's process: AWS's own runtime interface client, tied to the emulator."""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
from typing import Final

SET_PARENT_DEATH_SIGNAL: Final = 1
"""Source: linux/prctl.h, PR_SET_PDEATHSIG."""


def main(parent: int, handler: str) -> None:
    """Run a handler until the emulator ends, however it does: even `kill -9` leaves nobody behind."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    # It may have ended before it was watched.
    if os.getppid() == parent:
        sys.argv = ["awslambdaric", handler]
        runpy.run_module("awslambdaric", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
