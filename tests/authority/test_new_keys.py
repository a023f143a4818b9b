"""New keys: taken for absent without a look, and never answered for before a commit proves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from perdure.authority.group import Overtaken
from perdure.authority.memory import Fault, FaultPlan, MemoryStore
from perdure.authority.testing import CountingStore
from perdure.authority.testing.records import (
    HERE,
    Add,
    Counter,
    Look,
    Move,
    Note,
    Tell,
    counter,
    version,
)
from perdure.authority.testing.registry import authority
from perdure.kernel import limits
from perdure.kernel.commit import Check, Commit, Put, derived
from perdure.kernel.errors import Conflict, OutcomeUnknown
from perdure.kernel.ids import Instant, Partition, Token
from perdure.kernel.view import ABSENT, Decision, Reads, Stored, View

KNOWN = Counter(partition=HERE, name="c", count=1)


@pytest.mark.parametrize(
    ("asked", "condition"),
    [
        (lambda view: view.get(KNOWN.key), Check(KNOWN.key, version("t1"))),
        (lambda view: view.peek(KNOWN.key), Check(KNOWN.key, version("t1"))),
        (lambda view: view.name((KNOWN.key,)), Check(KNOWN.key, version("t1"))),
        (lambda view: view.require(peeks=(KNOWN.key,)), Check(KNOWN.key, version("t1"))),
        (lambda view: view.get(counter("new")), Check(counter("new"), None)),
        (lambda view: view.peek(counter("new")), Check(counter("new"), None)),
    ],
)
def test_a_guess_that_is_used_conditions_the_commit_however_it_was_asked_for(
    asked: Callable[[View], object], condition: Check
) -> None:
    view = _guessing()
    other = Note(partition=HERE, name="n", text="")

    asked(view)
    view.absorb({other.key: other})

    assert view.is_guess
    assert derived(view, Token("t2")).actions[1:] == (condition,)


def test_a_guess_that_is_not_used_conditions_nothing_and_is_not_written_over() -> None:
    view = _guessing()

    view.absorb({KNOWN.key: KNOWN})

    assert not view.is_guess
    assert derived(view, Token("t2")).actions == (Put(KNOWN.key, None, KNOWN.body()),)


def test_what_was_loaded_or_written_goes_before_a_guess() -> None:
    view = _guessing()
    loaded = replace(KNOWN, count=2)
    made = Counter(partition=HERE, name="new", count=3)

    view.merge(View({loaded.key: Stored(version("t2", 2), loaded.body())}))
    view.absorb({made.key: made})

    assert (view.get(loaded.key), view.get(made.key)) == (loaded, made)
    assert not view.is_guess


def _guessing() -> View:
    known = (Stored(version("t1"), KNOWN.body()), KNOWN)
    return View({}, guesses={KNOWN.key: known, counter("new"): ABSENT})


def test_a_new_key_costs_no_load_once_the_stream_is_known() -> None:
    async def story() -> tuple[list[int], int, int]:
        store = CountingStore(MemoryStore())
        engine = authority(store)
        replies = [await engine.execute(Tell(f"{number}", "text")) for number in range(5)]
        return replies, store.loads, len(store.commits)

    assert asyncio.run(story()) == ([1, 2, 3, 4, 5], 1, 5)


def test_a_record_that_a_decision_comes_across_need_not_be_loaded_either() -> None:
    async def story() -> int:
        store = CountingStore(MemoryStore())
        engine = authority(store)
        await engine.execute(Add("a", 10))
        await engine.execute(Move("a", "b", 1))
        before = store.loads
        await engine.execute(Move("a", "b", 1))
        return store.loads - before

    assert asyncio.run(story()) == 0


def test_a_key_wrongly_taken_for_absent_is_answered_as_known_and_raises_no_doubts() -> None:
    async def story() -> tuple[list[int], int, int]:
        store = CountingStore(MemoryStore())
        engine = authority(store)
        replies = [await engine.execute(Tell(f"{number}", "text")) for number in range(3)]
        replies.append(await engine.execute(Tell("1", "text")))
        before = store.loads
        replies.append(await engine.execute(Tell("3", "text")))
        return replies, store.loads - before, len(store.commits)

    # The repetition costs one commit that is refused; what is known of the counter stays.
    assert asyncio.run(story()) == ([1, 2, 3, 2, 4], 0, 5)


def test_only_what_is_declared_new_is_taken_for_absent() -> None:
    async def story() -> tuple[int, int, int]:
        records = MemoryStore()
        await authority(records.reopened(), "rival").execute(Add("a", 5))
        store = CountingStore(records.reopened())
        mine = authority(store, "mine")
        await mine.execute(Add("b"))
        return await mine.execute(Add("a")), store.loads, len(store.commits)

    assert asyncio.run(story()) == (6, 2, 2)


@dataclass(frozen=True, slots=True)
class TellPeeking(Tell):
    """Tell, with a look at something that must be loaded."""

    def reads(self) -> Reads:
        return Reads.union(Tell.reads(self), Reads(peeks=(counter("elsewhere"),)))


def test_a_request_that_must_load_anyway_guesses_no_key() -> None:
    async def story() -> tuple[list[int], int]:
        store = CountingStore(MemoryStore())
        engine = authority(store)
        replies = [await engine.execute(TellPeeking(id, "text")) for id in ("1", "2", "1")]
        return replies, len(store.commits)

    assert asyncio.run(story()) == ([1, 2, 1], 2)


@dataclass(frozen=True, slots=True)
class FoundOnce:
    """Begin a counter that is new; the caller decides again after a lost race."""

    once: ClassVar[bool] = True

    stream: Partition = HERE

    def reads(self) -> Reads:
        new = counter("new")
        return Reads(keys=(new, counter("c")), absent=frozenset({new}))

    def decide(self, view: View, now: Instant) -> Decision[int]:
        assert view.get(counter("c")) is not None
        found = view.get(counter("new")) or Counter(partition=HERE, name="new")
        return Decision(found.count + 1, (replace(found, count=found.count + 1),))


def test_a_request_decided_once_is_not_repeated_when_its_lost_commit_was_written_over() -> None:
    async def story() -> tuple[int, ...]:
        records = MemoryStore()
        rival = authority(records.reopened(), "rival")

        class Losing(CountingStore):
            async def commit(self, commit: Commit) -> None:
                await super().commit(commit)
                if len(self.commits) == 3:
                    await rival.execute(Add("new", 10))
                    raise OutcomeUnknown(expected="an answer", found="none")

        mine = authority(Losing(records.reopened()), "mine")
        await mine.execute(Add())
        mine._writers.add(FoundOnce)
        await mine.execute(Add())
        with pytest.raises(Overtaken):
            await mine.execute(FoundOnce())
        return await rival.execute(Look(("new",)))

    assert asyncio.run(story()) == (11,)


def test_one_known_key_in_a_group_changes_no_reply_of_its_neighbours() -> None:
    async def story() -> list[object]:
        engine = authority(MemoryStore())
        await engine.execute(Tell("known", "text"))
        return await asyncio.gather(
            *(engine.execute(Tell(f"{number}", "text")) for number in range(3)),
            engine.execute(Tell("known", "text")),
            engine.execute(Tell("2", "text")),
            engine.execute(Tell("known", "other text")),
            return_exceptions=True,
        )

    *replies, refused = asyncio.run(story())

    assert replies == [2, 3, 4, 1, 4]
    assert isinstance(refused, Conflict)


def test_a_group_of_new_keys_is_cut_only_where_the_commit_is_full() -> None:
    async def story() -> tuple[int, list[int]]:
        store = CountingStore(MemoryStore())
        engine = authority(store)
        await engine.execute(Tell("first", "text"))
        await asyncio.gather(*(engine.execute(Tell(f"{n}", "text")) for n in range(150)))
        return store.loads, [len(commit.actions) for commit in store.commits]

    assert asyncio.run(story()) == (1, [2, limits.COMMIT_ACTIONS_MAX, 52])


def test_a_lost_answer_to_a_commit_of_guesses_is_found_again() -> None:
    async def story() -> tuple[int, tuple[int, ...]]:
        lost = dict.fromkeys(range(2, 6), Fault.LOST_AFTER)
        engine = authority(MemoryStore(FaultPlan(commits=lost)))
        await engine.execute(Tell("1", "text"))
        told = await engine.execute(Tell("2", "text"))
        return told, await engine.execute(Look(("told",)))

    assert asyncio.run(story()) == (2, (2,))


def test_a_rival_that_used_the_key_first_is_not_written_over() -> None:
    async def story() -> list[int]:
        records = MemoryStore()
        mine, rival = authority(records.reopened(), "mine"), authority(records.reopened(), "rival")
        replies = [await mine.execute(Tell("1", "text"))]
        replies.append(await rival.execute(Tell("2", "text")))
        replies.append(await mine.execute(Tell("2", "text")))
        with pytest.raises(Conflict):
            await mine.execute(Tell("2", "other"))
        return replies

    assert asyncio.run(story()) == [1, 2, 2]
