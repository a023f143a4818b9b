"""What is decided and committed in the very call answers, and leaves, what any other way does."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from tests.authority.test_at_once import fast
from tests.authority.test_recent import HISTORIES

from perdure.authority.engine import Authority
from perdure.authority.memory import NO_FAULTS, Fault, FaultPlan, MemoryStore
from perdure.authority.sqlite import SqliteStore
from perdure.authority.store import RevisionConflict
from perdure.authority.testing.records import Add, AddOnce, Look, Tell, Write, counter, noise, put
from perdure.authority.testing.registry import authority
from perdure.kernel.commit import Commit
from perdure.kernel.errors import Conflict, OutcomeUnknown, PerdureError
from perdure.kernel.ids import Instant, Partition
from perdure.kernel.view import Decision, Reads, Removed, Request, View

pytestmark = pytest.mark.stores


@dataclass(frozen=True, slots=True)
class InPlace:
    """A request of somebody who is alone."""

    request: Request[Any]

    once: ClassVar[bool] = False
    in_place: ClassVar[bool] = True

    @property
    def stream(self) -> Partition:
        return self.request.stream

    def reads(self) -> Reads:
        return self.request.reads()

    def decide(self, view: View, now: Instant) -> Decision[Any]:
        return self.request.decide(view, now)


class Here(MemoryStore):
    """A memory that commits in the very call, as SQLite does on a fast disk."""

    made = 0

    def reopened(self, plan: FaultPlan = NO_FAULTS) -> Here:
        other = Here(plan)
        other._records, other._sorts = self._records, self._sorts
        return other

    def commit_in_place(self, commit: Commit) -> bool:
        going = self.commit(commit)
        try:
            going.send(None)
        except StopIteration:
            self.made += 1
            return True
        except OutcomeUnknown:
            raise
        except (RevisionConflict, PerdureError):
            return False
        raise AssertionError("a memory waits for nothing")


async def told(history: Sequence[Sequence[Request[Any]]], *, in_place: bool) -> tuple[Any, ...]:
    """Return the replies when two processes take turns, and what is there afterwards."""
    records = Here()
    engines = [authority(records.reopened(), f"{number}") for number in range(2)]
    replies = []
    for turn, group in enumerate(history):
        for request in group:
            asked = InPlace(request) if in_place else request
            try:
                replies.append(repr(await engines[turn % 2].execute(asked)))
            except PerdureError as error:
                replies.append(f"{error.code}: {error}")
    left = {key: (each.version.revision, each.body) for key, each in records._records.items()}
    return replies, left


@settings(deadline=None, max_examples=60, derandomize=True)
@given(HISTORIES)
def test_it_changes_no_reply_and_no_record_whoever_wrote_last(
    history: list[list[Request[Any]]],
) -> None:
    assert asyncio.run(told(history, in_place=True)) == asyncio.run(told(history, in_place=False))


async def test_what_this_process_wrote_last_is_decided_and_committed_without_a_wait() -> None:
    store = Here()
    engine = authority(store)
    await engine.execute(InPlace(Add()))
    before = store.made

    going = engine.execute(InPlace(Add()))

    with pytest.raises(StopIteration) as done:
        going.send(None)
    assert done.value.value == 2
    assert store.made == before + 1
    assert store.loads == 1


async def test_who_is_not_alone_waits_in_line() -> None:
    store = Here()
    engine = authority(store)
    await engine.execute(InPlace(Add()))
    first = asyncio.create_task(engine.execute(Add()))
    await asyncio.sleep(0)

    second = await engine.execute(InPlace(Add()))

    assert (await first, second) == (2, 3)


@dataclass(frozen=True, slots=True)
class AddBeside(Add):
    """Add while another counter is what it is, without a look at that."""

    def reads(self) -> Reads:
        return Reads(keys=(counter(self.name), counter("other")))


async def test_a_commit_is_held_to_what_is_named_though_nobody_looked_at_it() -> None:
    records = Here()
    mine, rival = authority(records.reopened(), "mine"), authority(records.reopened(), "rival")
    sent: list[Commit] = []
    make = mine._commit_in_place
    mine._commit_in_place = lambda commit: sent.append(commit) or make(commit)  # type: ignore[func-returns-value]
    for request in (Add("other"), Add()):
        await mine.execute(InPlace(request))
    await rival.execute(Add("other"))

    assert await mine.execute(InPlace(AddBeside())) == 2

    (tried, made) = sent[-2:]
    assert {each.key for each in tried.actions} == {counter("c"), counter("other")}
    assert made.token != tried.token


async def test_a_refusal_is_of_what_is_there_and_not_of_a_guess() -> None:
    records = Here()
    mine, rival = authority(records.reopened(), "mine"), authority(records.reopened(), "rival")
    await mine.execute(InPlace(Tell("a", "text")))
    await rival.execute(Tell("b", "text"))

    with pytest.raises(Conflict):
        await mine.execute(InPlace(Tell("b", "another")))
    assert await mine.execute(InPlace(Tell("b", "text"))) == 2
    assert await mine.execute(InPlace(Look(("told",)))) == await rival.execute(Look(("told",)))


async def test_a_body_that_lies_in_chunks_is_put_before_it_is_pointed_at() -> None:
    store = Here()
    engine = authority(store)
    await engine.execute(InPlace(Write((("a", "x"),))))

    await engine.execute(InPlace(Write((("a", noise(400_000)),))))

    assert any(key.partition.startswith("body/") for key in store._records)


@pytest.mark.parametrize(
    ("faults", "count"),
    [
        ({2: Fault.LOST_AFTER}, 2),
        ({2: Fault.LOST_BEFORE}, 2),
        ({2: Fault.LOST_AFTER, 3: Fault.LOST_BEFORE}, 2),
        ({2: Fault.LOST_BEFORE, 3: Fault.LOST_AFTER}, 2),
        ({2: Fault.CONFLICT}, 2),
        ({2: Fault.THROTTLE}, 2),
        ({2: Fault.LOST_AFTER, 3: Fault.THROTTLE, 4: Fault.THROTTLE}, 2),
    ],
)
async def test_a_commit_without_an_answer_is_sent_again_and_happens_once(
    faults: dict[int, Fault], count: int
) -> None:
    records = Here()
    engine = authority(records.reopened(FaultPlan(faults)))
    await engine.execute(InPlace(Tell("a", "text")))

    answer = await engine.execute(InPlace(Tell("b", "text")))

    assert answer == count
    view = await engine.view(Reads(peeks=(counter("told"),)))
    assert view.get(counter("told")).count == count  # type: ignore[union-attr]
    assert not engine._lines


async def test_an_answer_that_never_comes_is_unknown_and_whoever_waits_behind_it_is_served() -> (
    None
):
    records = Here()
    store = records.reopened(FaultPlan(dict.fromkeys(range(2, 18), Fault.LOST_BEFORE)))
    engine = authority(store)
    await engine.execute(InPlace(Tell("a", "text")))

    lost = asyncio.create_task(engine.execute(InPlace(Tell("b", "text"))))
    await asyncio.sleep(0)

    assert await engine.execute(InPlace(Add())) == 1
    with pytest.raises(OutcomeUnknown):
        await lost


@dataclass(frozen=True, slots=True)
class TakeLast(Add):
    """Add, but write nothing that a store takes of a counter that is at one."""

    def decide(self, view: View, now: Instant) -> Decision[int]:
        decision = Add.decide(self, view, now)
        if decision.reply == 2:
            return Decision(0, (Removed(counter(self.name)),))
        return decision


async def test_what_no_commit_can_be_made_of_is_decided_again_on_what_is_there() -> None:
    records = Here()
    mine, rival = authority(records.reopened(), "mine"), authority(records.reopened(), "rival")
    await mine.execute(InPlace(Add()))
    await rival.execute(Add())

    assert await mine.execute(InPlace(TakeLast())) == 3


async def test_the_loop_has_its_turn_between_commits_of_many_who_wait() -> None:
    engine = authority(Here())
    await engine.execute(AddOnce())
    asked = [asyncio.create_task(engine.execute(AddOnce())) for _ in range(20)]
    seen = []

    while not all(each.done() for each in asked):
        await asyncio.sleep(0)
        seen.append(sum(each.done() for each in asked))

    assert max(after - before for before, after in zip([0, *seen], seen, strict=False)) == 1


class LosesTheLast:
    """A database that commits and then, once, says that it failed."""

    def __init__(self, database: sqlite3.Connection, left: list[str]) -> None:
        self.database = database
        self.left = left

    @property
    def in_transaction(self) -> bool:
        return self.database.in_transaction

    def execute(self, statement: str, *parameters: Any) -> Any:
        if statement == "COMMIT" and self.left == ["not done"]:
            raise sqlite3.OperationalError(self.left.pop())
        done = self.database.execute(statement, *parameters)
        if statement == "COMMIT" and self.left:
            raise sqlite3.OperationalError(self.left.pop())
        return done

    def executemany(self, statement: str, rows: Any) -> Any:
        return self.database.executemany(statement, rows)


async def opened(path: Path) -> tuple[SqliteStore, Authority]:
    store = await SqliteStore.open(path / "store.db", seconds=fast)
    engine = authority(store)
    await engine.execute(InPlace(Add()))
    return store, engine


@pytest.mark.parametrize("error", ["disk I/O error", "not done"])
async def test_on_sqlite_a_commit_that_fails_at_its_end_happens_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    store, engine = await opened(tmp_path)
    run_here, left = store._writer.run_here, [error]
    monkeypatch.setattr(
        store._writer, "run_here", lambda work: run_here(lambda it: work(LosesTheLast(it, left)))
    )

    answers = [await engine.execute(InPlace(Add())) for _ in range(3)]

    assert (answers, left) == ([2, 3, 4], [])
    await engine.close()


async def test_on_sqlite_another_process_that_writes_is_waited_for(tmp_path: Path) -> None:
    _, engine = await opened(tmp_path)
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(engine.execute(InPlace(Add())))
        await asyncio.sleep(0.02)
        was_waiting = not waiting.done()
        other.execute("ROLLBACK")

        assert (was_waiting, await waiting) == (True, 2)
    await engine.close()


async def test_on_sqlite_what_waits_for_its_transaction_is_not_overtaken(tmp_path: Path) -> None:
    store, engine = await opened(tmp_path)
    waiting = asyncio.create_task(store.commit(put("first", b"x", by="t1")))
    await asyncio.sleep(0)

    assert not store.commit_in_place(put("second", b"x", by="t2"))

    await waiting
    assert store.commit_in_place(put("second", b"x", by="t2"))
    await engine.close()


async def test_on_sqlite_each_is_one_transaction_and_a_closed_store_makes_none(
    tmp_path: Path,
) -> None:
    store, engine = await opened(tmp_path)
    before = store.syncs
    for _ in range(3):
        await engine.execute(InPlace(Add()))
    assert store.syncs == before + 3

    await engine.close()

    with pytest.raises(PerdureError, match="a closed one"):
        await engine.execute(InPlace(Add()))
    assert store.syncs == before + 3
