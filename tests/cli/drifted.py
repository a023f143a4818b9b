"""The harbour after a deployment that gave Position a third field, and no other component."""

from __future__ import annotations

from perdure import App, Component

app = App("harbour")


@app.component
class Position(Component):
    x: float
    y: float
    z: float = 0.0
