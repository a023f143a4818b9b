"""Projection: every entry of every log is in the audit table, in its order and once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from tests.runtime.harness import Place as Spot
from tests.runtime.harness import harness
from tests.support.logs import STORAGE, STORY, Logs, a_story
from tests.support.worldly import due

from perdure import Spawn
from perdure.kernel.consumers import SetConsumer
from perdure.kernel.errors import ConsumerBehind, Corrupt
from perdure.kernel.ids import EntityId, Holder, Instant, RunId, Seq, Sequence, Tick, WorldId
from perdure.kernel.landing import CONSUMER
from perdure.kernel.log import log_key
from perdure.kernel.pages import Page, PageEntry
from perdure.kernel.places import PageName, WorldRef
from perdure.kernel.records import Ancestor, manifest_key, world_key
from perdure.kernel.rest import ReadAgenda, Rest
from perdure.kernel.upkeep import Consumer
from perdure.lake import audit
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.runtime.project import AuditBounds, Projection

pytestmark = pytest.mark.lifecycle

ONE_ENTRY = AuditBounds(entries_max=1)


@pytest.fixture
def logs(tmp_path):
    logs = Logs(tmp_path)
    yield logs
    logs.close()


def test_everything_that_happens_is_an_event_in_the_order_of_the_log(logs):
    a_story(logs)

    done = logs.project()

    assert logs.told() == STORY
    assert (done.events, done.files, done.entries) == (len(STORY), 1, 13)
    assert logs.through() == 13


def test_an_event_says_who_what_when_and_why(logs):
    a_story(logs)
    logs.project()

    by = {(row["seq"], row["index"]): row for row in logs.rows()}

    rejected, retryable, applied = by[3, 1], by[3, 2], by[13, 1]
    manifest = logs.paper.held(manifest_key(WorldRef(STORAGE, WorldId("w")).partition, Tick(0)))
    assert (rejected["code"], rejected["detail"]) == ("lookup_error", "no")
    assert (rejected["tick"], rejected["token"]) == (0, manifest.token)
    assert (retryable["code"], retryable["attempts"]) == ("boom", 1)
    assert (applied["operation"], applied["entity_id"]) == ("despawn", 1)
    assert (applied["actor"], applied["origin"]) == ("ann", "http")
    assert '"cancelled_below":7' in by[6, 0]["detail"]
    assert {row["run_id"] for row in by.values()} == {"run"}


def test_an_event_keeps_its_id_whoever_projects_it_and_no_two_share_one(logs, tmp_path):
    a_story(logs)
    other = Logs(tmp_path / "other")
    a_story(other)

    logs.project()
    other.project(bounds=ONE_ENTRY)

    ids = [[row["event_id"] for row in each.rows()] for each in (logs, other)]
    other.close()
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(STORY)


def test_projecting_again_adds_nothing(logs):
    a_story(logs)
    logs.project()

    again = logs.project()

    assert (again.events, again.entries, again.files) == (0, 0, 0)
    assert logs.told() == STORY


def test_a_command_that_waited_is_known_by_name_long_after_its_admission(logs):
    """Its admission is in the table by then, and in no log entry that is read again."""
    world = logs.world()
    world.admit(*[due(tick) for tick in (8, 9, 9, 12)], batch="early", principal="ann")
    logs.project()
    world.ticks(10)

    logs.project(bounds=ONE_ENTRY)

    applied = [row for row in logs.rows() if row["kind"] == "applied"]
    assert [(row["command_id"], row["tick"], row["actor"]) for row in applied] == [
        ("early.0", 8, "ann"),
        ("early.1", 9, "ann"),
        ("early.2", 9, "ann"),
    ]


def test_many_worlds_share_one_table_and_one_file(logs):
    for name in ("w", "v", "u"):
        a_story(logs, name)

    done = logs.project("w", "v", "u")

    assert [logs.told(name) for name in ("w", "v", "u")] == [STORY] * 3
    assert (done.files, len(done.worlds)) == (1, 3)
    places = [(row["world_id"], row["seq"], row["index"]) for row in logs.lake_rows()]
    assert all(before < after for before, after in pairwise(places))


@pytest.mark.parametrize(
    "bounds",
    [
        AuditBounds(events_max=1),
        AuditBounds(bytes_max=1),
        AuditBounds(entries_max=5),
        AuditBounds(worlds_max=1),
    ],
)
def test_however_little_an_intent_takes_everything_is_told_once(logs, bounds):
    a_story(logs)
    a_story(logs, "v")

    logs.project("w", "v", bounds=bounds)

    assert [logs.told(name) for name in ("w", "v")] == [STORY] * 2
    assert [logs.through(name) for name in ("w", "v")] == [13, 13]


def test_time_that_runs_out_leaves_the_rest_to_the_next_call(logs):
    a_story(logs)
    looks = iter([True, True, False])

    logs.project(bounds=ONE_ENTRY, go_on=lambda: next(looks))
    part = logs.through()
    logs.project()

    assert part == 2
    assert logs.told() == STORY


def test_ticks_in_which_nothing_is_settled_move_the_watermark_and_add_no_row(logs):
    world = logs.world()
    logs.project()
    world.ticks(20)

    done = logs.project()

    assert (done.events, done.entries, done.files, logs.through()) == (0, 20, 0, 21)


def test_an_entry_that_is_not_visible_yet_stops_the_watermark_before_it(logs):
    world = a_story(logs)
    hidden = log_key(world.ref.partition, Seq(5))
    entry = logs.paper.stored.pop(hidden)

    logs.project()
    before = (logs.through(), logs.told())
    logs.paper.stored[hidden] = entry
    logs.project()

    assert before == (4, [each for each in STORY if each[0] <= 4])
    assert logs.told() == STORY


def test_a_manifest_that_is_not_the_one_of_its_entry_is_refused_and_nothing_is_told(logs):
    world = a_story(logs)
    logs.project(bounds=AuditBounds(entries_max=2), go_on=iter([True, False]).__next__)
    manifest = logs.paper.held(manifest_key(world.ref.partition, Tick(0)))
    logs.paper.put(replace(manifest, entities=99))

    (failed,) = logs.project().failed

    assert (failed[0], type(failed[1])) == (world.ref.world, Corrupt)
    assert (logs.through(), logs.told()) == (2, STORY[:7])


# ---------------------------------------------------------------- worlds that end, and forks


def test_the_end_of_a_world_is_told_and_its_open_commands_end_with_it(logs):
    world = logs.world()
    world.admit(due(9), batch="b")
    entry = logs.paper.held(log_key(world.ref.partition, Seq(2)))
    facts = {"next_sequence": 2, "cancelled_below": 0, "actor": "ann", "origin": "gateway"}
    last = replace(
        entry, seq=Seq(3), kind="destroyed", facts=facts, payload=b"null", previous=entry.digest
    )
    logs.paper.put(last)
    world.change(lambda head: replace(head, seq=Seq(3), status="destroyed"))

    logs.project()

    row = logs.rows()[-1]
    assert (row["kind"], row["actor"], row["origin"]) == ("destroyed", "ann", "gateway")
    assert row["detail"] == '{"cancelled_below":0,"next_sequence":2}'


def a_fork(logs: Logs, parent, name: str, *, pages: tuple[int, ...]) -> object:
    """Make a child of ``parent`` that took over the commands of these log entries."""
    child = logs.world(name)
    record = logs.paper.held(world_key(child.ref))
    line = (
        *logs.paper.held(world_key(parent.ref)).lineage,
        Ancestor(world=parent.ref.world, run=RunId("run"), up_to=parent.head.published),
    )
    logs.paper.put(replace(record, lineage=line))
    source = parent.head
    child.change(
        lambda head: replace(
            head,
            published=source.published,
            next_sequence=source.next_sequence,
            next_entity_id=source.next_entity_id,
        )
    )
    for seq in pages:
        tick = Tick(source.published + 1)
        page = PageName(tick, 0, Sequence(1_000 + seq))
        taken = PageEntry(seq=Seq(seq), group=0, count=1, world=parent.ref.partition)
        logs.paper.put(Page.of(child.ref.partition, page, [taken]))
    return child


@pytest.mark.parametrize("projected", ["none of it", "before the fork", "all of it"])
def test_what_a_fork_took_over_is_known_by_the_name_it_was_admitted_under(logs, projected):
    parent = logs.world("p")
    parent.ticks(1)
    parent.admit(due(), batch="own", principal="ann")
    if projected == "before the fork":
        logs.project("p")
    child = a_fork(logs, parent, "c", pages=(3,))
    child.admit(due(), batch="child")
    parent.admit(due(), batch="rival")
    child.tick()
    if projected == "all of it":
        logs.project("p")

    logs.project("c")

    applied = [row for row in logs.rows() if row["kind"] == "applied"]
    assert [(row["world_id"], row["sequence"], row["command_id"]) for row in applied] == [
        ("c", 1, "own.0"),
        ("c", 2, "child.0"),
    ]
    assert applied[0]["actor"] == "ann"


def test_a_fork_and_its_parent_go_on_from_one_number_and_are_never_mixed_up(logs):
    parent = logs.world("p")
    parent.ticks(1)
    child = a_fork(logs, parent, "c", pages=())
    parent.admit(due(3), batch="rival")
    child.admit(due(3), batch="child")
    logs.project("p", "c")
    parent.ticks(4)
    child.ticks(4)

    logs.project("p", "c")

    applied = [row for row in logs.rows() if row["kind"] == "applied"]
    assert [(row["world_id"], row["sequence"], row["command_id"]) for row in applied] == [
        ("c", 1, "child.0"),
        ("p", 1, "rival.0"),
    ]


def test_what_came_from_another_storage_keeps_its_number_alone(logs):
    parent = logs.world("p")
    parent.ticks(1)
    parent.admit(due(), batch="own")
    child = a_fork(logs, parent, "c", pages=(3,))
    child.tick()
    del logs.paper.stored[world_key(parent.ref)]

    logs.project("c")

    row = logs.rows()[-1]
    assert (row["kind"], row["sequence"], row["command_id"]) == ("applied", 1, None)


def test_a_settled_command_that_nobody_admitted_is_corruption(logs):
    world = logs.world()
    world.admit(due(4), batch="b")
    logs.project()
    table = logs.lake.opened_as(audit.AUDIT)
    table.delete("kind = 'queued'")
    before = logs.through()
    world.ticks(5)

    (failed,) = logs.project().failed

    assert (failed[0], type(failed[1])) == (world.ref.world, Corrupt)
    assert logs.through() == before


# ---------------------------------------------------------------- rest, and who is required


def landed(world) -> Consumer:
    head = world.head
    return Consumer(partition=head.partition, name=CONSUMER, seq=head.seq, tick=head.published)


def test_a_world_sleeps_only_when_its_log_is_in_the_table(logs):
    world = logs.world()
    world.tick()
    logs.paper.put(landed(world))
    (hint,) = logs.paper.held_under("0")

    awake = logs.paper.ask(ReadAgenda(world.ref))
    logs.paper.now = Instant(logs.paper.now + 60_000)
    logs.paper.ask(Rest(world.ref, hint.sort))
    still = world.head.wake_at
    logs.project()
    (hint,) = logs.paper.held_under("0")
    asleep = logs.paper.ask(ReadAgenda(world.ref))
    logs.paper.ask(Rest(world.ref, hint.sort))

    assert (awake.unlanded, awake.unread) == (False, True)
    assert still == logs.paper.now + 60_000
    assert (asleep.unlanded, asleep.unread) == (False, False)
    assert (world.head.wake_at, logs.paper.held_under("0")) == (None, [])


def test_the_audit_itself_can_be_required(logs):
    world = logs.world()
    logs.paper.ask(SetConsumer(world.ref, "audit", required=True))
    world.tick()

    with pytest.raises(ConsumerBehind):
        world.take()
    logs.project()
    world.tick()

    assert world.head.published == 1


async def test_a_scheduled_world_that_waits_is_not_failed_and_stays_due(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("clockwork", world_id="w", every_ms=60_000)
    await h.worlds.consumers.set("w", "hook", required=True)
    ticker = h.ticker()
    h.clock.advance(60_000)
    first = await h.due(ticker)
    h.clock.advance(60_000)

    held = await h.due(ticker)
    await h.worlds.consumers.acknowledge("w", "hook", 3)
    freed = await h.due(ticker)

    assert [len(each.ticked) for each in (first, held, freed)] == [1, 0, 1]
    assert (held.failed, freed.failed) == ((), ())


async def test_a_run_that_must_wait_tells_what_it_published_and_then_refuses(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.consumers.set("w", "hook", required=True)

    ran = await h.run("w", 5)
    with pytest.raises(ConsumerBehind):
        await h.run("w", 5)
    info = await h.worlds.describe("w")

    assert (ran.published_tick, ran.ticks, ran.done) == (0, 1, False)
    assert [(each.name, each.lag) for each in info.consumers] == [("hook", 3)]


async def test_reserved_entity_ids_are_told_with_the_spawn(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Spot(x=0, y=0)), Spawn(Spot(x=1, y=1), tick=2)], batch_id="b")
    await h.run("w", 2)
    catalog = open_local(tmp_path)
    lake = Lake(catalog, "main")

    projection = Projection(h.authority, lake, h.worlds.ref("w").storage)
    await projection.project([WorldId("w")], holder=Holder("ann"), new_token=h.new_token)

    rows = lake.opened_as(audit.AUDIT).scan().to_arrow().to_pylist()
    catalog.close()
    spawned = [(row["tick"], row["entity_id"]) for row in rows if row["kind"] == "applied"]
    assert sorted(spawned) == [(0, EntityId(1)), (2, EntityId(2))]
