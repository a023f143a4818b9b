"""The application that is deployed for tests: the airspace, with jobs that count, stumble and sink."""

from __future__ import annotations

import asyncio
import os

from pydantic import BaseModel, ConfigDict, Field

from airspace.app import app

__all__ = ["app"]


class Counting(BaseModel):
    model_config = ConfigDict(extra="forbid")

    to: int = Field(ge=0, le=10_000)
    seconds: float = Field(default=0.0, ge=0, le=60)
    """What one count takes."""


class Counted(BaseModel):
    count: int = 0


class Stumbling(BaseModel):
    model_config = ConfigDict(extra="forbid")

    deaths: int = Field(ge=0, le=10)


class Stumbled(BaseModel):
    restarts: int


@app.job("count", owner="errands", args=Counting, result=Counted, state=Counted)
async def count(run):
    """Count, and go on where the last process was."""
    while run.state.count < run.args.to:
        if run.stopping.is_set() or run.aborted.is_set():
            raise InterruptedError
        await asyncio.sleep(run.args.seconds)
        await run.change(lambda state: Counted(count=state.count + 1))
    return run.state


@app.job("stumble", owner="errands", args=Stumbling, result=Stumbled)
async def stumble(run):
    """Die with the process, so many times."""
    if run.restarts < run.args.deaths:
        os._exit(1)
    return Stumbled(restarts=run.restarts)


@app.job("sink", owner="errands", args=Counting, result=Counted)
async def sink(run):
    """Fail."""
    raise ValueError("the bilge is full")
