"""Document stores move with their storage: what arrives is what was there, and goes on from there."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from tests.support import conversing
from tests.support.documents import LINEAGE, REF
from tests.support.exporting import BytesSource, bytes_of
from tests.support.histories import ITEMS, MOVED, sized
from tests.support.moving_stores import ARRIVED, HERE, THERE, End, lived, mover, raw
from tests.support.running_jobs import NAME, MovedClock, Result, app_with
from tests.support.stores import dynamodb_http, memory, sqlite

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.commit import CommitWrites, TakeOwner
from perdure.kernel.documents.jobs.hints import JobWakes
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.migrate import AlterTable, MoveRows
from perdure.kernel.documents.moving import FindStoreHead
from perdure.kernel.documents.reserve import ReserveIds
from perdure.kernel.documents.rows import PutRow
from perdure.kernel.ids import Holder, Instant, Lineage, Token
from perdure.kernel.places import WAKE_SHARDS
from perdure.runtime.documents.conversations import ConversationStorage
from perdure.runtime.documents.importing import import_store
from perdure.runtime.documents.jobs.hand import JobCrew
from perdure.runtime.documents.jobs.jobs import Jobs
from perdure.runtime.documents.log import entries_behind
from perdure.runtime.documents.replica import StoreLog, catch_up, create_replica, promote
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.stores import DocumentStores, RowsAsked
from perdure.runtime.documents.tables import prepared

pytestmark = [pytest.mark.lifecycle, pytest.mark.stores]

NOTE = {"owner": "notes", "namespace": "desk", "kind": "note", "history": "rewindable"}
CREATE = {"write": "document.create", **NOTE, "value": "hello"}


def stores(end: End) -> DocumentStores:
    return DocumentStores(end.means, end.storage)


async def ends() -> tuple[End, End]:
    """Return a storage with a store that has a past, and an empty one."""
    here, there = End(HERE), End(THERE)
    await lived(here)
    return here, there


@pytest.mark.parametrize(
    "route",
    [
        "memory sqlite memory",
        "sqlite memory sqlite",
        pytest.param("sqlite dynamodb sqlite", marks=[pytest.mark.slow, pytest.mark.cloud]),
    ],
)
async def test_what_arrives_exports_what_was_there_byte_for_byte_and_so_it_does_when_it_comes_back(
    route, tmp_path, request
):
    openers = {
        "memory": memory,
        "dynamodb": lambda: dynamodb_http(request.getfixturevalue("aws")),
    }
    async with AsyncExitStack() as stack:
        places = []
        for number, kind in enumerate(route.split()):
            directory = tmp_path / str(number)
            directory.mkdir()
            opened = sqlite(directory) if kind == "sqlite" else openers[kind]()
            open_store = await stack.enter_async_context(opened)
            places.append(End([HERE, THERE, HERE][number], await open_store()))
        first, second, third = places
        await lived(first, commits=20)
        before = await bytes_of(first.means, REF)

        receipt = await mover(first, second).move()
        there = await bytes_of(second.means, ARRIVED)
        await mover(second, third, "back").move()
        back = await bytes_of(third.means, REF)

    assert (there, back) == (before, before)
    assert receipt["verified_stores"]["notes"]["seq"] == receipt["stores"]["notes"]["seq"]


async def test_every_record_arrives_as_it_was_and_nothing_beside_them():
    records, arrived = MemoryStore(), MemoryStore()
    here = End(HERE, records)
    await lived(here)
    before = raw(records)

    await mover(here, End(THERE, arrived)).move()

    assert raw(arrived) == before
    kinds = {sort.partition("/")[0] for _, sort in before}
    assert kinds >= {"head", "log", "doc", "rev", "addr", "scope", "table", "row", "index", "key"}


async def test_bodies_of_every_size_arrive():
    here, there = End(HERE), End(THERE)
    await here.made()
    values = ["x" * size for size in (60_000, 65_536, 70_000, 390_000)]
    for number, value in enumerate(values):
        create = {**CREATE, "key": str(number), "value": value}
        await stores(here).commit("notes", [create])
    before = await bytes_of(here.means, REF)

    await mover(here, there).move()

    assert await bytes_of(there.means, ARRIVED) == before
    found = [(await stores(there).document("notes", 2 + each)).value for each in range(4)]
    assert found == values


async def test_a_commit_that_is_asked_for_again_gets_its_old_answer_at_both_ends():
    here, there = End(HERE), End(THERE)
    await here.made()
    done = await stores(here).commit("notes", [CREATE], commit_id="once")

    await mover(here, there).move()

    for end in (here, there):
        again = await stores(end).commit("notes", [CREATE], commit_id="once")
        assert (again.seq, again.ids, again.replayed) == (done.seq, done.ids, True)


async def test_an_attempt_whose_answer_was_lost_is_found_at_both_ends():
    here, there = await ends()
    head = await here.authority.execute(FindStoreHead(REF))
    lost = CommitWrites(REF, (ReserveIds(3),), Token("lost"), seen=head.seq)
    done = await here.authority.execute(lost)

    await mover(here, there).move()

    for end, ref in ((here, REF), (there, ARRIVED)):
        asked = CommitWrites(ref, lost.staged, lost.attempt, seen=head.seq)
        again = await end.authority.execute(asked)
        assert (again.seq, again.next_id, again.replayed) == (done.seq, done.next_id, True)


async def test_ids_and_commits_and_tables_go_on_where_they_were():
    here, there = await ends()
    before = await here.authority.execute(FindStoreHead(REF))

    await mover(here, there).move()
    store = await OpenStore.open(there.means, ARRIVED)
    await prepared(store, (MOVED,), {})
    row = {"shelf": "new", "number": 1, "color": "", "more": None, "size": 0}
    reply = await store.commit([PutRow(MOVED, row)])

    assert reply.seq == before.seq + 1
    assert store.mint() == before.next_id
    found = await stores(there).rows("notes", RowsAsked(MOVED.full_name, ("new",)))
    assert [each.value for each in found[0]] == [row]


async def test_a_replica_and_a_follower_of_the_source_go_on_behind_the_copy():
    here, there = await ends()
    apart = End(HERE)
    await create_replica(apart.means, REF, LINEAGE)
    replica = await OpenStore.open(apart.means, REF)
    await catch_up(StoreLog(here.means, REF), replica)
    head = await here.authority.execute(FindStoreHead(REF))
    place = LogPlace(head.seq, head.digest, head.lineage)

    await mover(here, there).move()
    await stores(there).commit("notes", [CREATE])
    lag = await catch_up(StoreLog(there.means, ARRIVED), replica)
    behind = [
        entry.seq
        async for entry in entries_behind(there.authority, ARRIVED, place, pause=there.means.pause)
    ]

    assert (lag.seq, behind) == (head.seq + 1, [head.seq + 1])
    assert await bytes_of(apart.means, REF) == await bytes_of(there.means, ARRIVED)


async def test_a_replica_moves_as_one_and_is_promoted_over_there_with_its_jobs():
    clock = MovedClock()
    source, here, there = (End(each, now=clock.now) for each in (HERE, HERE, THERE))
    await source.made()
    await started(source, job_id="waits")
    await create_replica(here.means, REF, LINEAGE)
    await catch_up(StoreLog(source.means, REF), await OpenStore.open(here.means, REF))

    await mover(here, there).move()
    arrived = await there.authority.execute(FindStoreHead(ARRIVED))
    hinted = await hints(there)
    await stores(source).commit("notes", [CREATE])
    replica = await OpenStore.open(there.means, ARRIVED)
    lag = await catch_up(StoreLog(source.means, REF), replica)
    await promote(there.means, ARRIVED)

    assert (arrived.follows, hinted) == (True, [])
    assert lag.commits == 0
    assert await hints(there) == [("there", "waits")]


async def test_a_log_that_was_cut_is_cut_at_the_same_place():
    source, here, there = End(HERE), End(HERE), End(THERE)
    await lived(source)
    exported = BytesSource(await bytes_of(source.means, REF))
    await import_store(here.means, REF, exported, lineage=Lineage("i" * 22))
    await stores(here).commit("notes", [CREATE])
    before = await here.authority.execute(FindStoreHead(REF))

    await mover(here, there).move()

    arrived = await there.authority.execute(FindStoreHead(ARRIVED))
    assert arrived.log_from == before.log_from == before.seq
    assert (arrived.digest, arrived.lineage) == (before.digest, before.lineage)


async def test_who_has_an_owner_in_hand_afterwards_has_it_under_a_higher_epoch():
    here, there = End(HERE), End(THERE)
    await here.made()
    take = TakeOwner(REF, "notes", Holder("one"), lease_ms=0).checked()
    grip, _ = await here.authority.execute(take)

    await mover(here, there).move()
    moved = await there.authority.execute(FindStoreHead(ARRIVED))
    other = TakeOwner(ARRIVED, "notes", Holder("two"), lease_ms=0).checked()
    taken, _ = await there.authority.execute(other)

    assert [(each.owner, each.epoch) for each in moved.held] == [("notes", grip.epoch)]
    assert taken.epoch == grip.epoch + 1


async def reads(run):
    return Result(count=1)


def jobs(end: End) -> Jobs:
    return Jobs(JobCrew(means=end.means), end.storage, app_with(reads))


async def started(end: End, **more) -> None:
    await jobs(end).start("notes", NAME, {"path": "a"}, **more)


async def hints(end: End) -> list[tuple[str, str]]:
    """Return every hint of a job: the storage and the job that it leads to."""
    asked = [JobWakes(shard, Instant(2**50)) for shard in range(WAKE_SHARDS)]
    found = [each for request in asked for each in await end.authority.execute(request)]
    return sorted((str(each.storage), str(each.job)) for each in found)


async def test_a_due_job_wakes_at_the_destination_and_nowhere_else():
    clock = MovedClock()
    here, there = End(HERE, now=clock.now), End(THERE, now=clock.now)
    await here.made()
    await started(here, job_id="due")
    await started(here, job_id="later", due_at=Instant(clock.at + 3_600_000))

    await mover(here, there).move()
    hinted = await hints(there)
    deadline = Instant(clock.at + 60_000)
    left = await jobs(here).run_due(deadline=deadline)
    ran = await jobs(there).run_due(deadline=deadline)

    assert hinted == [("there", "due"), ("there", "later")]
    assert left == ()
    assert [(each.job.job, each.driven.state) for each in ran] == [("due", "ended")]
    assert (await jobs(there).describe("notes", NAME, "later")).phase == "pending"
    assert await hints(here) == [("memory", "later")], (
        "it lies there until its time, and rests then"
    )


async def test_perdures_own_store_stays_and_the_destination_may_have_one():
    here, there = End(HERE), End(THERE)
    for end in (here, there):
        await end.made("perdure.system")
    await stores(End(HERE, here.records)).create("notes")

    receipt = await mover(here, there).move()

    assert set(receipt["stores"]) == {"notes"}
    stayed = await here.authority.execute(FindStoreHead(here.ref("perdure.system")))
    assert stayed.status == "open"


async def test_a_storage_with_many_stores_moves_and_moves_on():
    here, there, further = End(HERE), End(THERE), End(HERE)
    for name in ("papers", "notes", "empty"):
        await here.made(name)
        if name != "empty":
            await stores(here).commit(name, [{**CREATE, "value": name}])
    before = {name: await bytes_of(here.means, here.ref(name)) for name in ("papers", "notes")}

    await mover(here, there).move()
    await stores(there).commit("papers", [{**CREATE, "key": "more"}])
    await mover(there, further, "on").move()

    assert await bytes_of(further.means, further.ref("notes")) == before["notes"]
    infos, _ = await stores(further).discover()
    assert [(each.store_id, each.seq, each.status) for each in infos] == [
        ("empty", 0, "open"),
        ("notes", 1, "open"),
        ("papers", 2, "open"),
    ]


async def test_exports_that_jobs_made_stay_with_them():
    here, there = await ends()
    here.objects.held |= {"export/a/b/part": b"x", "kept": b"y"}

    receipt = await mover(here, there).move()

    assert there.objects.held == {"kept": b"y"}
    assert receipt["objects"]["count"] == 1


async def test_a_table_half_way_to_its_next_version_is_brought_there_at_the_destination():
    here, there = End(HERE), End(THERE)
    store = await here.made()
    await prepared(store, (ITEMS,), {})
    row = {"shelf": "stock", "color": "grey", "more": None}
    await store.commit([PutRow(ITEMS, {**row, "number": number}) for number in range(3)])
    await here.authority.execute(AlterTable(REF, MOVED, Token("alter")))
    first = sized({**row, "number": 0}, 1)
    moved = ((("stock", 0), first),)
    await here.authority.execute(MoveRows(REF, MOVED, Token("rows"), behind=None, rows=moved))

    await mover(here, there).move()
    arrived = await OpenStore.open(there.means, ARRIVED)
    before = await bytes_of(there.means, ARRIVED)
    await prepared(arrived, (MOVED,), {"items": sized})

    assert before == await bytes_of(here.means, REF)
    found, _ = await stores(there).rows("notes", RowsAsked(MOVED.full_name))
    assert [each.value["size"] for each in found] == [4, 4, 4]


async def test_a_conversation_goes_on_where_it_was():
    here, there = End(HERE), End(THERE)
    talk = await ConversationStorage.open(await here.made(), "pi")
    await talk.commit([conversing.conversation(1)])
    entry = conversing.entry(talk.mint(), head={"n": 1})
    await talk.commit([entry])
    await talk.close()

    await mover(here, there).move()
    over_there = await ConversationStorage.open(await OpenStore.open(there.means, ARRIVED), "pi")
    again = conversing.entry(over_there.mint(), head={"n": 2})
    await over_there.commit([again])
    found = [await over_there.entry(each["value"]["id"]) for each in (entry, again)]

    assert [each["entry"] for each in found] == [entry["value"], again["value"]]
