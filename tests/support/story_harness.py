"""Harnesses of the conformance suite of sessions: in memory, and with processes of their own."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.house.sources import ROOT, environment
from tests.runtime.session.living_story import REACHED
from tests.support.children import child
from tests.support.sessions import Clock, MemoryObjects
from tests.support.stores import TABLE, dynamodb_client

from perdure.authority.dynamodb_wire import table_definition
from perdure.authority.memory import Crashed, MemoryStore
from perdure.kernel.ids import Token
from perdure.runtime.session.testing import Bench, Doom, Ended, KillPoint, live

LEASE_MS = 20_000
LIFE_S_MAX = 120


@dataclass
class InMemory:
    """Processes that one process plays; a death is an error that nothing catches."""

    mechanism = "fault_hook"
    store: MemoryStore = field(default_factory=MemoryStore)
    objects: MemoryObjects = field(default_factory=MemoryObjects)
    clock: Clock = field(default_factory=Clock)
    notes: list[tuple[str, Any]] = field(default_factory=list)
    processes: itertools.count = field(default_factory=lambda: itertools.count(1))

    async def spawn(self) -> None:
        self.__init__()

    async def kill_at(self, point: KillPoint) -> Ended:
        try:
            await live(self._bench(point))
        except (Crashed, BaseExceptionGroup):
            self.clock.at += 2 * LEASE_MS
            return Ended(point)
        raise AssertionError(f"the process never came to {point}")

    async def restart(self) -> None:
        await live(self._bench(None))

    def noted(self):
        return self.notes

    def _bench(self, point: KillPoint | None) -> Bench:
        number, drawn = next(self.processes), itertools.count(1)

        def end():
            raise Crashed

        return Bench(
            store=self.store.reopened(),
            objects=self.objects,
            now=self.clock,
            new_token=lambda: Token(f"{number:04x}{next(drawn):028x}"),
            pause=lambda _: asyncio.sleep(0),
            note=lambda word, body: self.notes.append((word, body)),
            doom=Doom(point, end),
            lease_ms=LEASE_MS,
        )


@dataclass
class Apart:
    """Processes of their own, each of which SIGKILL ends where its hook says."""

    directory: Path
    module: str = "living_story"
    place: Callable[[], list[str]] = list
    """Make an empty place to keep sessions, and return what else a process is told of it."""

    mechanism = "fault_hook_then_process_kill"
    told: list[str] = field(default_factory=list)

    async def spawn(self) -> None:
        self.told = self.place()

    async def kill_at(self, point: KillPoint) -> Ended:
        process, stderr = self._lived(point)
        assert process.returncode == -signal.SIGKILL, stderr or "it came to its end"
        return Ended(point, process.pid, signal.SIGKILL)

    async def restart(self) -> None:
        process, stderr = self._lived(None)
        assert process.returncode == 0, stderr

    def noted(self):
        return [tuple(json.loads(line)) for line in self._notes.read_text().splitlines()]

    @property
    def _notes(self) -> Path:
        return self.directory / "notes"

    def _lived(self, point: KillPoint | None) -> tuple[subprocess.Popen, str]:
        with self._begun(point or "-") as process:
            _, stderr = process.communicate(timeout=LIFE_S_MAX)
        return process, stderr

    def _begun(
        self, point: str, stdout: int = subprocess.DEVNULL
    ) -> AbstractContextManager[subprocess.Popen]:
        module = f"tests.runtime.session.{self.module}"
        return child(
            [sys.executable, "-m", module, self.directory, point, *self.told],
            cwd=ROOT,
            env=environment(),
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )


@dataclass
class Signalled(Apart):
    """Processes that stand still at a point, where SIGKILL from outside ends them."""

    mechanism = "process_signal"

    def _lived(self, point: KillPoint | None) -> tuple[subprocess.Popen, str]:
        if point is None:
            return super()._lived(None)
        with self._begun(f"{point}!", stdout=subprocess.PIPE) as process:
            reached = process.stdout.readline()
            process.kill()
            _, stderr = process.communicate(timeout=LIFE_S_MAX)
        assert reached == REACHED, stderr
        return process, stderr


def on_sqlite(directory: Path) -> Apart:
    return Apart(directory)


def signalled_on_sqlite(directory: Path) -> Apart:
    return Signalled(directory)


def on_dynamodb(directory: Path, address: str, account: str) -> Apart:
    """Keep sessions in a table of an account of its own."""

    def place() -> list[str]:
        client = dynamodb_client(address, account, threads=1)
        client.create_table(**table_definition(TABLE))
        client.close()
        return [address, account]

    return Apart(directory, "living_story_dynamodb", place)
