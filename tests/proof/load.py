"""`kill -9` under load: whoever serves, ticks or lands is killed at random, and again."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from tests.emulator.deployment import key_of
from tests.proof.asking import Asking
from tests.proof.deaths import forked
from tests.proof.working import landing, serving, settled, ticking
from tests.support.ports import free_port

SECONDS_MAX = 300
"""Longer than anything here takes, also on a machine that is busy with other things."""


@dataclass(frozen=True)
class Load:
    """How much is asked for, and how often somebody is killed."""

    seed: int = 1
    rounds: int = 6
    callers: int = 16
    answers: int = 30
    """Answers that somebody heard between one kill and the next, at least."""

    delay_seconds: float = 0.02
    """What chance adds to that, at most, in every other round: else it is at an answer that one dies."""

    victims: tuple[str, ...] = ("server", "server", "ticker one", "ticker two", "lander")
    options: tuple[str, ...] = ()
    """Of the server."""

    whole_group: bool = False
    """Kill everything that a victim has begun, too."""


@dataclass
class Killed:
    """Who was killed, how often, and where the history lies."""

    root: Path
    history: Path
    kills: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


class _Crew:
    """Processes by name, each begun again under the same name when it was killed."""

    def __init__(self, context: ForkServerContext) -> None:
        self._context = context
        self._parts: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        self._living: dict[str, ForkServerProcess] = {}

    def begin(self, name: str, part: Callable[..., None], *arguments: Any) -> None:
        self._parts[name] = (part, arguments)
        process = self._context.Process(
            target=_alone, args=(part, *arguments), name=name, daemon=False
        )
        process.start()
        self._living[name] = process

    def check(self, name: str) -> None:
        """Make sure that nobody has ended but by our hand."""
        found = self._living[name]
        assert found.exitcode is None, f"{name} has ended by itself: {found.exitcode}"

    def kill(self, name: str, *, whole_group: bool = False) -> None:
        process = self._living[name]
        assert process.pid is not None
        if whole_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            os.kill(process.pid, signal.SIGKILL)
        process.join(SECONDS_MAX)
        assert process.exitcode == -signal.SIGKILL

    def again(self, name: str) -> None:
        part, arguments = self._parts[name]
        self.begin(name, part, *arguments)

    def ended(self, name: str) -> None:
        """Wait until somebody comes to an end."""
        process = self._living[name]
        process.join(SECONDS_MAX)
        assert process.exitcode == 0, f"{name} ended with {process.exitcode}"

    def kill_all(self) -> None:
        for process in self._living.values():
            if process.pid is not None and process.exitcode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.join(SECONDS_MAX)


def _alone(part: Callable[..., None], *arguments: Any) -> None:
    """Work in a process group of one's own, so that a kill reaches all of it and no more.

    Where nobody is left to kill it, it ends with the process that it was forked from.
    """
    os.setsid()
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    part(*arguments)


@contextlib.contextmanager
def crew() -> Iterator[_Crew]:
    with forked() as context:
        found = _Crew(context)
        try:
            yield found
        finally:
            found.kill_all()


def loaded(directory: Path, load: Load, say: Callable[[str], None] = lambda _: None) -> Killed:
    """Put a storage under load, kill somebody again and again, and let the rest be done."""
    found = Killed(directory / "root", directory / "history")
    over, port = directory / "over", free_port()
    chance = random.Random(load.seed)
    begun = time.monotonic()
    with crew() as everybody:
        everybody.begin("server", serving, found.root, port, *load.options)
        _wait_for(lambda: _listens(port))
        token = _token(found.root)
        asking = Asking(
            f"http://127.0.0.1:{port}", token, found.history, over, load.callers, load.seed
        )
        everybody.begin("client", asking.begin)
        everybody.begin("ticker one", ticking, found.root)
        everybody.begin("ticker two", ticking, found.root)
        everybody.begin("lander", landing, found.root)
        answers = _Answers(found.history)
        for number in range(1, load.rounds + 1):
            answers.wait_for(load.answers)
            time.sleep(chance.choice((0, chance.uniform(0, load.delay_seconds))))
            victim = chance.choice(load.victims)
            say(f"round {number} of {load.rounds}: {victim}")
            everybody.check(victim)
            everybody.kill(victim, whole_group=load.whole_group)
            found.kills[victim] += 1
            everybody.again(victim)
        over.touch()
        everybody.ended("client")
        working = sorted({*load.victims} - {"client"})
        for each in working:
            everybody.check(each)
        for each in working:
            everybody.kill(each)
        everybody.begin("last", settled, found.root)
        everybody.ended("last")
    found.seconds = time.monotonic() - begun
    return found


class _Answers:
    """Counts the answers in a history that is being written."""

    def __init__(self, history: Path) -> None:
        self._history = history
        self._read = 0
        self._heard = 0

    def wait_for(self, more: int) -> None:
        """Wait until so many more were heard, and return at once when the last one is."""
        wanted = self._heard_by_now() + more
        _wait_for(lambda: self._heard_by_now() >= wanted, every_seconds=0.001)

    def _heard_by_now(self) -> int:
        with contextlib.suppress(FileNotFoundError), self._history.open("rb") as file:
            file.seek(self._read)
            # A line that is half written is left for the next look.
            lines = file.read().rpartition(b"\n")[0]
            self._read += len(lines)
            self._heard += lines.count(b'"outcome": "answered"')
        return self._heard


def _token(root: Path) -> str:
    return key_of(root).token(
        actor="ann",
        role="admin",
        tenant="default",
        now_seconds=int(time.time()),
        seconds=3_600,
    )


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _wait_for(found: Callable[[], bool], every_seconds: float = 0.02) -> None:
    until = time.monotonic() + SECONDS_MAX
    while not found():
        assert time.monotonic() < until, f"nothing within {SECONDS_MAX} s"
        time.sleep(every_seconds)
