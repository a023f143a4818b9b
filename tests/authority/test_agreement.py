"""Stores agree: random histories get the same replies and end in the same records."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import stores

from perdure.authority.store import Store
from perdure.authority.testing.records import (
    HERE,
    Add,
    Collect,
    Copy,
    Look,
    Move,
    Note,
    Tell,
    Write,
)
from perdure.authority.testing.registry import authority
from perdure.kernel.errors import PerdureError
from perdure.kernel.view import Range, Reads, Request

pytestmark = pytest.mark.proof

NAMES = st.sampled_from(["a", "b", "c"])
TEXTS = st.sampled_from(["x", "y", "long " * 300])
REQUESTS: st.SearchStrategy[Request[object]] = st.one_of(
    st.builds(Add, NAMES, st.integers(1, 3)),
    st.builds(Tell, NAMES, TEXTS),
    st.builds(Write, st.lists(st.tuples(NAMES, TEXTS), min_size=1, max_size=3).map(tuple)),
    st.builds(Move, NAMES, NAMES, st.integers(1, 3)).filter(
        lambda each: each.source != each.target
    ),
    st.builds(Copy, NAMES, st.booleans()),
    st.builds(Collect, st.booleans()),
    st.builds(Look, st.just(("a", "b")), st.booleans()),
)
HISTORIES = st.lists(st.lists(REQUESTS, min_size=1, max_size=4), min_size=1, max_size=8)

SETTINGS = settings(
    deadline=None, max_examples=12, suppress_health_check=list(HealthCheck), derandomize=True
)


@SETTINGS
@given(HISTORIES)
def test_stores_agree_on_every_history(history: list[list[Request[object]]]) -> None:
    with TemporaryDirectory() as directory:
        ends = [
            asyncio.run(_end(opener_of, history))
            for opener_of in (
                stores.memory,
                lambda: stores.sqlite(Path(directory)),
                stores.dynamodb_moto,
            )
        ]

    assert ends[0] == ends[1]
    assert ends[0] == ends[2]


async def _end(
    opener_of: stores.OpenerOf, history: list[list[Request[object]]]
) -> tuple[list[object], dict[str, tuple[int, str, bytes]]]:
    """Return the replies of groups asked one after another, and all records at the end."""
    async with opener_of() as open_store:
        store = await open_store()
        engine = authority(store)
        replies: list[object] = []
        for group in history:
            answers = await asyncio.gather(
                *(engine.execute(request) for request in group), return_exceptions=True
            )
            replies += [_told(answer) for answer in answers]
        return replies, await _snapshot(store)


def _told(answer: object) -> object:
    if isinstance(answer, PerdureError):
        return answer.code
    assert not isinstance(answer, BaseException), answer
    return answer


async def _snapshot(store: Store) -> dict[str, tuple[int, str, bytes]]:
    wanted = Range(HERE, "", "\U0010ffff", Note)
    view = await store.load(Reads(ranges=(wanted,)))
    return {
        key.sort: (stored.version.revision, stored.version.token, stored.body)
        for key, stored in view.stored.items()
        if stored is not None
    }


def test_histories_that_differ_are_told_apart() -> None:
    first = asyncio.run(_end(stores.memory, [[Add("a", 1)]]))
    second = asyncio.run(_end(stores.memory, [[Add("a", 2)]]))

    assert first != second
