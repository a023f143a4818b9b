"""Deaths that are real, and grounds of each kind, for the matrix."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

from tests.proof.day import Told, small_limits
from tests.proof.ground import FileGround
from tests.proof.matrix import Scene, lived
from tests.support.steps import Steps, When, kill_9

PRELOADED = ["tests.proof.deaths", "tests.proof.working", "tests.proof.asking"]
"""What processes that are killed have imported before they are begun."""

SECONDS_MAX = 300


@contextlib.contextmanager
def forked() -> Iterator[ForkServerContext]:
    """Let processes be forked from one that has imported everything: a life costs no seconds."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    try:
        yield context
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def killed(ground: FileGround, scene: Scene, number: int, when: When) -> None:
    """Play an act in a process that is killed with SIGKILL at one of its steps."""
    with forked() as context:
        arguments = (ground.root, ground.clock.time, scene.act, number, when)
        process = context.Process(target=_dying, args=arguments)
        process.start()
        process.join(SECONDS_MAX)
        ended = process.exitcode
        process.kill()
        process.join()
    assert ended == -signal.SIGKILL, f"ended with {ended}"


def _dying(root: Path, time: int, act: str, number: int, when: When) -> None:
    ground = FileGround(root)
    ground.clock.time = time
    with small_limits():
        asyncio.run(lived(ground, (act,), Told(), Steps(number, when=when, end=kill_9)))
