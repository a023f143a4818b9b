"""Guesses: a process that wrote last need not load, and a wrong guess is never answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.authority.engine import Authority
from perdure.authority.memory import MemoryStore
from perdure.authority.recent import COMMITS_UNTIL_TRUSTED, RECORDS_MAX, STREAMS_MAX, Recent
from perdure.authority.testing import CountingStore
from perdure.authority.testing.records import (
    HERE,
    Add,
    AddOnce,
    Collect,
    Copy,
    Look,
    Move,
    Note,
    Tell,
    Write,
    counter,
    noise,
)
from perdure.authority.testing.registry import authority
from perdure.kernel.errors import NotFound, PerdureError
from perdure.kernel.ids import Instant, Partition, Token
from perdure.kernel.view import Decision, Reads, Request, Stored, Version, View

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


def test_the_process_that_wrote_last_need_not_load() -> None:
    async def story() -> tuple[list[int], int, int]:
        store = CountingStore(MemoryStore())
        engine = authority(store)
        replies = [await engine.execute(Add()) for _ in range(5)]
        return replies, store.loads, len(store.commits)

    assert asyncio.run(story()) == ([1, 2, 3, 4, 5], 1, 5)


def test_a_wrong_guess_costs_a_commit_and_changes_no_reply() -> None:
    async def story() -> tuple[list[int], int]:
        records = MemoryStore()
        store = CountingStore(records.reopened())
        mine, rival = authority(store, "mine"), authority(records.reopened(), "rival")
        replies = [await mine.execute(Add())]
        for _ in range(3):
            replies.append(await rival.execute(Add(by=10)))
            replies.append(await mine.execute(Add()))
        return replies, len(store.commits)

    # One commit of four is lost: after it the rival's silence is waited for.
    assert asyncio.run(story()) == ([1, 11, 12, 22, 23, 33, 34], 5)


def test_guessing_starts_again_when_the_rival_is_quiet() -> None:
    async def story() -> list[int]:
        records = MemoryStore()
        store = CountingStore(records.reopened())
        mine, rival = authority(store, "mine"), authority(records.reopened(), "rival")
        await mine.execute(Add())
        await rival.execute(Add())
        loads = []
        for _ in range(COMMITS_UNTIL_TRUSTED + 2):
            before = store.loads
            await mine.execute(Add())
            loads.append(store.loads - before)
        return loads

    assert asyncio.run(story()) == [1] * COMMITS_UNTIL_TRUSTED + [0, 0]


def test_a_refusal_is_never_answered_from_a_guess() -> None:
    async def story() -> tuple[int, ...]:
        records = MemoryStore()
        mine, rival = authority(records.reopened(), "mine"), authority(records.reopened(), "rival")
        await mine.execute(Add("a", 5))
        await mine.execute(Move("a", "b", 5))
        await rival.execute(Add("a", 5))
        await mine.execute(Move("a", "b", 5))
        with pytest.raises(NotFound):
            await mine.execute(Move("a", "b", 1))
        return await rival.execute(Look(("a", "b")))

    assert asyncio.run(story()) == (0, 10)


def test_a_reply_without_writes_is_never_answered_from_a_guess() -> None:
    async def story() -> list[int]:
        records = MemoryStore()
        mine, rival = authority(records.reopened(), "mine"), authority(records.reopened(), "rival")
        first = await mine.execute(Tell("a", "text"))
        await rival.execute(Tell("b", "text"))
        return [first, await mine.execute(Tell("b", "text")), await mine.execute(Tell("c", "x"))]

    assert asyncio.run(story()) == [1, 2, 3]


def test_a_request_decided_once_is_not_overtaken_by_an_old_commit() -> None:
    async def story() -> int:
        records = MemoryStore()
        mine, rival = authority(records.reopened(), "mine"), authority(records.reopened(), "rival")
        await mine.execute(AddOnce())
        await rival.execute(Add(by=10))
        return await mine.execute(AddOnce())

    assert asyncio.run(story()) == 12


@dataclass(frozen=True, slots=True)
class Fill:
    """Write as many notes as a counter says."""

    once: ClassVar[bool] = False

    stream: Partition = HERE

    def reads(self) -> Reads:
        return Reads(keys=(counter("c"),))

    def decide(self, view: View, now: Instant) -> Decision[int]:
        found = view.get(counter("c"))
        assert found is not None
        names = (f"{found.count}-{number}" for number in range(found.count))
        return Decision(
            found.count, tuple(Note(partition=HERE, name=name, text="") for name in names)
        )


def test_an_error_is_never_answered_from_a_guess() -> None:
    async def story() -> list[int]:
        records = MemoryStore()
        mine, rival = authority(records.reopened(), "mine"), authority(records.reopened(), "rival")
        await mine.execute(Add(by=2))
        first = await mine.execute(Fill())
        await mine.execute(Add(by=200))
        await rival.execute(Add(by=-199))
        return [first, await mine.execute(Fill())]

    assert asyncio.run(story()) == [2, 3]


def test_what_is_kept_is_bounded() -> None:
    async def story() -> Authority:
        engine = authority(MemoryStore())
        for number in range(STREAMS_MAX + 10):
            await engine.execute(Add(stream=Partition(f"s/{number}")))
        await engine.execute(Write((("large", noise(5_000)),)))
        for number in range(3):
            names = tuple((f"{number}-{each}", "x") for each in range(RECORDS_MAX))
            await engine.execute(Write(names))
        return engine

    engine = asyncio.run(story())

    assert len(engine._recent._streams) == STREAMS_MAX
    assert len(engine._recent.of(HERE)._records) == RECORDS_MAX


@settings(deadline=None, max_examples=60, derandomize=True)
@given(HISTORIES)
def test_guesses_change_no_reply_whoever_wrote_last(history: list[list[Request[object]]]) -> None:
    guessing = asyncio.run(_told(history, processes=2))
    loading = asyncio.run(_told(history, processes=None))

    assert guessing == loading


async def _told(history: Sequence[Sequence[Request[object]]], processes: int | None) -> list[str]:
    """Return the replies when processes take turns, or when each is new and knows nothing."""
    records = MemoryStore()
    kept = [authority(records.reopened(), f"{number}") for number in range(processes or 0)]
    replies = []
    for turn, group in enumerate(history):
        engine = kept[turn % len(kept)] if kept else authority(records.reopened(), f"{turn}")
        answers = await asyncio.gather(
            *(engine.execute(request) for request in group), return_exceptions=True
        )
        for answer in answers:
            assert isinstance(answer, PerdureError) or not isinstance(answer, BaseException)
            replies.append(answer.code if isinstance(answer, PerdureError) else repr(answer))
    return replies


def test_what_is_written_over_again_outlives_what_was_written_once() -> None:
    async def story() -> int:
        store = CountingStore(MemoryStore())
        engine = authority(store)
        await engine.execute(Write((("kept", "x"),)))
        await engine.execute(Write((("kept", "y"),)))
        for number in range(3 * RECORDS_MAX):
            await engine.execute(Write(((f"once {number}", "x"),)))
        before = store.loads
        await engine.execute(Write((("kept", "z"),)))
        return store.loads - before

    assert asyncio.run(story()) == 0


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.booleans()), min_size=1, max_size=12),
    st.integers(1, 12),
)
def test_what_is_dropped_is_what_sorting_all_of_it_would_drop(
    kept: list[tuple[int, bool]], count: int
) -> None:
    recent, written = Recent(), {}
    for number, (revision, is_written) in enumerate(kept):
        record = Note(partition=HERE, name=f"{number}", text="")
        stored = Stored(Version(revision, Token("t")), record.body())
        recent._records[record.key] = (stored, record)
        if is_written:
            written[record.key] = record
    wanted = sorted(
        recent._records,
        key=lambda key: (key in written, recent._records[key][0].version.revision > 1),
    )

    assert recent._least_likely(count, written) == wanted[:count]
