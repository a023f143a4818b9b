"""The harbour with a hook that keeps a diary of ended worlds, and dies of it if a file says so."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

from perdure import App, Component

DIARY: Final = "PERDURE_TEST_DIARY"
DIE: Final = "die"
"""Beside the diary: the process that tells the hook dies of it, once."""

app = App("harbour")


@app.component
class Position(Component):
    x: float
    y: float


@app.hook("OnDestroy")
def remember(ending: object) -> None:
    diary = Path(os.environ[DIARY])
    with diary.open("a", encoding="utf-8") as written:
        written.write("told\n")
    order = diary.with_name(DIE)
    if order.exists():
        order.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
