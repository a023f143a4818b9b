"""An application whose only processor takes its time, and says when it begins."""

from __future__ import annotations

import sys
import time

from perdure import App, Component

app = App("slow")


@app.component
class Position(Component):
    x: float
    y: float


@app.processor(Position)
def wait(rows, tick):
    """Say that it has begun, and take a second."""
    sys.stdout.write("slow\n")
    sys.stdout.flush()
    time.sleep(1)
    return rows
