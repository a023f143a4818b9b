"""The airspace as an application: its components, and where its processor is found."""

from __future__ import annotations

from airspace.components import Closed, Flight, Position, Route
from perdure import App

app = App("airspace")
for component in (Position, Route, Flight, Closed):
    app.component(component)
# Named, not imported: admission needs the components and no Arrow.
app.include("airspace.processors")
