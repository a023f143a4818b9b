"""One run: every case, or those asked for, one after another on a directory of this disk."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench import machine
from tests.bench.bench import Bench, Scale
from tests.bench.figures import Figure
from tests.bench.machine_use import Meter, Use

ROOT = Path(__file__).parents[2]
PREFIX = ".bench-"

CASES = {
    "admission": "admission",
    "batches": "batches",
    "parts": "parts",
    "settling": "settling",
    "ticking": "ticking",
    "history": "history",
    "landing": "landing",
    "imports": "imports",
    "functions": "functions",
    "units": "units",
    "stores": "stores",
    "operations": "operations",
    "http": "over_http",
    "end-to-end": "end_to_end",
    "month": "month",
    "dbos": "dbos",
    "archetype": "archetype",
}
"""Modules by case, imported when it is their turn: what one needs, the others do without."""

PEERS = frozenset({"dbos", "archetype"})
"""Cases that measure another product beside ours, and nothing without it."""


@dataclass(frozen=True)
class Measured:
    """What a case came to."""

    figures: list[Figure]
    notes: tuple[str, ...] = ()
    use: Use | None = None


def chosen(only: Sequence[str], skip: Sequence[str], *, peers: bool) -> list[str]:
    """Return the cases of a run, in their order. A case that is named needs no other leave."""
    return [
        name
        for name in CASES
        if name not in skip and (name in only if only else peers or name not in PEERS)
    ]


def measured(
    names: Sequence[str],
    scale: Scale,
    *,
    root: Path = ROOT,
    say: Callable[[str], None] = lambda _: None,
    peers: bool = False,
) -> tuple[dict[str, Measured], dict[str, Any]]:
    """Run cases, and return what they came to, and the facts about the machine.

    Data lies in a directory below ``root`` while a case runs: a disk in memory syncs nothing.
    """
    with TemporaryDirectory(dir=root, prefix=PREFIX) as made:
        directory = Path(made)
        say("probing the disk")
        facts = machine.facts(directory)
        done = {}
        for name in names:
            bench = Bench(directory, scale, say, peers=peers or name in PEERS)
            with Meter() as meter:
                case = importlib.import_module(f"tests.bench.{CASES[name]}")
                figures = asyncio.run(case.measure(bench))
            done[name] = Measured(figures, tuple(bench.notes), meter.use)
        return done, facts
