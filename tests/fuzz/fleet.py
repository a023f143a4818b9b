"""The application of the fuzzed deployment: something of everything that a world uses by name."""

from __future__ import annotations

import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from perdure import Agent, App, Component, Toolbox, tool
from perdure.runtime.session.model_scripted import calling

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


class Sounded(BaseModel):
    fathoms: float = 0.0


class Sounding(BaseModel):
    model_config = ConfigDict(extra="forbid")

    depth: int
    note: str | None = None


@app.job("sound", owner="fleet", args=Sounding, result=Sounding, state=Sounded)
async def sound(run):
    """Say how deep it is."""
    return run.args


@tool(needs_approval=True)
def weigh_anchor(at: str) -> str:
    """Weigh the anchor."""
    return at


def script(request, said):
    """Ask for the anchor, and say aye."""
    return calling(("weigh_anchor", {"at": "dawn"})) if said == 0 else "Aye."


app.agent(Agent(name="mate", model="scripted:tests.fuzz.fleet:script", tools=Toolbox(weigh_anchor)))
