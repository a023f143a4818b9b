"""One race for each kind of condition: a rival acts between the load and the commit.

Each is proved necessary by a store that forgets the kind (:data:`NEEDED`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perdure.authority.testing.records import (
    NOTES,
    Add,
    Collect,
    Copy,
    Tell,
    Write,
    note,
)
from perdure.authority.testing.registry import Opener, Run, authority, promise, raised
from perdure.authority.testing.wrappers import Condition, RivalStore
from perdure.kernel.errors import Conflict
from perdure.kernel.view import Reads, Request


@promise
async def a_named_record_must_be_unchanged(open_store: Opener) -> None:
    await authority(await open_store(), "before").execute(Add("source"))

    reply, store = await _raced(open_store, Copy("source"), rival=Add("source", 10))

    assert (reply, store.commits) == ("11", 2)
    assert await _text(open_store, "copy") == "11"


@promise
async def a_named_record_must_still_be_absent(open_store: Opener) -> None:
    reply, store = await _raced(open_store, Copy("source"), rival=Add("source", 10))

    assert (reply, store.commits) == ("10", 2)
    assert await _text(open_store, "copy") == "10"


@promise
async def a_written_record_must_be_unchanged(open_store: Opener) -> None:
    await authority(await open_store(), "before").execute(Add())

    reply, store = await _raced(open_store, Add(), rival=Add(by=10))

    assert (reply, store.commits) == (12, 2)


@promise
async def a_written_record_must_still_be_absent(open_store: Opener) -> None:
    rival = authority(await open_store(), "rival")
    store = RivalStore(await open_store(), lambda: rival.execute(Tell("id", "rival's")))

    await raised(Conflict, authority(store).execute(Tell("id", "mine")))

    assert await rival.execute(Tell("id", "rival's")) == 1


@promise
async def a_record_found_in_a_range_and_written_must_be_unchanged(open_store: Opener) -> None:
    await authority(await open_store(), "before").execute(Write((("a", "one"),)))

    reply, store = await _raced(
        open_store, Collect(removing=False), rival=Write((("a", "rival's"),))
    )

    assert (reply, store.commits) == ("rival's", 2)
    assert await _text(open_store, "a") == "rival's."


@promise
async def a_removed_record_must_be_unchanged(open_store: Opener) -> None:
    await authority(await open_store(), "before").execute(Write((("a", "one"),)))

    reply, store = await _raced(open_store, Collect(), rival=Write((("a", "rival's"),)))

    assert (reply, store.commits) == ("rival's", 2)
    assert await _text(open_store, "a") is None
    assert await _text(open_store, "all") == "rival's"


@promise
async def a_peek_conditions_nothing(open_store: Opener) -> None:
    await authority(await open_store(), "before").execute(Add("source"))

    reply, store = await _raced(open_store, Copy("source", peeking=True), rival=Add("source", 10))

    assert (reply, store.commits) == ("1", 1)


@promise
async def what_a_range_finds_conditions_nothing_unless_written(open_store: Opener) -> None:
    await authority(await open_store(), "before").execute(Write((("a", "one"),)))

    reply, store = await _raced(open_store, Collect(), rival=Write((("b", "late"),)))

    assert (reply, store.commits) == ("one", 1)
    assert await _text(open_store, "b") == "late"


NEEDED: Final[Mapping[Run, Condition]] = {
    a_named_record_must_be_unchanged: Condition.NAMED_UNCHANGED,
    a_named_record_must_still_be_absent: Condition.NAMED_ABSENT,
    a_written_record_must_be_unchanged: Condition.WRITTEN_UNCHANGED,
    a_written_record_must_still_be_absent: Condition.WRITTEN_ABSENT,
    a_record_found_in_a_range_and_written_must_be_unchanged: Condition.WRITTEN_UNCHANGED,
    a_removed_record_must_be_unchanged: Condition.REMOVED_UNCHANGED,
}
"""The condition without which a promise breaks."""


async def _raced(
    open_store: Opener, mine: Request[object], *, rival: Request[object]
) -> tuple[object, RivalStore]:
    other = authority(await open_store(), "rival")
    store = RivalStore(await open_store(), lambda: other.execute(rival))
    return await authority(store, "mine").execute(mine), store


async def _text(open_store: Opener, name: str) -> str | None:
    view = await authority(await open_store()).view(Reads(peeks=(note(name),), ranges=(NOTES,)))
    found = view.peek(note(name))
    return None if found is None else found.text
