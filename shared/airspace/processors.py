"""The airspace's one processor: everything that has a route flies along it."""

from __future__ import annotations

import pyarrow as pa

from airspace.app import app
from airspace.components import Position, Route
from airspace.motion import moved
from perdure.runtime.compute import TickContext


@app.processor(Position, Route)
def fly(rows: pa.Table, tick: TickContext) -> pa.Table:
    """Move every aircraft to where its route has it at this tick."""
    return moved(rows, tick.number)
