"""The application of the fuzzed deployment: something of everything that a world uses by name."""

from __future__ import annotations

import pyarrow.compute as pc

from perdure import App, Component

app = App("fleet")


@app.component
class Position(Component):
    x: float
    y: float


@app.component
class Cargo(Component):
    tons: int
    note: str | None
    sealed: bool


@app.processor(Position)
def drift(rows, tick):
    """Move as the chart says."""
    moved = pc.add(rows["position__x"], float(tick.resources["chart"]))
    return rows.set_column(rows.schema.get_field_index("position__x"), "position__x", moved)


@app.resource("chart")
def chart():
    return 1.0


@app.hook("OnSpawn")
def look_out(happened):
    """Look, and say nothing."""
