"""A decision that lacks a part of a commit is made again on records of one moment, by itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

import pytest
from tests.support.half_shown import HalfShown

from perdure.authority.memory import MemoryStore
from perdure.authority.testing.records import HERE, NOTES, Add, Note, Write, note
from perdure.authority.testing.registry import authority
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Instant, Partition
from perdure.kernel.limits import LOAD_KEYS_MAX
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import Decision, Key, Reads, View
from perdure.kernel.view import Write as Written


@dataclass(frozen=True)
class Whole:
    """Tell what notes say that were written together, and copy the first if that is asked for."""

    names: tuple[str, ...]
    copy: str = ""
    ranged: bool = False
    once: ClassVar[bool] = False
    stream: Partition = HERE

    def reads(self) -> Reads:
        keys = (note(self.copy),) if self.copy else ()
        return Reads(keys=keys, ranges=(NOTES,) if self.ranged else ())

    def decide(self, view: View, now: Instant) -> Decision[list[str]]:
        if self.ranged:
            view.find(NOTES)
        texts = []
        for name in self.names:
            found = view.peek(note(name))
            if found is None:
                raise SeenInPart((note(name),), Corrupt(expected=f"note {name}", found="none"))
            texts.append(found.text)
        writes: tuple[Written, ...] = ()
        if self.copy:
            view.get(note(self.copy))
            writes = (type(found)(partition=HERE, name=self.copy, text=texts[0]),)
        return Decision(texts, writes)


@dataclass(frozen=True)
class Naming(Whole):
    """Tell what notes say, as long as others are what they are."""

    named: tuple[Key[Note], ...] = ()

    def reads(self) -> Reads:
        return Reads(keys=self.named)


async def filled(*names: str) -> HalfShown:
    store = HalfShown()
    await authority(store, "founder").execute(Write(tuple((name, name) for name in names)))
    return store


@pytest.mark.parametrize("ranged", [False, True])
async def test_what_hides_here_and_there_is_seen_all_of_one_moment(ranged):
    store = await filled("a", "b", "c")
    store.hide(note("a"), note("c"))

    told = await authority(store).execute(Whole(("a", "b", "c"), ranged=ranged))

    assert told == ["a", "b", "c"]


async def test_what_is_lost_is_told_after_one_look_more_and_at_once_by_a_store_that_shows_all():
    torn, whole = await filled("a", "b"), MemoryStore()
    await authority(whole, "founder").execute(Write((("a", "a"),)))
    torn.lose(note("b"))
    torn.hide(note("a"))

    for store, loads in ((torn, 4), (whole, 1)):
        before = store.loads
        with pytest.raises(Corrupt, match="note b"):
            await authority(store).execute(Whole(("b",) if store is whole else ("a", "b")))
        assert store.loads - before <= loads


async def test_what_is_lost_is_told_though_what_it_was_decided_on_took_two_loads():
    store = await filled("a", "b")
    store.lose(note("b"))
    store.hide(note("a"))

    with pytest.raises(Corrupt, match="note b"):
        await authority(store).execute(Whole(("a", "b"), ranged=True))


async def test_what_is_lost_is_told_also_by_who_names_as_much_as_a_snapshot_holds():
    store = await filled("a")
    store.lose(note("a"))
    store.instead[note("x")] = None
    named = tuple(note(f"{number}") for number in range(LOAD_KEYS_MAX))

    with pytest.raises(Corrupt, match="note a"):
        await authority(store).execute(Naming(("a",), named=named))


async def test_a_group_is_answered_whatever_one_of_it_does_not_see():
    store = await filled("a", "b")
    store.hide(note("b"))
    engine = authority(store)

    found = await asyncio.gather(
        *(engine.execute(each) for each in (Add(), Whole(("a", "b")), Add(), Whole(("x",)), Add())),
        return_exceptions=True,
    )

    assert found[:3] == [1, ["a", "b"], 2]
    assert isinstance(found[3], Corrupt)
    assert found[4] == 3


async def test_a_commit_that_was_decided_on_such_a_look_is_conditioned_as_any_other():
    store = await filled("a", "b")
    store.hide(note("b"))

    told = await authority(store).execute(Whole(("b",), copy="a"))
    again = await authority(store, "other").execute(Whole(("a",)))

    assert (told, again) == (["b"], ["b"])
