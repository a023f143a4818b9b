"""A long conversation with one store, and what the process keeps of it."""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.conversing import base, change, delta, entry

DELTAS = 100
"""Changes of a document until its next base."""

DATA = {"role": "user", "content": [{"type": "text", "text": "x" * 200}], "timestamp": 1}


@dataclass(frozen=True)
class Kept:
    """What a process has in memory."""

    objects: int
    bytes: int


def kept() -> Kept:
    """Count what is in memory once garbage is gone."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return Kept(len(gc.get_objects()), pages * os.sysconf("SC_PAGE_SIZE"))


async def converse(storage: Any, commits: int, document: int) -> None:
    """Commit entries and changes of a document in turn, with a base now and then."""
    for number in range(commits):
        if number % 2:
            is_base = number % (2 * DELTAS) == 1
            content = base({"n": number}) if is_base else delta(["s", ["n"], number])
            await storage.commit([change(document, content)])
        else:
            await storage.commit([entry(storage.mint(), data=DATA)])
