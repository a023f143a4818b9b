"""Promises of the engine on a store: replies are durable, refusals leave nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from perdure.authority.group import Overtaken
from perdure.authority.store import Store
from perdure.authority.testing.records import (
    HERE,
    Add,
    AddOnce,
    Collect,
    Copy,
    Look,
    Move,
    Tell,
    Write,
    counter,
    note,
    receipt,
)
from perdure.authority.testing.registry import Opener, authority, promise, raised
from perdure.authority.testing.wrappers import CountingStore, RivalStore
from perdure.kernel.errors import Conflict, Contended, NotFound, TooLarge
from perdure.kernel.ids import Instant, Partition
from perdure.kernel.view import Decision, Missing, Reads, View


@promise
async def a_reply_is_durable(open_store: Opener) -> None:
    first = authority(await open_store(), "first")

    replies = [await first.execute(Add(by=number)) for number in (1, 2, 3)]

    second = authority(await open_store(), "second")
    assert replies == [1, 3, 6]
    assert await second.execute(Look(("c",))) == (6,)
    assert await second.execute(Add()) == 7
    assert await first.execute(Look(("c", "none"))) == (7, 0)


@promise
async def a_keyed_request_is_done_once_and_answered_for_ever(open_store: Opener) -> None:
    first = authority(await open_store(), "first")
    second = authority(await open_store(), "second")

    replies = [await each.execute(Tell("id", "text")) for each in (first, second, first)]
    await first.execute(Tell("other", "text"))

    assert replies == [1, 1, 1]
    assert await second.execute(Tell("id", "text")) == 1
    assert await second.execute(Look(("told",))) == (2,)


@promise
async def a_refusal_leaves_nothing(open_store: Opener) -> None:
    store = await open_store()
    engine = authority(store)
    await engine.execute(Tell("id", "text"))
    everything = Reads(peeks=(receipt("id"), *map(counter, ("told", "a", "b"))))
    before = await store.load(everything)

    await raised(Conflict, engine.execute(Tell("id", "other text")))
    await raised(NotFound, engine.execute(Move("a", "b", 5)))

    assert (await store.load(everything)).stored == before.stored
    assert await engine.execute(Look(("told", "a", "b"))) == (1, 0, 0)


@promise
async def what_a_decision_misses_is_loaded(open_store: Opener) -> None:
    engine = authority(await open_store())
    await engine.execute(Add("a", 10))
    await engine.execute(Add("b", 1))

    await engine.execute(Move("a", "b", 4))

    assert await engine.execute(Look(("a", "b"))) == (6, 5)


@promise
async def a_snapshot_that_misses_something_is_loaded_whole(open_store: Opener) -> None:
    rival = authority(await open_store(), "rival")
    await rival.execute(Add("a", 10))
    store = _Interrupted(await open_store(), lambda: rival.execute(Move("a", "b", 4)))

    assert await authority(store).execute(_Chain(("a", "b", "c"))) == (6, 4, 0)


@promise
async def a_decision_that_never_has_enough_is_refused(open_store: Opener) -> None:
    engine = authority(await open_store())

    await raised(TooLarge, engine.execute(_Endless()))

    assert await engine.execute(Add()) == 1


@promise
async def ranges_are_collected_and_removed(open_store: Opener) -> None:
    engine = authority(await open_store())
    await engine.execute(Write((("b", "two"), ("a", "one"))))

    assert await engine.execute(Collect()) == "one two"
    assert await engine.execute(Collect()) == ""


@promise
async def a_commit_beyond_a_limit_is_refused_before_the_store_sees_it(open_store: Opener) -> None:
    store = CountingStore(await open_store())
    engine = authority(store)
    many = Write(tuple((f"{number}", "x") for number in range(101)))
    long = Write((("n" * 1_020, "x"),))
    far = Add(stream=Partition("p" * 2_049))

    for request in (many, long, far):
        await raised(TooLarge, engine.execute(request))
    await raised(
        TooLarge, engine.execute(Look(tuple(f"{number}" for number in range(101)), snapshot=True))
    )

    assert not store.commits
    assert await engine.execute(Look(("0",))) == (0,)


@promise
async def a_hundred_records_are_not_too_many(open_store: Opener) -> None:
    engine = authority(await open_store())

    await engine.execute(Write(tuple((f"{number}", "x") for number in range(100))))

    assert await engine.execute(Copy("none")) == "none"


@promise
async def a_lost_race_is_run_again(open_store: Opener) -> None:
    rival = authority(await open_store(), "rival")
    store = RivalStore(await open_store(), lambda: rival.execute(Add(by=10)))

    assert await authority(store).execute(Add()) == 11


@promise
async def races_are_not_run_for_ever(open_store: Opener) -> None:
    rival = authority(await open_store(), "rival")
    store = RivalStore(await open_store(), lambda: rival.execute(Add()), times=99)

    await raised(Contended, authority(store, tries_max=3).execute(Add()))

    assert await rival.execute(Look(("c",))) == (3,)


@promise
async def a_request_decided_once_gets_the_conflict_and_the_view(open_store: Opener) -> None:
    rival = authority(await open_store(), "rival")
    store = RivalStore(await open_store(), lambda: rival.execute(Add(by=10)))
    engine = authority(store)

    overtaken = await raised(Overtaken, engine.execute(AddOnce()))

    seen = overtaken.view.get(counter("c"))
    assert seen is not None
    assert seen.count == 10
    assert await engine.execute(AddOnce()) == 11


@promise
async def only_what_was_looked_at_conditions_a_commit(open_store: Opener) -> None:
    rival = authority(await open_store(), "rival")
    store = RivalStore(await open_store(), lambda: rival.execute(Add("other")))

    await authority(store).execute(Add())

    assert store.commits == 1


@promise
async def an_authority_reads_without_deciding(open_store: Opener) -> None:
    engine = authority(await open_store())
    await engine.execute(Tell("id", "text" * 1_000))

    view = await engine.view(Reads(peeks=(receipt("id"), note("none"))))

    known = view.peek(receipt("id"))
    assert known is not None
    assert known.text == "text" * 1_000
    assert view.peek(note("none")) is None


class _Interrupted(CountingStore):
    """Lets a rival act between the first load and the second."""

    def __init__(self, store: Store, rival: Callable[[], Awaitable[object]]) -> None:
        super().__init__(store)
        self._rival = rival

    async def load(self, reads: Reads) -> View:
        if self.loads == 1:
            await self._rival()
        return await super().load(reads)


@dataclass(frozen=True, slots=True)
class _Chain:
    """Look at one counter after another, all as of one moment."""

    once: ClassVar[bool] = False

    names: tuple[str, ...]
    stream: Partition = HERE

    def reads(self) -> Reads:
        return Reads(keys=(counter(self.names[0]),), snapshot=True)

    def decide(self, view: View, now: Instant) -> Decision[tuple[int, ...]]:
        found = [view.get(counter(name)) for name in self.names]
        return Decision(tuple(0 if each is None else each.count for each in found))


@dataclass(frozen=True, slots=True)
class _Endless:
    once: ClassVar[bool] = False

    stream: Partition = HERE

    def reads(self) -> Reads:
        return Reads()

    def decide(self, view: View, now: Instant) -> Decision[None]:
        raise Missing(Reads(peeks=(note(f"{len(view.stored)}"),)))
