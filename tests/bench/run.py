"""One run: every case, or those asked for, one after another on a directory of this disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench import (
    admission,
    batches,
    functions,
    history,
    imports,
    landing,
    machine,
    settling,
    ticking,
    units,
)
from tests.bench.bench import Bench, Scale
from tests.bench.figures import Figure

ROOT = Path(__file__).parents[2]
PREFIX = ".bench-"

CASES: dict[str, Callable[[Bench], Coroutine[Any, Any, list[Figure]]]] = {
    "admission": admission.measure,
    "batches": batches.measure,
    "settling": settling.measure,
    "ticking": ticking.measure,
    "history": history.measure,
    "landing": landing.measure,
    "imports": imports.measure,
    "functions": functions.measure,
    "units": units.measure,
}


def measured(
    names: Sequence[str],
    scale: Scale,
    *,
    root: Path = ROOT,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, list[Figure]], dict[str, Any]]:
    """Run cases, and return their figures by case, and the facts about the machine.

    Data lies in a directory below ``root`` while a case runs: a disk in memory syncs nothing.
    """
    with TemporaryDirectory(dir=root, prefix=PREFIX) as made:
        directory = Path(made)
        say("probing the disk")
        facts = machine.facts(directory)
        bench = Bench(directory, scale, say)
        return {name: asyncio.run(CASES[name](bench)) for name in names}, facts
