"""The harbour's processor."""

from __future__ import annotations

import pyarrow.compute as pc
from tests.emulator.harbour import Position, app


@app.processor(Position)
def drift(rows, tick):
    """Move every ship by one to the east."""
    place = rows.schema.get_field_index("position__x")
    return rows.set_column(place, "position__x", pc.add(rows["position__x"], 1.0))
