"""Promises that lives of worlds rest on: moments, partitions, creations, tombstones, payments."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from perdure.authority.store import RevisionConflict
from perdure.authority.testing.records import (
    ELSEWHERE,
    HERE,
    NOTES,
    Add,
    Counter,
    Look,
    Receipt,
    Tell,
    Write,
    counter,
    note,
    put,
    receipt,
    version,
)
from perdure.authority.testing.registry import Opener, authority, promise, race, raised
from perdure.authority.testing.wrappers import (
    EchoingStore,
    RivalStore,
    ShelvingStore,
    WithholdingStore,
)
from perdure.kernel.caller import Allowance
from perdure.kernel.commit import Commit, Put
from perdure.kernel.create import CreateWorld, Describe, Discover
from perdure.kernel.errors import (
    Conflict,
    NameTaken,
    OutcomeUnknown,
    QuotaExceeded,
    WorldDestroyed,
)
from perdure.kernel.ids import Holder, Instant, Partition, RunId, Seq, StorageId, Token, WorldId
from perdure.kernel.log import log_key
from perdure.kernel.places import WorldRef
from perdure.kernel.private import Retire
from perdure.kernel.quota import Bill, Metered, quota_key
from perdure.kernel.records import head_key, name_key, world_key
from perdure.kernel.view import Decision, Key, Reads, Version, View

THIRD: Final = Partition("t/third")
MOMENT_KEYS: Final = 60
"""Records of a snapshot that is watched: as many as a fork's pages."""

RACERS: Final = 6


@race
async def a_snapshot_over_two_partitions_is_of_one_moment(open_store: Opener) -> None:
    writer, reader = await open_store(), await open_store()
    half = MOMENT_KEYS // 2
    keys = tuple(note(f"{n:03d}", where) for where in (HERE, ELSEWHERE) for n in range(half))
    seen: Version | None = None

    async def rewritten() -> None:
        nonlocal seen
        for number in range(1, 7):
            body = b"%d" % number
            commit = Commit(Token(f"t{number}"), tuple(Put(key, seen, body) for key in keys))
            await writer.commit(commit)
            seen = version(f"t{number}", number)

    async def watched() -> list[set[bytes]]:
        found = []
        for _ in range(8):
            view = await reader.load(Reads(peeks=keys, snapshot=True))
            found.append({b"" if each is None else each.body for each in view.stored.values()})
        return found

    moments, _ = await asyncio.gather(watched(), rewritten())

    assert [len(each) for each in moments] == [1] * 8


@promise
async def a_commit_across_partitions_happens_wholly_or_not_at_all(open_store: Opener) -> None:
    store, rival = await open_store(), await open_store()
    places = (HERE, ELSEWHERE, THIRD)

    for number, raced in enumerate(places):
        keys = [note(f"{number}", where) for where in places]
        await rival.commit(put(f"{number}", b"rival's", by=f"r{number}", partition=raced))
        commit = Commit(Token(f"t{number}"), tuple(Put(key, None, b"mine") for key in keys))

        await raised(RevisionConflict, store.commit(commit))

        view = await rival.load(Reads(keys=tuple(keys)))
        found = [stored and stored.body for stored in view.stored.values()]
        assert found == [b"rival's" if where == raced else None for where in places]

    keys = [note("free", where) for where in places]
    await store.commit(Commit(Token("free"), tuple(Put(key, None, b"mine") for key in keys)))
    view = await rival.load(Reads(keys=tuple(keys)))
    assert {stored and stored.version for stored in view.stored.values()} == {version("free")}


@promise
async def a_record_written_once_may_lie_apart_from_what_counts_it(open_store: Opener) -> None:
    rival = authority(await open_store(), "rival")
    store = RivalStore(await open_store(), lambda: rival.execute(_TellApart("id", "rival's")))

    await raised(Conflict, authority(store, "mine").execute(_TellApart("id", "mine")))

    assert store.commits == 1
    assert await rival.execute(Look(("told",))) == (1,)
    assert await authority(store, "other").execute(_TellApart("other", "mine")) == 2
    assert await rival.execute(_TellApart("id", "rival's")) == 1


@race
async def of_many_who_create_a_world_exactly_one_does(open_store: Opener) -> None:
    engines = [
        authority(await open_store(), f"engine-{number}", tries_max=200) for number in range(RACERS)
    ]
    refs = [_world(f"w{number}") for number in range(RACERS)]

    answers = await asyncio.gather(
        *(
            engine.execute(CreateWorld(ref, "harbour", RunId(ref.world)))
            for engine, ref in zip(engines, refs, strict=True)
        ),
        return_exceptions=True,
    )

    lost = [isinstance(answer, NameTaken) for answer in answers]
    assert lost.count(False) == 1, answers
    winner = refs[lost.index(False)]
    listed = await engines[0].execute(Discover(_STORAGE, None, RACERS))
    assert [info.world_id for info in listed] == [winner.world]
    for ref in refs:
        keys = _records_of(ref)
        view = await engines[0].view(Reads(peeks=keys))
        assert {view.peek(key) is None for key in keys} == {ref != winner}


@promise
async def what_arrives_after_a_tombstone_is_refused(open_store: Opener) -> None:
    store = await open_store()
    withheld = WithholdingStore(store)
    ref = _world("private")
    creation = CreateWorld(
        ref,
        "evidence",
        RunId("run"),
        writer_mode="cleanup_only",
        holder=Holder("h"),
        lease_ms=1_000,
    )
    await raised(OutcomeUnknown, authority(withheld, "lost", tries_max=2).execute(creation))

    there = authority(await open_store(), "there")
    retired = await there.execute(Retire(ref, "evidence", RunId("run")))
    assert withheld.commits
    for late in withheld.commits:
        await raised(RevisionConflict, store.commit(late))

    assert retired == "tombstone"
    assert (await there.execute(Describe(ref))).status == "destroyed"
    await raised(WorldDestroyed, there.execute(creation))
    view = await there.view(Reads(peeks=(name_key(ref.catalog, "evidence"),)))
    assert view.peek(name_key(ref.catalog, "evidence")) is None


@promise
async def what_arrives_before_a_tombstone_is_retired_by_it(open_store: Opener) -> None:
    store = await open_store()
    withheld = WithholdingStore(store)
    ref = _world("private")
    creation = CreateWorld(
        ref,
        "evidence",
        RunId("run"),
        writer_mode="cleanup_only",
        holder=Holder("h"),
        lease_ms=1_000,
    )
    await raised(OutcomeUnknown, authority(withheld, "lost", tries_max=2).execute(creation))
    await store.commit(withheld.commits[0])

    there = authority(await open_store(), "there")
    retired = await there.execute(Retire(ref, "evidence", RunId("run")))
    for late in withheld.commits:
        try:
            await store.commit(late)
        except RevisionConflict:
            continue

    assert retired == "destroyed"
    assert (await there.execute(Describe(ref))).status == "destroyed"


@promise
async def what_is_metered_is_paid_once_however_often_it_is_sent(open_store: Opener) -> None:
    bill = Bill(HERE, "ann", Allowance(units=5, window_ms=3_600_000, cost=2))
    lossy = EchoingStore(await open_store(), losses=2)
    mine = authority(lossy, "mine")
    other = authority(await open_store(), "other")

    first = await mine.execute(Metered(Tell("id", "text"), bill))
    again = [await each.execute(Metered(Tell("id", "text"), bill)) for each in (mine, other)]
    second = await other.execute(Metered(Tell("other", "text"), bill))
    await raised(QuotaExceeded, mine.execute(Metered(Tell("third", "text"), bill)))

    assert (first, again, second) == (1, [1, 1], 2)
    view = await other.view(Reads(peeks=(quota_key(HERE, "ann"), counter("told"))))
    paid, told = view.peek(quota_key(HERE, "ann")), view.peek(counter("told"))
    assert (paid and paid.spent, told and told.count) == (4, 2)


@promise
async def what_is_metered_in_two_streams_is_paid_from_one_purse(open_store: Opener) -> None:
    allowance = Allowance(units=3, window_ms=3_600_000, cost=2)
    bill = Bill(HERE, "ann", allowance)
    rival = authority(await open_store(), "rival")
    spends = Metered(Add("elsewhere"), bill)
    store = RivalStore(await open_store(), lambda: rival.execute(spends))

    await raised(QuotaExceeded, authority(store, "mine").execute(Metered(Add("here"), bill)))

    assert await rival.execute(Look(("here", "elsewhere"))) == (0, 1)


@promise
async def what_was_moved_elsewhere_is_read_through_and_conditions_nothing(
    open_store: Opener,
) -> None:
    store = ShelvingStore(await open_store())
    engine = authority(store, "mine")
    await engine.execute(Write(tuple((f"{n}", f"text {n}") for n in range(6))))
    reads = Reads(peeks=(note("1"), note("5"), note("9")), ranges=(NOTES,))
    before = await engine.view(reads)

    await store.shelve([note("0"), note("1"), note("2")])
    after = await engine.view(reads)

    left = (await store.inner.load(Reads(peeks=(note("1"), note("5"))))).stored
    assert [each is None for each in left.values()] == [True, False]
    assert after.find(NOTES) == before.find(NOTES)
    assert [after.peek(key) for key in reads.peeks] == [before.peek(key) for key in reads.peeks]
    assert not after.named
    assert await engine.execute(Add()) == 1


@dataclass(frozen=True, slots=True)
class _TellApart:
    """Count a text under an id that is kept in another partition than the count."""

    once: ClassVar[bool] = False

    id: str
    text: str
    stream: Partition = HERE

    def reads(self) -> Reads:
        new: Key[Receipt] = receipt(self.id, ELSEWHERE)
        return Reads(keys=(new, counter("told", HERE)), absent=frozenset({new}))

    def decide(self, view: View, now: Instant) -> Decision[int]:
        known = view.get(receipt(self.id, ELSEWHERE))
        if known is not None:
            if known.text != self.text:
                raise Conflict(expected=f"the text known as {self.id}", found="another")
            return Decision(known.count)
        told = view.get(counter("told", HERE))
        count = 1 if told is None else told.count + 1
        return Decision(
            count,
            (
                Counter(partition=HERE, name="told", count=count),
                Receipt(partition=ELSEWHERE, id=self.id, text=self.text, count=count),
            ),
        )


_STORAGE: Final = StorageId("storage")


def _world(world: str) -> WorldRef:
    return WorldRef(_STORAGE, WorldId(world))


def _records_of(ref: WorldRef) -> tuple[Key[Any], ...]:
    first = log_key(ref.partition, Seq(1))
    return (world_key(ref), head_key(ref.partition), first)
