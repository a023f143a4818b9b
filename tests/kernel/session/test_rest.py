"""A hint that a session does not name leaves together with a write of its head, or not at all."""

from __future__ import annotations

import itertools

import pytest
from tests.support.half_shown import HalfShown

from perdure.authority import packing
from perdure.authority.engine import Authority
from perdure.kernel.commit import Commit, Put, Remove
from perdure.kernel.ids import Instant, Lineage, Partition, SessionId, StorageId, Token
from perdure.kernel.session.create import CreateSession
from perdure.kernel.session.owner import RestSession
from perdure.kernel.session.records import SessionRef, hint_of, session_head_key
from perdure.kernel.view import Reads

pytestmark = pytest.mark.sessions

REF = SessionRef(StorageId("storage"), SessionId("s"))
HEAD = session_head_key(REF.partition)
HINT = hint_of(REF, Instant(60_000))
REST = RestSession(REF, HINT.sort)


def authority_on(store: HalfShown) -> Authority:
    """Return an authority; while it waits for its next try, what is half shown shows whole."""
    numbers = itertools.count(1)

    async def pause(_: float) -> None:
        store.instead.clear()

    return Authority(store, lambda: Instant(1), lambda: Token(f"t-{next(numbers)}"), pause=pause)


async def hinted(store: HalfShown, *, session: bool = True) -> Authority:
    """Leave a hint of a session that names none, and return an authority."""
    authority = authority_on(store)
    if session:
        lineage = Lineage("0123456789abcdefghijkl")
        await authority.execute(CreateSession(REF, "talker", lineage, Token("append")).checked())
    await store.commit(Commit(Token("hint"), (Put(HINT.key, None, packing.RAW + HINT.body()),)))
    return authority


async def lies(authority: Authority) -> bool:
    return (await authority.view(Reads(peeks=(HINT.key,)))).peek(HINT.key) is not None


async def test_a_hint_that_no_head_names_is_taken_away() -> None:
    store = HalfShown()
    authority = await hinted(store)

    rest = await authority.execute(REST)

    assert rest == "rests"
    assert not await lies(authority)


async def test_a_hint_that_has_left_with_a_commit_that_shows_in_part_is_no_error() -> None:
    store = HalfShown()
    authority = await hinted(store)
    store.hold(HINT.key)
    version = (await store.load(Reads(peeks=(HINT.key,)))).version(HINT.key)
    assert version is not None
    kept = Put(session_head_key(Partition("s/other")), None, packing.RAW + b"{}")
    await store.commit(Commit(Token("left"), (Remove(HINT.key, version), kept)))

    rest = await authority.execute(REST)

    assert rest == "rests"
    assert store.looks


async def test_a_hint_whose_session_does_not_show_yet_is_decided_on_what_does() -> None:
    store = HalfShown()
    authority = await hinted(store)
    store.hide(HEAD)

    rest = await authority.execute(REST)

    assert rest == "rests"
    assert not await lies(authority)


async def test_a_hint_of_a_session_that_is_not_there_stays() -> None:
    store = HalfShown()
    authority = await hinted(store, session=False)

    rest = await authority.execute(REST)

    assert rest == "rests"
    assert await lies(authority)
