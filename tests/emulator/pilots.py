"""An application whose agents are scripts: one asks for leave, one is slow, one never comes back."""

from __future__ import annotations

import os
import time
from pathlib import Path

from perdure import App
from perdure.runtime.session.agent import Agent
from perdure.runtime.session.model_scripted import calling
from perdure.runtime.session.tool_function import tool
from perdure.runtime.session.toolbox import Toolbox

app = App("pilots")

DIARY = "PILOTS_DIARY"
STEPS = 8


def _note(line: str) -> None:
    with Path(os.environ[DIARY]).open("a", encoding="utf-8") as diary:
        diary.write(f"{os.getpid()} {line}\n")


@tool(needs_approval=True)
def launch(at: str) -> str:
    """Launch at a time of day."""
    _note(f"launch {at}")
    return f"launched at {at}"


@tool(timeout_ms=1_000)
def row(stroke: int) -> int:
    """Row a stroke, which takes most of a second."""
    _note(f"row {stroke}")
    time.sleep(0.8)
    return stroke


@tool(timeout_ms=5_000)
def sound(depth: int) -> int:
    """Sound the depth; the line never comes up while the file is there."""
    _note(f"sound {depth}")
    until = time.monotonic() + 120
    while Path(os.environ[DIARY] + ".hold").exists() and time.monotonic() < until:
        time.sleep(0.05)
    return depth


@tool(effect="pure", timeout_ms=5_000)
def look(bearing: int) -> int:
    """Look in a direction, which changes nothing; it may be done again."""
    _note(f"look {bearing}")
    until = time.monotonic() + 120
    while Path(os.environ[DIARY] + ".hold").exists() and time.monotonic() < until:
        time.sleep(0.05)
    return bearing


@tool(timeout_ms=120_000)
def drift(wave: int) -> int:
    """Drift with a wave, as long as the file is there."""
    until = time.monotonic() + 110
    while Path(os.environ[DIARY] + ".adrift").exists() and time.monotonic() < until:
        time.sleep(0.05)
    return wave


def asks(request, said):
    """Ask for leave once, then be done."""
    return calling(("launch", {"at": "dawn"}), text="May I? ") if said == 0 else "Gone."


def rows(request, said):
    """Row stroke after stroke."""
    return calling(("row", {"stroke": said})) if said < STEPS else "Across."


def sounds(request, said):
    """Sound and look, in one batch."""
    return calling(("sound", {"depth": 3}), ("look", {"bearing": 9})) if said == 0 else "Enough."


def looks(request, said):
    """Look, and nothing else."""
    return calling(("look", {"bearing": 9})) if said == 0 else "Seen."


def drifts(request, said):
    """Drift with three waves."""
    return calling(("drift", {"wave": said})) if said < 3 else "Ashore."


for _name, _tools in (
    ("asks", [launch]),
    ("rows", [row]),
    ("sounds", [sound, look]),
    ("looks", [look]),
    ("drifts", [drift]),
):
    app.agent(
        Agent(
            name=_name,
            model=f"scripted:tests.emulator.pilots:{_name}",
            tools=Toolbox(*_tools),
        )
    )
