"""Defects that systems of this kind are known to have: commands and ticks without them."""

from __future__ import annotations

import asyncio

import pytest
from tests.runtime.harness import Fuel, Place, fresh_app, harness

from perdure import AddComponents, Despawn, RemoveComponents, Spawn, Update
from perdure.authority.sqlite import SqliteStore
from perdure.kernel.errors import NameTaken, NotFound, StaleWriter
from perdure.kernel.fence import TakeFence
from perdure.kernel.ids import Holder

pytestmark = pytest.mark.lifecycle

LEASE_MS = 60_000


class Fragile(Place):
    """A component whose value -1 fails for now, -2 kills its process."""

    def model_post_init(self, _: object) -> None:
        if Mood.is_bad and self.x == -1.0:
            raise RuntimeError("not now")
        if Mood.is_bad and self.x == -2.0:
            raise ProcessDied


class Mood:
    is_bad = False


class ProcessDied(BaseException):
    """Stands for a process that is gone: nothing after it runs."""


@pytest.fixture
def fragile_app():
    app = fresh_app()
    app.component(Fragile)
    yield app
    Mood.is_bad = False


async def statuses(h, *sent):
    found = [
        await h.worlds.command("w", receipt.command_id)
        for each in sent
        for receipt in each.receipts
    ]
    return [each.status for each in found]


async def test_a_writer_that_was_fenced_out_settles_and_hides_nothing(tmp_path):
    """Where the ledger is not fenced, a stale writer hides commands or rejects them for good."""
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    sent = await h.worlds.submit("w", [Spawn(Place(x=0, y=0)), Despawn(entity_id=99)])
    stale, live = h.ticker("stale"), h.ticker("live")
    ref = h.worlds.ref("w")
    old = await stale.take(ref)
    h.clock.advance(LEASE_MS + 1)
    new = await live.take(ref)

    with pytest.raises(StaleWriter):
        await stale.tick(ref, old)
    before = await statuses(h, sent)
    await live.tick(ref, new)

    assert before == ["pending", "pending"]
    assert await statuses(h, sent) == ["applied", "rejected"]


async def test_what_a_dead_writer_had_drained_is_applied_at_once_and_in_order(tmp_path):
    """Where commands are leased, those of a dead writer stay hidden and later ones overtake."""
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    (first,) = (await h.worlds.submit("w", [Spawn(Place(x=0, y=0))])).receipts
    ref = h.worlds.ref("w")
    dead = h.ticker("dead")
    grip = await dead.take(ref)
    await dead._drained(ref, grip.tick, 0)
    later = await h.worlds.submit("w", [Update(Place(x=5, y=5), entity_id=first.entity_id)])
    h.clock.advance(LEASE_MS + 1)

    ran = await h.run("w", 0, h.ticker("next"))

    assert (ran.applied, ran.rejected) == (2, 0)
    assert await statuses(h, later) == ["applied"]


async def test_a_command_that_kills_every_writer_ends_as_a_dead_letter(tmp_path, fragile_app):
    """Where attempts are charged but never checked, a crash loop has no end."""
    h = harness(tmp_path, fragile_app)
    await h.worlds.create("harbour", world_id="w")
    deadly = await h.worlds.submit("w", [Spawn(Fragile(x=-2, y=0))])
    harmless = await h.worlds.submit("w", [Spawn(Place(x=1, y=1))])
    Mood.is_bad = True

    ref, deaths = h.worlds.ref("w"), 0
    for life in range(60):
        writer = h.ticker(f"life-{life}")
        grip = await writer.take(ref)
        try:
            await writer.tick(ref, grip)
            break
        except ProcessDied:  # and so its fence is not released
            deaths += 1
            h.clock.advance(LEASE_MS + 1)

    assert 3 <= deaths < 20
    assert await statuses(h, deadly) == ["dead_letter"]
    assert await statuses(h, harmless) == ["applied"]


async def test_a_command_that_fails_for_now_does_not_hold_up_the_others(tmp_path, fragile_app):
    """Where a failure is tried again at once, it stays at the head of the line until it dies."""
    h = harness(tmp_path, fragile_app)
    await h.worlds.create("harbour", world_id="w")
    failing = await h.worlds.submit("w", [Spawn(Fragile(x=-1, y=0), max_attempts=9)])
    others = await h.worlds.submit("w", [Spawn(Place(x=n, y=0)) for n in range(3)])
    Mood.is_bad = True

    await h.run("w", 1)

    assert await statuses(h, failing) == ["retryable"]
    assert await statuses(h, others) == ["applied"] * 3


async def test_a_tick_takes_thousands_of_due_commands_at_once(tmp_path):
    """Where a tick takes a hundred, a thousand wait for ten ticks."""
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Fuel(litres=n)) for n in range(5_000)])

    ran = await h.run("w", 0)

    assert (ran.applied, ran.entities) == (5_000, 5_000)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (Update(Place(x=1, y=1), entity_id=77), "entity_not_found"),
        (Despawn(entity_id=77), "entity_not_found"),
        (Update(Fuel(litres=1), entity_id=1), "component_absent"),
        (AddComponents(Place(x=1, y=1), entity_id=1), "component_present"),
        (RemoveComponents(components=["Fuel"], entity_id=1), "component_absent"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.operation,
)
async def test_a_mutation_that_can_do_nothing_is_rejected_with_its_reason(tmp_path, command, code):
    """Where it is applied in silence, nobody learns that nothing was done."""
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0))])
    await h.run("w", 0)
    sent = await h.worlds.submit("w", [command])

    await h.run("w", 1)

    found = await h.worlds.command("w", sent.receipts[0].command_id)
    assert (found.status, found.code) == ("rejected", code)


async def test_admission_waits_for_no_tick_and_needs_no_world_in_memory(tmp_path):
    """Where admission takes the world's own lock, it waits as long as the tick takes."""
    computing, go_on = asyncio.Event(), asyncio.Event()
    app = fresh_app()

    @app.processor(Place)
    async def slow(rows, tick):
        computing.set()
        await go_on.wait()
        return rows

    h = harness(tmp_path, app)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0))])
    running = asyncio.create_task(h.run("w", 0))
    await computing.wait()

    during = await h.worlds.submit("w", [Spawn(Place(x=1, y=1))])

    assert not running.done()
    go_on.set()
    await running
    assert await statuses(h, during) == ["pending"]


async def test_a_name_is_taken_for_every_process_of_a_storage(tmp_path):
    """Where a process keeps the names it has seen, two processes make two worlds of one name."""
    path = tmp_path / "store.db"
    one = harness(tmp_path, store=await SqliteStore.open(path))
    other = harness(tmp_path, store=await SqliteStore.open(path))
    await one.worlds.create("harbour", world_id="first")

    with pytest.raises(NameTaken) as refused:
        await other.worlds.create("harbour", world_id="second")

    assert refused.value.code == "name_taken"
    assert [info.world_id for info in (await one.worlds.discover())[0]] == ["first"]
    await one.authority.close()
    await other.authority.close()


async def test_an_entity_id_once_given_is_given_to_nobody_else_whatever_happens(tmp_path):
    """Where ids are reserved in memory, a restart gives them out again."""
    path = tmp_path / "store.db"
    h = harness(tmp_path, store=await SqliteStore.open(path))
    await h.worlds.create("harbour", world_id="w")
    (never,) = (await h.worlds.submit("w", [Spawn(Place(x=0, y=0), tick=50)])).receipts
    await h.worlds.cancel("w", never.command_id)
    await h.authority.close()

    again = harness(tmp_path, store=await SqliteStore.open(path))
    (fresh,) = (await again.worlds.submit("w", [Spawn(Place(x=0, y=0))], batch_id="b")).receipts
    await again.authority.close()

    assert fresh.entity_id > never.entity_id


async def test_a_writer_that_lost_its_tick_to_another_can_go_on_afterwards(tmp_path):
    """Where it keeps what it had prepared, it is stuck for ever, and its world with it."""
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    ref = h.worlds.ref("w")
    slow = h.ticker("slow")
    grip = await slow.take(ref)
    h.clock.advance(LEASE_MS + 1)
    await h.run("w", 0, h.ticker("quick"))

    with pytest.raises(StaleWriter) as refused:
        await slow.tick(ref, grip)
    ran = await h.run("w", 1, slow)

    assert refused.value.code == "stale_writer"
    assert (ran.published_tick, ran.ticks) == (1, 1)


async def test_a_world_that_never_was_has_no_fence_to_take(tmp_path):
    """Where a fence is given to whoever asks, a misspelled id becomes a world."""
    h = harness(tmp_path)

    with pytest.raises(NotFound):
        await h.authority.execute(TakeFence(h.worlds.ref("nowhere"), Holder("ann"), LEASE_MS))

    assert h.store._records == {}


async def test_published_and_next_tick_never_mean_each_other(tmp_path):
    """Where one field means either, a world that never ticked looks like one that did."""
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    fresh = await h.worlds.describe("w")
    await h.run("w", 0)

    ran = await h.worlds.describe("w")

    assert (fresh.published_tick, fresh.next_tick) == (None, 0)
    assert (ran.published_tick, ran.next_tick) == (0, 1)
    assert (await h.worlds.discover())[0] == [ran]


async def test_an_authority_knows_nothing_that_its_store_does_not(tmp_path):
    """Where worlds live in a process, a restart finds none of them."""
    path = tmp_path / "store.db"
    h = harness(tmp_path, store=await SqliteStore.open(path))
    await h.worlds.create("harbour", world_id="w")
    sent = await h.worlds.submit("w", [Spawn(Place(x=0, y=0))], batch_id="b")
    await h.authority.close()

    again = harness(tmp_path, store=await SqliteStore.open(path))
    ran = await again.run("w", 0)

    assert [info.world_id for info in (await again.worlds.discover())[0]] == ["w"]
    assert (ran.applied, await statuses(again, sent)) == (1, ["applied"])
    assert (await again.worlds.submit("w", [Spawn(Place(x=0, y=0))], batch_id="b")).replayed
    await again.authority.close()
