"""What a failed test leaves behind: open files, running loops, processes. It is told of nobody else."""

from __future__ import annotations

import gc
import sys


def forget() -> None:
    """Collect what is garbage now, and let nobody be told of it.

    Its finalisers complain, and pytest blames the test in which they run: any test, later.
    """
    for name in ("last_type", "last_value", "last_traceback"):  # they hold a failed test's frames
        vars(sys).pop(name, None)
    told = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        gc.collect()
    finally:
        sys.unraisablehook = told
