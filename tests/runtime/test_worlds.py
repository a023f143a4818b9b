"""Worlds over a real authority in memory: what callers are promised, faults and all."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.harbour import Text, played
from tests.support.worldly import Counter, Position, Tag, due

from perdure.authority.memory import Fault, FaultPlan, MemoryStore
from perdure.kernel.component import Registry
from perdure.kernel.errors import (
    Conflict,
    Contended,
    NameTaken,
    OutcomeUnknown,
    StoreUnavailable,
    TooLarge,
    Unavailable,
)
from perdure.kernel.ledger import Ledger
from perdure.kernel.operations import Spawn
from perdure.kernel.status import StatusOf


def test_a_command_goes_its_way():
    async def story(harbour):
        worlds = harbour.worlds
        submitted = await worlds.submit("w", [Spawn(Position(x=0, y=0)), due(3)], batch_id="b")
        before = await worlds.command("w", "b.0")
        await harbour.tick("w")
        after = await worlds.command("w", "b.0")
        info = await worlds.describe("w")
        return submitted, before.status, after, info

    submitted, before, after, info = played(story)

    assert [(each.command_id, each.sequence, each.entity_id) for each in submitted.receipts] == [
        ("b.0", 1, 1),
        ("b.1", 2, None),
    ]
    assert (before, after.status, after.applied_tick, after.token) == (
        "pending",
        "applied",
        0,
        "tick-0",
    )
    assert (info.published_tick, info.next_tick, info.pending_commands, info.entities) == (
        0,
        1,
        1,
        1,
    )


def test_the_id_of_a_world_is_its_run_if_nobody_chose():
    async def story(harbour):
        return await harbour.worlds.create("other")

    info = played(story)

    assert info.world_id == info.run_id


def test_creating_twice_is_creating_once():
    async def story(harbour):
        first = await harbour.worlds.describe("w")
        before = harbour.records
        again = await harbour.worlds.create("harbour", world_id="w")
        assert harbour.records == before
        with pytest.raises(NameTaken):
            await harbour.worlds.create("harbour")
        with pytest.raises(Conflict):
            await harbour.worlds.create("another", world_id="w")
        assert harbour.records == before
        return first, again

    first, again = played(story)

    assert first == again


def test_the_same_batch_again_is_a_replay():
    async def story(harbour):
        first = await harbour.worlds.submit("w", [due(), due()], batch_id="b")
        before = harbour.records
        again = await harbour.worlds.submit("w", [due(), due()], batch_id="b")
        with pytest.raises(Conflict):
            await harbour.worlds.submit("w", [due()], batch_id="b")
        assert harbour.records == before
        return first, again

    first, again = played(story)

    assert (first.replayed, again.replayed) == (False, True)
    assert again.receipts == first.receipts


def test_many_callers_at_once_each_get_their_own_numbers():
    async def story(harbour):
        before = harbour.store.commits
        answers = await asyncio.gather(
            *(harbour.worlds.submit("w", [Spawn(Tag())], batch_id=f"b{n}") for n in range(32)),
            *(harbour.worlds.submit("w", [Spawn(Tag())], batch_id="same") for _ in range(4)),
        )
        return answers, harbour.store.commits - before

    answers, commits = played(story)

    receipts = {each.receipts for each in answers}
    assert len(receipts) == 33
    assert sorted(each.entity_id for (each,) in receipts) == list(range(1, 34))
    assert sorted(answer.replayed for answer in answers) == [False] * 33 + [True] * 3
    assert commits <= 4


def test_a_lost_answer_is_no_second_admission():
    plan = FaultPlan(commits={2: Fault.LOST_AFTER, 3: Fault.LOST_BEFORE, 4: Fault.DUPLICATE})

    async def story(harbour):
        first = await harbour.worlds.submit("w", [due()], batch_id="a")
        second = await harbour.worlds.submit("w", [due()], batch_id="b")
        return first, second, await harbour.worlds.describe("w")

    first, second, info = played(story, store=MemoryStore(plan))

    assert [each.receipts[0].sequence for each in (first, second)] == [1, 2]
    assert info.pending_commands == 2


def test_a_batch_id_that_was_drawn_comes_back_when_the_outcome_is_unknown():
    plan = FaultPlan(commits=dict.fromkeys(range(2, 100), Fault.LOST_BEFORE))

    async def story(harbour):
        with pytest.raises(OutcomeUnknown) as raised:
            await harbour.worlds.submit("w", [due()])
        harbour.store.plan = FaultPlan()
        again = await harbour.worlds.submit("w", [due()], batch_id=raised.value.batch_id)
        return raised.value.batch_id, again

    batch_id, again = played(story, store=MemoryStore(plan), tries_max=2, resends_max=1)

    assert batch_id.startswith("drawn-")
    assert again.receipts[0].command_id == f"{batch_id}.0"


class Deaf:
    """An authority that decides, and answers no question about commands."""

    def __init__(self, authority):
        self.authority = authority

    async def execute(self, request):
        if isinstance(request, (StatusOf, Ledger)):
            raise StoreUnavailable(expected="an answer", found="none")
        return await self.authority.execute(request)


def test_what_is_done_is_not_told_as_undone_because_it_cannot_be_read():
    async def story(harbour):
        worlds = harbour.worlds
        await worlds.submit("w", [due(3)], batch_id="b")
        hearing, worlds._authority = worlds._authority, Deaf(worlds._authority)
        with pytest.raises(OutcomeUnknown) as sent_again:
            await worlds.submit("w", [due(3)], batch_id="b")
        with pytest.raises(OutcomeUnknown):
            await worlds.cancel("w", "b.0")
        worlds._authority = hearing
        return sent_again.value.batch_id, await worlds.command("w", "b.0")

    batch_id, command = played(story)

    assert batch_id == "b"
    assert command.code == "cancelled"


def test_too_many_lost_races_are_unavailable_not_refused():
    plan = FaultPlan(commits=dict.fromkeys(range(2, 100), Fault.CONFLICT))

    async def story(harbour):
        with pytest.raises(Unavailable) as raised:
            await harbour.worlds.submit("w", [due()], batch_id="b")
        return raised.value

    error = played(story, store=MemoryStore(plan), tries_max=2)

    assert (error.code, error.batch_id) == ("contended", "b")


def test_a_long_list_becomes_batches_within_the_limits_and_again_the_same():
    async def story(harbour):
        commands = [due(tick) for tick in range(200)]
        first = await harbour.worlds.submit_many("w", commands, batch_prefix="p")
        again = await harbour.worlds.submit_many("w", commands, batch_prefix="p")
        return first, again

    first, again = played(story)

    assert [each.batch_id for each in first] == ["p-000000", "p-000001", "p-000002"]
    assert [len(each.receipts) for each in first] == [90, 90, 20]
    assert all(each.replayed for each in again)
    assert [each.receipts for each in again] == [each.receipts for each in first]


def test_a_list_of_many_bytes_becomes_batches_of_fewer_commands():
    async def story(harbour):
        large = [Spawn(Text(text="x" * 60_000))] * 150
        first = await harbour.worlds.submit_many("w", large, batch_prefix="p")
        with pytest.raises(TooLarge):
            await harbour.worlds.submit_many("w", [Spawn(Text(text="x" * 64_000))])
        return first

    first = played(story, registry=Registry((Text,)))

    assert [(each.batch_id, len(each.receipts)) for each in first] == [
        ("p-000000", 75),
        ("p-000001", 75),
    ]
    assert [each.sequence for part in first for each in part.receipts] == list(range(1, 151))


def test_ten_thousand_commands_are_admitted_read_back_and_listed():
    async def story(harbour):
        await harbour.worlds.submit(
            "w", [Spawn(Counter(value=n)) for n in range(10_000)], batch_id="b"
        )
        await harbour.tick("w")
        page, after = await harbour.worlds.commands("w", limit=1_000)
        last = await harbour.worlds.command("w", "b.9999")
        return page, after, last

    page, after, last = played(story)

    assert ([each.sequence for each in page], after) == (list(range(1, 1_001)), "2.1000")
    assert (last.entity_id, last.status) == (10_000, "applied")


def test_cancelling_tells_what_became_of_it():
    async def story(harbour):
        await harbour.worlds.submit("w", [due(5), due(5)], batch_id="b")
        one = await harbour.worlds.cancel("w", "b.0")
        again = await harbour.worlds.cancel("w", "b.0")
        below = await harbour.worlds.cancel_all("w", "r")
        return one, again, below, await harbour.worlds.describe("w")

    one, again, below, info = played(story)

    assert one == again
    assert (one.status, one.code) == ("rejected", "cancelled")
    assert (below.cancelled_below, info.pending_commands) == (3, 0)


def test_worlds_and_commands_are_listed_in_pages():
    async def story(harbour):
        worlds = harbour.worlds
        for name in "abc":
            await worlds.create(f"name-{name}", world_id=name)
        for number in range(5):
            await worlds.submit("w", [due(), due()], batch_id=f"b{number}")
        listed, after = [], None
        while True:
            page, after = await worlds.commands("w", after, 3)
            listed += [each.command_id for each in page]
            if after is None:
                break
        first, behind = await worlds.discover(limit=3)
        rest, end = await worlds.discover(behind, limit=3)
        return listed, [each.world_id for each in (*first, *rest)], behind, end

    listed, ids, behind, end = played(story)

    assert listed == [f"b{number}.{index}" for number in range(5) for index in range(2)]
    assert (ids, behind, end) == (["a", "b", "c", "w"], "c", None)


def test_the_log_is_a_feed():
    async def story(harbour):
        await harbour.worlds.submit("w", [due()])
        first = await harbour.worlds.log("w", limit=1)
        return first, await harbour.worlds.log("w", first[-1].seq)

    first, rest = played(story)

    assert [each.kind for each in (*first, *rest)] == ["created", "admitted"]


class HalfSeen:
    """An authority that a running commit shows in part a few times, and then whole."""

    def __init__(self, authority, times):
        self._authority = authority
        self._times = times

    async def execute(self, request):
        if self._times:
            self._times -= 1
            raise Contended(expected="all of a commit", found="a part")
        return await self._authority.execute(request)


@pytest.mark.parametrize(("times", "verdict"), [(0, "pending"), (7, "pending"), (8, "contended")])
def test_a_status_that_meets_a_running_commit_is_looked_at_again(times, verdict):
    async def story(harbour):
        await harbour.worlds.submit("w", [due()], batch_id="b")
        harbour.worlds._authority = HalfSeen(harbour.authority, times)
        try:
            return (await harbour.worlds.command("w", "b.0")).status
        except Unavailable as error:
            return error.code

    assert played(story) == verdict
