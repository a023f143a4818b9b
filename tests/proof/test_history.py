"""Histories outlive the processes that wrote them."""

from __future__ import annotations

import asyncio

import pytest
from tests.proof.history import Recorder, read_history

from perdure.kernel.errors import Contended, NotFound, OutcomeUnknown

pytestmark = pytest.mark.proof


async def raising(error):
    raise error


async def giving(answer):
    return answer


def recorded(path, *works):
    """Record one call for each work, as one process."""

    async def record():
        recorder = Recorder(path, path.stem)
        for work in works:
            await recorder.call("info", {"world": "w"}, work, str)
        recorder.close()

    asyncio.run(record())


def test_what_was_asked_and_answered_is_read_back(tmp_path):
    said = {"expected": "a", "found": "b"}
    works = [giving(7), *(raising(of(**said)) for of in (NotFound, Contended, OutcomeUnknown))]
    recorded(tmp_path / "p0", *works)
    recorded(tmp_path / "p1", giving(8))

    calls = read_history([tmp_path / "p1", tmp_path / "p0"])

    assert [(call.process, call.outcome, call.answer, call.code) for call in calls] == [
        ("p0", "answered", "7", None),
        ("p0", "refused", None, "not_found"),
        ("p0", "undone", None, "contended"),
        ("p0", "unknown", None, "outcome_unknown"),
        ("p1", "answered", "8", None),
    ]
    assert [call.returned_ns is None for call in calls] == [False, False, False, True, False]


def test_of_a_process_that_was_killed_the_last_call_is_unknown(tmp_path):
    path = tmp_path / "p0"
    recorded(path, giving(7), giving(8))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:20])

    calls = read_history([path])

    assert [call.outcome for call in calls] == ["answered", "unknown"]
    assert calls[1].returned_ns is None
