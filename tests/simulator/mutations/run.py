"""Running mutations: each in a copy of the product code, beside a control that changes nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.simulator.mutations.mutation import ROOT, Broken, Mutation, Proof, copied

SECONDS_MAX: Final = 1_800.0
"""No proof takes so long; one that does has found nothing."""

OUTPUT_CHARACTERS: Final = 1_500


_running: set[subprocess.Popen[str]] = set()
"""Proofs of this process: whoever stops it stops them too."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What a proof said of some code."""

    code: int | None
    """Exit code; None if it was ended because it took too long."""

    broken: Broken | None
    seconds: float
    output: str
    """The end of what it printed."""

    @property
    def passed(self) -> bool:
        return self.code == 0


@dataclass(frozen=True, slots=True)
class Trial:
    """A mutation, what its proof said of it, and what the same proof said of the code as it is."""

    mutation: Mutation
    tried: Tried
    control: Tried | None
    """None if nothing was found broken."""

    @property
    def is_caught(self) -> bool:
        """Say whether a promise was found broken, and by nothing but the mutation."""
        return self.tried.broken is not None and self.control is not None and self.control.passed

    @property
    def verdict(self) -> str:
        """Say in a few words how it went."""
        if self.is_caught:
            return "caught"
        if self.tried.broken is not None:
            return "the proof fails without the mutation, too"
        if self.tried.code is None:
            return "survived: the proof did not end"
        return "survived" if self.tried.passed else "survived: the proof fell over"


def trials(mutations: Sequence[Mutation], *, jobs: int = 1) -> Iterator[Trial]:
    """Try mutations, so many at a time, in their order."""
    with tempfile.TemporaryDirectory(prefix="mutations-") as kept, ThreadPoolExecutor(jobs) as pool:
        as_it_is = copied(Path(kept))
        controls: dict[Proof, Tried] = {}
        try:
            yield from pool.map(partial(_trial, as_it_is, controls), mutations)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(_running):
                _kill(process)
            raise


def _trial(as_it_is: Path, controls: dict[Proof, Tried], mutation: Mutation) -> Trial:
    """Try a mutation; where it is caught, try the same on the code as it is."""
    proof = mutation.proof
    with tempfile.TemporaryDirectory(prefix=f"mutation-{mutation.name}-") as kept:
        found = tried(proof, mutation.copied(Path(kept)))
    if found.broken is None:
        return Trial(mutation, found, None)
    control = proof.control(found.broken)
    if control not in controls:
        controls[control] = tried(control, as_it_is)
    return Trial(mutation, found, controls[control])


def tried(proof: Proof, shared: Path) -> Tried:
    """Run a proof on the code below ``shared``."""
    paths = (shared, ROOT / "emulator", ROOT)
    begun = time.monotonic()
    with subprocess.Popen(
        proof.command(shared),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        _running.add(process)
        try:
            output, _ = process.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return Tried(None, None, time.monotonic() - begun, "")
        finally:
            _kill(process)
            _running.discard(process)
    broken = proof.broken(process.returncode, output)
    seconds = time.monotonic() - begun
    return Tried(process.returncode, broken, seconds, output[-OUTPUT_CHARACTERS:])


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a proof with whatever it has begun; its group is its own, and outlives it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
