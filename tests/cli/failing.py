"""An application whose only processor fails, with much to say."""

from __future__ import annotations

from perdure import App, Component

app = App("reef")


@app.component
class Position(Component):
    x: float
    y: float


@app.processor(Position)
def founder(rows, tick):
    """Fail as libraries do, in more than one line."""
    message = "aground\n  at low tide\r\n\non a reef"
    raise RuntimeError(message)
