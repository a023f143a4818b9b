"""An application whose only processor never returns."""

from __future__ import annotations

import sys
import time

from perdure import App, Component

app = App("stuck")


@app.component
class Position(Component):
    x: float
    y: float


@app.processor(Position)
def wait(rows, tick):
    """Say that it has begun, and go on for ever."""
    sys.stdout.write("stuck\n")
    sys.stdout.flush()
    time.sleep(10**6)
    return rows
