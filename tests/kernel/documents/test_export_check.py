"""Whatever is done to an export, its check takes it or refuses it, and never breaks."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tests.support.documents import REF
from tests.support.exporting import changed_somewhere, export_made_of, made, parts_of

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.documents.errors import InvalidExport
from perdure.kernel.documents.export_check import ExportCheck

pytestmark = pytest.mark.stores


@pytest.fixture(scope="module")
def exported() -> bytes:
    return asyncio.run(made(5, 25))


def is_taken(data: bytes) -> bool:
    """Say whether a check takes an export. Raises what is no refusal of it."""
    check = ExportCheck(REF.partition)
    try:
        for line in data.splitlines(keepends=True):
            check.take(line)
        check.done()
    except InvalidExport:
        return False
    return True


def damaged(parts: list[dict[str, Any]], draw: random.Random) -> None:
    """Change one thing of an export, somewhere."""
    match draw.randrange(4):
        case 0:
            del parts[draw.randrange(len(parts))]
        case 1:
            parts.insert(draw.randrange(len(parts)), dict(draw.choice(parts)))
        case _:
            changed_somewhere(draw.choice(parts), draw)


@pytest.mark.parametrize("seed", range(10))
def test_a_damaged_export_is_refused_as_one_and_in_no_other_way(exported: bytes, seed: int) -> None:
    draw = random.Random(seed)
    taken = 0
    for _ in range(30):
        parts = strict(canonical(parts_of(exported)))
        damaged(parts, draw)
        if parts and isinstance(parts[-1], dict):
            taken += is_taken(export_made_of(parts))

    assert taken < 30


def test_an_export_that_nobody_has_touched_is_taken(exported: bytes) -> None:
    assert is_taken(exported)


def test_bytes_that_are_flipped_are_refused_as_an_export(exported: bytes) -> None:
    draw = random.Random(1)
    for _ in range(100):
        at = draw.randrange(len(exported))
        flipped = bytearray(exported)
        flipped[at] ^= 1 << draw.randrange(8)

        assert not is_taken(bytes(flipped)), at
