"""The demo: an agent's process is killed in the middle of its calls, and the run comes to its end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

import perdure
from airspace.components import Route
from dispatcher.agent import AGENT
from dispatcher.airlines import AIRLINES
from dispatcher.app import app
from dispatcher.script import AND, TELL, WATCH, nearest_open
from dispatcher.sky import CLOSED, airborne, sky_at_noon
from dispatcher.work import HALTED, SESSION, sessions_of, worked
from perdure.runtime.storage import Storage, World

Say = Callable[[str], None]

KILLED: Final = -9


class Untrue(Exception):
    """Something that the demo promises is not so."""


def check(promise: str, *, found: Any, expected: Any) -> None:
    """Hold what was found to what was promised. Raises Untrue."""
    if found != expected:
        raise Untrue(f"{promise}: expected {expected!r}; found {found!r}")


@dataclass
class Story:
    """One telling of the demo, in a directory of its own."""

    root: Path
    say: Say


@click.command(
    help="Kill an agent's process in the middle of its tool calls, and see what comes of it."
)
@click.option("--session", is_flag=True, help="What this demo is; for scripts/demo.")
@click.option(
    "--root", type=click.Path(file_okay=False, path_type=Path), help="An empty directory."
)
def main(root: Path | None, *, session: bool) -> None:  # noqa: ARG001  # scripts/demo passes it on
    """Tell the story and end the process with its exit code."""
    kept = Path(tempfile.mkdtemp(prefix="perdure-session-")) if root is None else root.resolve()
    kept.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"{time.monotonic() - began:5.1f} s  {text}")

    try:
        asyncio.run(told(kept, say))
    except Untrue as untrue:
        click.echo(f"demo: {untrue}", err=True)
        sys.exit(1)
    say(f"All of it was checked. What is left lies in {kept}")


async def told(root: Path, say: Say) -> None:
    """Play the whole story and check it. Raises Untrue."""
    story = Story(root, say)
    AIRLINES.lie_in(root)
    async with perdure.open(story.root.as_uri(), app=app) as storage:
        world = await sky_at_noon(storage)
        session = await storage.create_session(AGENT, session_id=SESSION)
        say(f"Noon: {len(airborne())} flights in the air, and {CLOSED} has closed.")
        await session.send(WATCH, send_id="watch")
        killed(story, "submit:3")
        say("The world has admitted the third reroute: its process is killed with SIGKILL.")
        await rerouted(story, storage, world)
        await session.send(TELL, send_id="tell")
        killed(story, "notify:1")
        say("The first airline has heard it: its process is killed with SIGKILL.")
        await notified(story, storage)
        await session.send(AND, send_id="and")
        await asked(story, storage)


async def rerouted(story: Story, storage: Storage, world: World) -> None:
    """Let another process go on with the reroutes, and check them."""
    waiting = await world.storage.worlds.describe(world.world_id)
    check("admitted before the kill", found=waiting.pending_commands, expected=3)
    await worked(storage)
    bound = [each for each in airborne() if each.destination.code == CLOSED]
    other = nearest_open(CLOSED, [CLOSED]).code
    commands, _ = await storage.worlds.commands(world.world_id, limit=1_000)
    updates = Counter(each.entity_id for each in commands if each.operation == "update")
    check("each reroute is in the world once", found=set(updates.values()), expected={1})
    check("every flight is rerouted", found=len(updates), expected=len(bound))
    rows = (await world.query(Route)).to_pylist()
    to = Counter(row["route__destination"] for row in rows)
    check(f"nobody flies to {CLOSED}", found=to[CLOSED], expected=0)
    check("the run's end", found=await ends(storage), expected=["completed"])
    story.say(
        f"Another process went on: {len(updates)} reroutes to {other}, each in the world exactly"
        " once; the run is completed."
    )


async def notified(story: Story, storage: Storage) -> None:
    """Let another process close the run whose call may have happened, and check it."""
    await worked(storage)
    check("the run's end", found=(await ends(storage))[-1], expected="interrupted")
    check("calls that the airlines heard", found=len(AIRLINES.heard), expected=1)
    outcomes = [each["outcome"] for each in await payloads(storage, "tool_result")][-2:]
    check("outcomes of the calls", found=outcomes, expected=["unknown", "unknown"])
    story.say(
        "Another process calls nobody again, for either call may have happened: the run is"
        " interrupted."
    )


async def asked(story: Story, storage: Storage) -> None:
    """Ask the agent, and check that it was told."""
    await worked(storage)
    said = (await payloads(storage, "model_step_finished"))[-1]["assistant_message"]["text"]
    check("the run's end", found=(await ends(storage))[-1], expected="completed")
    check(
        "that the agent knows", found="can not say whether they were heard" in said, expected=True
    )
    check("calls that the airlines heard", found=len(AIRLINES.heard), expected=1)
    story.say(f"Asked, the agent says: {said}")


async def ends(storage: Storage) -> list[str]:
    """Return how each run ended."""
    return [each["reason"] for each in await payloads(storage, "run_finished")]


async def payloads(storage: Storage, kind: str) -> list[dict[str, Any]]:
    """Return what the frames of one type say."""
    page = await sessions_of(storage).transcript(SESSION, limit=500)
    return [frame.payload for frame in page.frames if frame.type == kind]


def killed(story: Story, halt: str) -> None:
    """Start a process that halts in the middle of a call, and kill it there. Raises Untrue."""
    with subprocess.Popen(  # noqa: S603 (our own command, no shell)
        [sys.executable, "-m", "dispatcher.work", str(story.root), halt],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        process.kill()
        check("where the process stood", found=said, expected=HALTED)
        check("how the process ended", found=process.wait(), expected=KILLED)
