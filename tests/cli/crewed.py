"""An application with something of everything that a world may use by name."""

from __future__ import annotations

import pyarrow.compute as pc

from perdure import App, Component

app = App("crewed")


@app.component
class Position(Component):
    x: float
    y: float


@app.processor(Position)
def drift(rows, tick):
    """Move by as much as the chart says."""
    moved = pc.add(rows["position__x"], float(tick.resources["chart"]))
    return rows.set_column(rows.schema.get_field_index("position__x"), "position__x", moved)


@app.resource("chart")
def chart():
    return 1.0


@app.hook("OnSpawn")
def look_out(happened):
    message = "nothing to see"
    raise LookupError(message)
