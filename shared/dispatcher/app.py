"""The dispatcher as an application: the components of the airspace, and one agent."""

from __future__ import annotations

from airspace.components import Closed, Flight, Position, Route
from perdure import App

app = App("dispatcher")
for component in (Position, Route, Flight, Closed):
    app.component(component)
app.include("dispatcher.processors", "dispatcher.agent")
