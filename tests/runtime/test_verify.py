"""Verification: an untouched record has no findings, and one flipped byte anywhere is named."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing

import pytest
from tests.runtime.keeping import Clockwork, keeping, moving_app
from tests.support.stores import _numbers  # noqa: F401

from perdure.kernel import limits

pytestmark = pytest.mark.lifecycle


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch):
    monkeypatch.setattr(limits, "CHECKPOINT_TICKS", 4)


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=pytest.mark.cloud)])
def where(request, tmp_path):
    """Return where a storage lies."""
    aws = request.getfixturevalue("aws") if request.param == "dynamodb" else None
    return {"root": tmp_path, "aws": aws}


async def test_an_untouched_world_has_no_findings(where):
    async with keeping(**where) as kept:
        await kept.live(ticks=7)

        before = await kept.verify()
        await kept.land()
        after = await kept.verify()

    assert (before.findings, before.checked_ticks, before.next_tick) == ((), 7, None)
    assert (after.findings, after.checked_ticks, after.next_tick) == ((), 7, None)
