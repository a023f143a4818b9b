"""An application for the tests of the faces: ships that drift."""

from __future__ import annotations

from perdure import App, Component

app = App("harbour")


@app.component
class Position(Component):
    x: float
    y: float


@app.component
class Cargo(Component):
    tons: int


@app.component
class Note(Component):
    text: str


app.include("tests.emulator.drift")
