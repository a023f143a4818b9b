"""The engine on a store whose answers get lost, which is busy, or whose process dies."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from perdure.authority.memory import Crashed, Fault, FaultPlan, MemoryStore
from perdure.authority.testing.records import Add, AddOnce, Look, Tell, Write, counter, noise
from perdure.authority.testing.registry import authority
from perdure.kernel.commit import Commit
from perdure.kernel.errors import (
    Conflict,
    Contended,
    Corrupt,
    NewerSchema,
    NotPermitted,
    OutcomeUnknown,
    PerdureError,
    StoreRefused,
    StoreUnavailable,
)
from perdure.kernel.view import Reads, View

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


async def told(plan: FaultPlan) -> tuple[object, int]:
    """Tell one text under a plan, and return the answer and how often it was counted."""
    records = MemoryStore()
    try:
        answer: object = await authority(records.reopened(plan), "faulty").execute(Tell("id", "x"))
    except (Exception, Crashed) as error:  # noqa: BLE001
        answer = type(error)
    (count,) = await authority(records.reopened(), "after").execute(Look(("told",)))
    return answer, count


@pytest.mark.parametrize(
    ("commits", "answer", "count"),
    [
        ({}, 1, 1),
        ({1: Fault.LOST_BEFORE}, 1, 1),
        ({1: Fault.LOST_AFTER}, 1, 1),
        ({1: Fault.LOST_BEFORE, 2: Fault.LOST_AFTER}, 1, 1),
        ({1: Fault.LOST_AFTER, 2: Fault.LOST_BEFORE, 3: Fault.LOST_AFTER}, 1, 1),
        ({1: Fault.DUPLICATE}, 1, 1),
        ({1: Fault.CONFLICT}, 1, 1),
        ({1: Fault.LOST_AFTER, 2: Fault.CONFLICT}, 1, 1),
        ({1: Fault.LOST_BEFORE, 2: Fault.CONFLICT}, 1, 1),
        (dict.fromkeys(range(1, 5), Fault.LOST_AFTER), 1, 1),
        (dict.fromkeys(range(1, 5), Fault.LOST_BEFORE), 1, 1),
        ({1: Fault.THROTTLE}, StoreUnavailable, 0),
        ({1: Fault.LOST_AFTER, 2: Fault.THROTTLE}, 1, 1),
        ({1: Fault.LOST_BEFORE, 2: Fault.THROTTLE}, 1, 1),
        ({1: Fault.LOST_AFTER, **dict.fromkeys(range(2, 99), Fault.THROTTLE)}, OutcomeUnknown, 1),
        ({1: Fault.LOST_BEFORE, **dict.fromkeys(range(2, 99), Fault.THROTTLE)}, OutcomeUnknown, 0),
        (dict.fromkeys(range(1, 99), Fault.LOST_BEFORE), OutcomeUnknown, 0),
        (dict.fromkeys(range(1, 99), Fault.LOST_AFTER), 1, 1),
        (dict.fromkeys(range(1, 99), Fault.CONFLICT), Contended, 0),
        ({1: Fault.CRASH_BEFORE}, Crashed, 0),
        ({1: Fault.CRASH_AFTER}, Crashed, 1),
    ],
)
def test_a_keyed_request_is_done_at_most_once_whatever_goes_wrong(
    commits: dict[int, Fault], answer: object, count: int
) -> None:
    assert run(told(FaultPlan(commits))) == (answer, count)


@pytest.mark.parametrize(
    ("loads", "commits", "answer"),
    [
        ({1: Fault.THROTTLE}, {}, StoreUnavailable),
        ({1: Fault.LOST_BEFORE}, {}, StoreUnavailable),
        ({1: Fault.CRASH_BEFORE}, {}, Crashed),
        ({2: Fault.THROTTLE}, {1: Fault.CONFLICT}, StoreUnavailable),
        ({2: Fault.THROTTLE}, dict.fromkeys(range(1, 5), Fault.LOST_AFTER), OutcomeUnknown),
    ],
)
def test_a_load_without_an_answer_is_never_taken_for_a_failure(
    loads: dict[int, Fault], commits: dict[int, Fault], answer: object
) -> None:
    assert run(told(FaultPlan(commits, loads)))[0] == answer


def test_no_answer_of_a_group_is_released_before_its_commit() -> None:
    async def story() -> list[object]:
        engine = authority(MemoryStore(FaultPlan({1: Fault.THROTTLE})))
        return await asyncio.gather(
            engine.execute(Tell("id", "text")),
            engine.execute(Tell("id", "other text")),
            engine.execute(Tell("id", "text")),
            return_exceptions=True,
        )

    answers = run(story())

    # The refusal rests on a receipt that was never committed.
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3


def test_a_group_that_lost_a_race_is_decided_again_as_a_whole() -> None:
    async def story() -> tuple[list[object], int]:
        store = MemoryStore(FaultPlan({1: Fault.CONFLICT}))
        engine = authority(store)
        answers = await asyncio.gather(
            engine.execute(Tell("id", "text")),
            engine.execute(Tell("id", "other text")),
            engine.execute(Add()),
            return_exceptions=True,
        )
        return answers, store.commits

    (first, second, third), commits = run(story())

    assert (first, third, commits) == (1, 1, 2)
    assert isinstance(second, Conflict)


def test_everyone_in_a_group_learns_of_a_crash() -> None:
    async def story() -> list[object]:
        engine = authority(MemoryStore(FaultPlan({1: Fault.CRASH_AFTER})))
        return await asyncio.gather(
            *(engine.execute(Add()) for _ in range(3)), return_exceptions=True
        )

    assert [type(answer) for answer in run(story())] == [Crashed] * 3


def test_a_request_decided_once_is_not_decided_again_after_silence() -> None:
    async def story() -> int:
        store = MemoryStore(FaultPlan({1: Fault.LOST_AFTER}))
        engine = authority(store)
        await engine.execute(AddOnce())
        (count,) = await engine.execute(Look(("c",)))
        return count

    assert run(story()) == 1


@pytest.mark.parametrize("fault", [Fault.LOST_AFTER, Fault.LOST_BEFORE])
def test_a_request_decided_once_hears_of_lasting_silence(fault: Fault) -> None:
    async def story() -> int:
        records = MemoryStore()
        store = records.reopened(FaultPlan(dict.fromkeys(range(1, 99), fault)))
        with pytest.raises(OutcomeUnknown):
            await authority(store).execute(AddOnce())
        return store.commits

    # Sent again under its token, never decided again.
    assert run(story()) == 4


def test_an_error_of_the_store_reaches_only_those_it_concerns() -> None:
    class Forbidden(MemoryStore):
        async def commit(self, commit: Commit) -> None:
            if any(action.key == counter("c") for action in commit.actions):
                raise NotPermitted(expected="permission", found="none")
            await super().commit(commit)

    async def story() -> list[object]:
        engine = authority(Forbidden())
        return await asyncio.gather(
            engine.execute(Add()),
            engine.execute(Add()),
            engine.execute(AddOnce("other")),
            return_exceptions=True,
        )

    first, second, other = run(story())

    assert isinstance(first, NotPermitted)
    assert isinstance(second, NotPermitted)
    assert first is not second
    assert other == 1


def test_a_refused_load_reaches_only_those_it_concerns() -> None:
    class Forbidden(MemoryStore):
        async def load(self, reads: Reads) -> View:
            if counter("c") in reads.keys:
                raise StoreRefused(expected="permission", found="none")
            return await super().load(reads)

    async def story() -> list[object]:
        engine = authority(Forbidden())
        return await asyncio.gather(
            engine.execute(Add()), engine.execute(Tell("id", "x")), return_exceptions=True
        )

    refused, told_once = run(story())

    assert isinstance(refused, StoreRefused)
    assert told_once == 1


@pytest.mark.parametrize("kind", [StoreRefused, StoreUnavailable, Corrupt, NewerSchema])
@pytest.mark.parametrize("where", ["commit", "load"])
def test_after_a_lost_answer_nothing_that_the_store_says_means_that_nothing_happened(
    kind: type[PerdureError], where: str
) -> None:
    class Failing(MemoryStore):
        sent = 0

        async def commit(self, commit: Commit) -> None:
            self.sent += 1
            if self.sent > 1 and where == "commit":
                raise kind(expected="a store", found="none")
            await super().commit(commit)
            raise OutcomeUnknown(expected="an answer", found="none")

        async def load(self, reads: Reads) -> View:
            if self.sent and where == "load":
                raise kind(expected="a store", found="none")
            return await super().load(reads)

    with pytest.raises(OutcomeUnknown):
        run(authority(Failing()).execute(Tell("id", "x")))


def test_a_large_body_survives_lost_answers() -> None:
    async def story() -> list[object]:
        records = MemoryStore()
        plan = FaultPlan({1: Fault.LOST_AFTER, 2: Fault.LOST_BEFORE, 5: Fault.LOST_AFTER})
        await authority(records.reopened(plan)).execute(Write((("a", noise(500_000)),)))
        reader = authority(records.reopened(), "reader")
        return [await reader.execute(Write((("a", "short"),)))]

    assert run(story()) == [None]


def test_a_large_body_that_cannot_be_put_leaves_the_commit_undone() -> None:
    async def story() -> int:
        records = MemoryStore()
        plan = FaultPlan(dict.fromkeys(range(1, 99), Fault.LOST_BEFORE))
        engine = authority(records.reopened(plan))
        with pytest.raises(StoreUnavailable):
            await engine.execute(Tell("id", noise(100_000)))
        (count,) = await authority(records.reopened(), "after").execute(Look(("told",)))
        return count

    assert run(story()) == 0
