"""A session whose creation shows in part is there, for whoever looks and for whoever writes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from tests.support.half_shown import HalfShown

from perdure.authority.engine import Authority
from perdure.kernel.errors import NotFound
from perdure.kernel.ids import Holder, Instant, Lineage, Seq, SessionId, StorageId, Token
from perdure.kernel.session.create import CreateSession, DescribeSession
from perdure.kernel.session.owner import TakeSession
from perdure.kernel.session.read import ReadJournal
from perdure.kernel.session.records import SessionRef, session_head_key, session_key
from perdure.kernel.session.transcript import ReadEntries

pytestmark = pytest.mark.sessions

REF = SessionRef(StorageId("storage"), SessionId("s"))
LINEAGE = Lineage("0123456789abcdefghijkl")

LOOKS = [
    DescribeSession(REF),
    ReadJournal(REF, Seq(0)),
    ReadEntries(REF, Seq(0)),
    TakeSession(REF, Holder("ann"), 60_000),
]


async def made(store: HalfShown) -> Any:
    """Make a session, and return an authority that knows nothing of it."""
    authorities = []
    for prefix in "ab":
        numbers = itertools.count(1)
        drawn = lambda prefix=prefix, numbers=numbers: Token(f"{prefix}-{next(numbers)}")  # noqa: E731
        authorities.append(Authority(store, lambda: Instant(1), drawn))
    maker, other = authorities
    await maker.execute(CreateSession(REF, "talker", LINEAGE, Token("append")).checked())
    return other


@pytest.mark.parametrize("hidden", ["catalog", "head"])
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: type(look).__name__)
async def test_a_session_of_which_one_record_shows_is_found(look, hidden):
    store = HalfShown()
    authority = await made(store)
    store.hide(session_key(REF) if hidden == "catalog" else session_head_key(REF.partition))

    await authority.execute(look)

    assert store.looks


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: type(look).__name__)
async def test_a_session_that_has_lost_its_head_is_not_found(look):
    store = HalfShown()
    authority = await made(store)
    store.lose(session_head_key(REF.partition))

    with pytest.raises(NotFound):
        await authority.execute(look)
