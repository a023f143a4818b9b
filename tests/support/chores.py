"""An application of jobs: one counts stroke by stroke, one fails, one waits for a file to go."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from perdure import App

app = App("chores")

DIARY = "CHORES_DIARY"


class Rowing(BaseModel):
    model_config = ConfigDict(extra="forbid")

    strokes: int = Field(ge=0, le=10_000)
    seconds: float = Field(default=0.0, ge=0, le=60)
    """What one stroke takes."""


class Rowed(BaseModel):
    strokes: int = 0


def _note(line: str) -> None:
    if DIARY in os.environ:
        with Path(os.environ[DIARY]).open("a", encoding="utf-8") as diary:
            diary.write(f"{os.getpid()} {line}\n")


@app.job("row", owner="chores", args=Rowing, result=Rowed, state=Rowed)
async def row(run):
    """Row, and write each stroke down before the next; go on where the last process was."""
    _note(f"begin {run.job} {run.restarts}")
    while run.state.strokes < run.args.strokes:
        if run.stopping.is_set() or run.aborted.is_set():
            raise InterruptedError
        await asyncio.sleep(run.args.seconds)
        stroke = run.state.strokes + 1
        _note(f"stroke {run.job} {stroke}")
        await run.change(lambda _, stroke=stroke: Rowed(strokes=stroke))
    return run.state


@row.finish
async def rowed(done):
    _note(f"finish {done.job} {done.outcome.kind}")


@app.job("sink", owner="chores", args=Rowing, result=Rowed)
async def sink(run):
    """Fail."""
    raise ValueError("the bilge is full")
