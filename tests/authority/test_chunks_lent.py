"""Chunks of a large body are lent to one commit, whoever else has asked for that very body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest

from perdure.authority.memory import MemoryStore
from perdure.authority.store import RevisionConflict
from perdure.authority.testing.records import HERE, Note, Write, noise, note
from perdure.authority.testing.registry import authority
from perdure.kernel.commit import Commit
from perdure.kernel.errors import OutcomeUnknown, TooLarge
from perdure.kernel.ids import Instant, Partition
from perdure.kernel.limits import SORT_BYTES_MAX
from perdure.kernel.view import Decision, Reads, View

pytestmark = pytest.mark.stores

TEXT = noise(100_000)


@dataclass(frozen=True)
class Oversized:
    """Write what no store takes, so that those who were decided with it are decided apart."""

    once: ClassVar[bool] = False
    stream: Partition = HERE

    def reads(self) -> Reads:
        return Reads()

    def decide(self, view: View, now: Instant) -> Decision[None]:
        return Decision(None, (Note(partition=HERE, name="x" * SORT_BYTES_MAX, text=""),))


class Story(MemoryStore):
    """Does something of its own in the place of a commit that counts, or behind it."""

    def __init__(self, *acts: Callable[[Commit], Awaitable[None]] | None) -> None:
        super().__init__()
        self.acts = list(acts)

    async def commit(self, commit: Commit) -> None:
        is_chunk = commit.actions[0].key.partition.startswith("body/")
        act = self.acts.pop(0) if self.acts and not is_chunk else None
        if act is None:
            await super().commit(commit)
        else:
            await act(commit)


async def told(store: Story) -> list[object]:
    """Ask twice for the very same, together; who comes later parts them."""
    engine = authority(store)
    later: list[asyncio.Task[None]] = []

    async def lose_a_race(commit: Commit) -> None:
        later.append(asyncio.create_task(engine.execute(Oversized())))
        await asyncio.sleep(0)
        raise RevisionConflict(*(each.key for each in commit.actions))

    store.acts.insert(0, lose_a_race)
    both = await asyncio.gather(
        *(engine.execute(Write((("large", TEXT),))) for _ in range(2)), return_exceptions=True
    )
    with pytest.raises(TooLarge):
        await later[0]
    return both


async def said(store: Story) -> str:
    found = (await authority(store, "reader").view(Reads(peeks=(note("large"),)))).peek(
        note("large")
    )
    assert found is not None
    return found.text


async def test_two_who_write_the_very_same_and_are_parted_share_no_chunks() -> None:
    store = Story()

    assert await told(store) == [None, None]

    assert await said(store) == TEXT


async def test_what_one_commit_was_lent_no_other_is_when_that_has_been_written_over() -> None:
    rival = Write((("large", "small"),))

    async def written_over(commit: Commit) -> None:
        await MemoryStore.commit(store, commit)
        await authority(store, "rival").execute(rival)
        raise OutcomeUnknown(expected="an answer to a commit", found="none")

    store = Story(written_over)

    assert await told(store) == [None, None]

    assert await said(store) == TEXT
