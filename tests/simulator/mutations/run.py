"""Running mutations: each in a copy of the product code, beside a control that changes nothing."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.simulator.mutations.mutation import ROOT, Broken, Mutation, Proof, copied

SECONDS_MAX: Final = 1_800.0
"""No proof takes so long; one that does has found nothing."""

OUTPUT_CHARACTERS: Final = 1_500


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
    control: Tried

    @property
    def is_caught(self) -> bool:
        """Say whether a promise was found broken, and by nothing but the mutation."""
        return self.tried.broken is not None and self.control.passed

    @property
    def verdict(self) -> str:
        """Say in a few words how it went."""
        if not self.control.passed:
            return "the proof fails without the mutation, too"
        if self.tried.broken is not None:
            return "caught"
        if self.tried.code is None:
            return "survived: the proof did not end"
        return "survived" if self.tried.passed else "survived: the proof fell over"


def trials(
    mutations: Sequence[Mutation], *, jobs: int = 1, say: Callable[[str], None] = lambda _: None
) -> Iterator[Trial]:
    """Try mutations, so many at a time, in their order."""
    with tempfile.TemporaryDirectory(prefix="mutations-") as kept, ThreadPoolExecutor(jobs) as pool:
        as_it_is = copied(Path(kept))
        controls: dict[Proof, Future[Tried]] = {}
        runs: list[tuple[Mutation, Future[Tried]]] = []
        for each in mutations:
            if each.proof not in controls:
                controls[each.proof] = pool.submit(tried, each.proof, as_it_is)
            runs.append((each, pool.submit(_mutated, each, say)))
        for mutation, run in runs:
            yield Trial(mutation, run.result(), controls[mutation.proof].result())


def _mutated(mutation: Mutation, say: Callable[[str], None]) -> Tried:
    say(mutation.name)
    with tempfile.TemporaryDirectory(prefix=f"mutation-{mutation.name}-") as kept:
        return tried(mutation.proof, mutation.copied(Path(kept)))


def tried(proof: Proof, shared: Path) -> Tried:
    """Run a proof on the code below ``shared``."""
    paths = (shared, ROOT / "emulator", ROOT)
    begun = time.monotonic()
    try:
        run = subprocess.run(
            proof.command(shared),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Tried(None, None, time.monotonic() - begun, "")
    broken = proof.broken(run.returncode, run.stdout)
    output = run.stdout[-OUTPUT_CHARACTERS:]
    return Tried(run.returncode, broken, time.monotonic() - begun, output)
