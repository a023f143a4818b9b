"""Proofs: the commands that have to notice a mutation, and what they print when they do."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

from tests.simulator.mutations.mutation import ROOT, Broken

VIOLATION: Final = re.compile(r"^seed (?P<seed>\d+): (?P<invariant>[ID]\d): ", re.MULTILINE)
SESSIONS_VIOLATION: Final = re.compile(
    r"^seed (?P<seed>\d+): (?P<invariant>S\d|no internal error|the model): ", re.MULTILINE
)
TAKEN: Final = re.compile(r"^(?P<plays>\d+) plays, (?P<steps>\d+) steps", re.MULTILINE)
FAILED: Final = re.compile(
    r"^FAILED \S+?::(?:Test\w+::)?(?:test_)?(?P<test>\w+)(?:\[(?P<case>\w+)\])?", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Simulated:
    """Plays of the simulator, from one seed on."""

    mix: str = "everyday"
    start: int = 0
    seeds: int = 60

    is_simulator: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"simulator, {self.mix}"

    def command(self, shared: Path) -> list[str]:
        start, seeds = str(self.start), str(self.seeds)
        options = ["--mix", self.mix, "--start", start, "--seeds", seeds]
        return [sys.executable, "-m", "tests.simulator", *options]

    def control(self, broken: Broken) -> Simulated:
        return self if broken.seed is None else replace(self, start=broken.seed, seeds=1)

    def broken(self, code: int, output: str) -> Broken | None:
        found = VIOLATION.search(output)
        if code != 1 or found is None:
            return None
        taken = TAKEN.search(output)
        steps = "" if taken is None else f", {int(taken['steps']):,} steps"
        where = f"seed {found['seed']}{steps}"
        return Broken(found["invariant"], where, int(found["seed"]))


@dataclass(frozen=True, slots=True)
class SessionPlays:
    """Plays of sessions, from one seed on."""

    start: int = 0
    seeds: int = 30

    is_simulator: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "simulator, sessions"

    def command(self, shared: Path) -> list[str]:
        options = ["--start", str(self.start), "--seeds", str(self.seeds)]
        return [sys.executable, "-m", "tests.simulator.session_play", *options]

    def control(self, broken: Broken) -> SessionPlays:
        return self if broken.seed is None else replace(self, start=broken.seed, seeds=1)

    def broken(self, code: int, output: str) -> Broken | None:
        found = SESSIONS_VIOLATION.search(output)
        if code != 1 or found is None:
            return None
        seed = int(found["seed"])
        return Broken(found["invariant"], f"seed {seed}", seed)


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests of another suite, for code that no simulator reaches."""

    selection: str

    is_simulator: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.selection

    def command(self, shared: Path) -> list[str]:
        # pytest puts the code to be tested first, so it is told where that is.
        paths = f"pythonpath={shared} {ROOT / 'emulator'} {ROOT}"
        options = ["-n", "0", "-q", "-x", "-p", "no:cacheprovider", "-o", paths]
        return [sys.executable, "-m", "pytest", *options, *self.selection.split()]

    def control(self, broken: Broken) -> Suite:
        return self

    def broken(self, code: int, output: str) -> Broken | None:
        found = FAILED.search(output)
        if code != 1 or found is None:
            return None
        told = ": ".join(filter(None, (found["test"], found["case"])))
        return Broken(told.replace("_", " "), "a test")
