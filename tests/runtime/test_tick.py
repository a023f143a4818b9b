"""The tick as a whole: what is published, what is not, and who may."""

from __future__ import annotations

import pytest
from pydantic import field_validator
from tests.runtime.harness import Fuel, Place, Speed, fresh_app, harness

from perdure import AddComponents, App, Despawn, RemoveComponents, Spawn, Update
from perdure.kernel import limits
from perdure.kernel.cancel import Cancel
from perdure.kernel.errors import (
    Corrupt,
    FenceHeld,
    OutcomeUnknown,
    StaleWriter,
    Stalled,
    StoreRefused,
)
from perdure.kernel.ids import CommandId, Tick
from perdure.kernel.publish import Publish
from perdure.kernel.reading import FindManifests


class Shaky(Place):
    """A component whose value -1 fails for now, -2 kills its process, and only when armed."""

    armed: bool = False

    @field_validator("x")
    @classmethod
    def fails(cls, x: float) -> float:
        if Arms.armed and x == -1.0:
            raise RuntimeError("not now")
        if Arms.armed and x == -2.0:
            raise ProcessDied
        return x


class Arms:
    armed = False


class ProcessDied(BaseException):
    """Stands for a process that is gone: nothing after it runs."""


@pytest.fixture
def armed():
    Arms.armed = False
    yield lambda: setattr(Arms, "armed", True)
    Arms.armed = False


@pytest.fixture
def shaky_app() -> App:
    app = fresh_app()
    app.component(Shaky)
    return app


async def manifests(world, h):
    last = (await h.worlds.describe(world)).published_tick
    return await h.authority.execute(
        FindManifests(h.worlds.ref(world).partition, Tick(0), Tick(last))
    )


async def test_a_due_spawn_is_applied_at_its_tick_and_no_earlier(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    sent = await h.worlds.submit("w", [Spawn(Place(x=1, y=2), tick=2)], batch_id="b")

    before = await h.run("w", 1)
    after = await h.run("w", 2)

    assert (before.applied, before.entities) == (0, 0)
    assert (after.applied, after.entities) == (1, 1)
    status = await h.worlds.command("w", sent.receipts[0].command_id)
    assert (status.status, status.applied_tick) == ("applied", 2)


async def test_commands_of_a_tick_compose_in_the_order_of_priority_and_admission(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    (first,) = (await h.worlds.submit("w", [Spawn(Place(x=0, y=0))])).receipts
    late = Update(Place(x=3, y=3), entity_id=first.entity_id, priority=5)
    early = Update(Place(x=1, y=1), entity_id=first.entity_id, priority=1)
    await h.worlds.submit("w", [late, early])

    await h.run("w", 0)

    (manifest,) = await manifests("w", h)
    assert manifest.tables[0].inline["place__x"] == [3.0]


async def test_a_command_on_nothing_is_rejected_with_a_code_and_the_rest_goes_on(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    (ship,) = (await h.worlds.submit("w", [Spawn(Place(x=0, y=0))])).receipts
    cases = [
        (Update(Place(x=1, y=1), entity_id=99), "entity_not_found"),
        (Despawn(entity_id=99), "entity_not_found"),
        (Update(Fuel(litres=3), entity_id=ship.entity_id), "component_absent"),
        (RemoveComponents(components=["Fuel"], entity_id=ship.entity_id), "component_absent"),
        (AddComponents(Place(x=1, y=1), entity_id=ship.entity_id), "component_present"),
    ]
    sent = await h.worlds.submit("w", [*(command for command, _ in cases), Spawn(Fuel(litres=1))])

    ran = await h.run("w", 0)

    told = [await h.worlds.command("w", receipt.command_id) for receipt in sent.receipts]
    assert [each.code for each in told] == [*(code for _, code in cases), None]
    assert [each.status for each in told] == ["rejected"] * len(cases) + ["applied"]
    assert (ran.applied, ran.rejected, ran.entities) == (2, len(cases), 2)


async def test_a_failure_for_now_stops_the_drain_and_is_tried_later_and_then_no_more(
    tmp_path, shaky_app, armed
):
    h = harness(tmp_path, shaky_app)
    await h.worlds.create("harbour", world_id="w")
    sent = await h.worlds.submit("w", [Spawn(Shaky(x=-1, y=0)), Spawn(Place(x=0, y=0))])
    shaky, tail = (receipt.command_id for receipt in sent.receipts)
    armed()

    seen = []
    for tick in range(5):
        await h.run("w", tick)
        told = await h.worlds.command("w", shaky)
        seen.append((told.status, told.attempts))

    # Tried at ticks 0, 1 and 3: it waits one tick, then two.
    retry = "retryable"
    assert seen == [(retry, 1), (retry, 2), (retry, 2), ("dead_letter", 3), ("dead_letter", 3)]
    after = await h.worlds.command("w", tail)
    assert (after.status, after.applied_tick, after.attempts) == ("applied", 1, 0)


async def test_a_world_may_choose_to_go_on_past_a_failure(tmp_path, shaky_app, armed):
    h = harness(tmp_path, shaky_app)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Shaky(x=-1, y=0)), Spawn(Place(x=0, y=0))])
    armed()

    ran = await h.run("w", 0, h.ticker(on_failure="continue"))

    assert (ran.applied, ran.retried) == (1, 1)


async def test_one_writer_at_a_time_and_the_next_when_its_lease_has_run_out(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    ref = h.worlds.ref("w")
    ann, bob = h.ticker("ann"), h.ticker("bob")
    held = await ann.take(ref)

    with pytest.raises(FenceHeld):
        await bob.take(ref)
    h.clock.advance(60_001)
    taken = await bob.take(ref)

    assert (held.epoch, taken.epoch) == (1, 2)


async def test_a_writer_that_slept_past_its_lease_publishes_nothing(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0))])
    ref = h.worlds.ref("w")
    ann, bob = h.ticker("ann"), h.ticker("bob")
    stale = await ann.take(ref)
    h.clock.advance(60_001)
    await h.run("w", 0, bob)

    with pytest.raises(StaleWriter):
        await ann.tick(ref, stale)

    (manifest,) = await manifests("w", h)
    assert manifest.epoch == 2
    await h.run("w", 1, ann)
    assert [each.epoch for each in await manifests("w", h)] == [2, 3]


class Interposed:
    """An authority before whose first publication a rival acts."""

    def __init__(self, authority, rival):
        self.authority, self.rival, self.publications = authority, rival, 0

    async def execute(self, request):
        if isinstance(request, Publish):
            self.publications += 1
            if self.publications == 1:
                await self.rival()
        return await self.authority.execute(request)


class Losing:
    """An authority that publishes, gives no answer to that, and then another one."""

    def __init__(self, authority, *errors):
        self.authority, self.errors = authority, list(errors)

    async def execute(self, request):
        if not isinstance(request, Publish) or not self.errors:
            return await self.authority.execute(request)
        error = self.errors.pop(0)
        if isinstance(error, OutcomeUnknown):
            await self.authority.execute(request)
        raise error


@pytest.mark.parametrize("kind", [StoreRefused, Corrupt])
async def test_a_tick_whose_publication_went_unanswered_is_not_told_as_unpublished(tmp_path, kind):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    lost, refused = (each(expected="an answer", found="none") for each in (OutcomeUnknown, kind))

    with pytest.raises(OutcomeUnknown):
        await h.run("w", 0, h.ticker(authority=Losing(h.authority, lost, refused)))
    with pytest.raises(kind):
        await h.run("w", 1, h.ticker(authority=Losing(h.authority, refused)))

    assert [each.tick for each in await manifests("w", h)] == [0]
    assert (await h.run("w", 1)).published_tick == 1


async def test_a_cancel_between_drain_and_publication_makes_the_tick_drain_again(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0)), Spawn(Place(x=1, y=1))], batch_id="b")

    async def cancel():
        await h.rival_authority("r").execute(Cancel(h.worlds.ref("w"), CommandId("b.0")))

    between = Interposed(h.authority, cancel)
    ran = await h.run("w", 0, h.ticker(authority=between))

    assert between.publications == 2
    assert (ran.applied, ran.entities) == (1, 1)
    assert (await h.worlds.command("w", "b.0")).code == "cancelled"


async def test_an_admission_between_drain_and_publication_waits_for_the_next_tick(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0))], batch_id="early")

    async def admit():
        await h.worlds.submit("w", [Spawn(Place(x=1, y=1))], batch_id="late")

    between = Interposed(h.rival_authority("r"), admit)
    ran = await h.run("w", 0, h.ticker(authority=between))

    assert (between.publications, ran.applied) == (1, 1)
    late = await h.worlds.command("w", "late.0")
    assert late.status == "pending"
    assert (await h.run("w", 1)).applied == 1


async def test_cancelling_all_between_drain_and_publication_leaves_nothing_applied(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0)), Spawn(Place(x=1, y=1))], batch_id="b")

    async def cancel_all():
        await h.worlds.cancel_all("w", "all")

    ran = await h.run("w", 0, h.ticker(authority=Interposed(h.rival_authority("r"), cancel_all)))

    assert (ran.applied, ran.entities) == (0, 0)
    info = await h.worlds.describe("w")
    assert info.pending_commands == 0
    (manifest,) = await manifests("w", h)
    assert manifest.cancelled == ((1, 2),)


async def test_a_cold_process_goes_on_from_exactly_the_published_state(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    for tick in range(150):
        await h.worlds.submit("w", [Spawn(Place(x=tick, y=0), tick=tick)])
    warm = h.ticker("ann")
    await h.run("w", 100, warm)
    assert (await manifests("w", h))[63].checkpoint is not None

    cold = await h.run("w", 149, h.ticker("bob"))

    assert (cold.ticks, cold.entities) == (49, 150)


async def test_a_command_that_kills_its_process_is_found_charged_and_the_others_applied(
    tmp_path, shaky_app, armed
):
    h = harness(tmp_path, shaky_app)
    await h.worlds.create("harbour", world_id="w")
    commands = [Spawn(Place(x=n, y=0)) for n in range(200)]
    commands[137] = Spawn(Shaky(x=-2, y=0))
    await h.worlds.submit("w", commands, batch_id="b")
    armed()

    deaths = 0
    for life in range(20):
        ticker = h.ticker(f"life-{life}")
        try:
            grip = await ticker.take(h.worlds.ref("w"))
            await ticker.tick(h.worlds.ref("w"), grip)
            break
        except ProcessDied:
            deaths += 1
            h.clock.advance(600_000)

    culprit = await h.worlds.command("w", "b.137")
    assert (culprit.status, culprit.code) == ("dead_letter", "writer_died")
    assert (await h.worlds.describe("w")).entities == 199
    assert limits.PROBE_FROM_STARTS < deaths <= limits.PROBE_FROM_STARTS + 4


async def test_deaths_in_compute_charge_nobody_and_the_world_is_reported_stalled(tmp_path):
    app = fresh_app()

    @app.processor(Place)
    def deadly(rows, tick):
        raise ProcessDied

    h = harness(tmp_path, app)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0))], batch_id="b")

    stalled = 0
    for life in range(12):
        ticker = h.ticker(f"life-{life}")
        try:
            grip = await ticker.take(h.worlds.ref("w"))
            await ticker.tick(h.worlds.ref("w"), grip)
        except ProcessDied:
            h.clock.advance(61_000)
        except Stalled:
            stalled += 1
            h.clock.advance(30_000)

    assert stalled > 0
    info = await h.worlds.describe("w")
    assert (info.stalled, info.published_tick, info.pending_commands) == (True, None, 1)
    assert (await h.worlds.command("w", "b.0")).attempts == 0


async def test_ten_thousand_commands_settle_in_one_tick_and_the_rest_in_the_next(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit_many("w", [Spawn(Place(x=n, y=0)) for n in range(10_050)])

    first, second = await h.run("w", 0), await h.run("w", 1)

    assert (first.applied, second.applied, second.entities) == (10_000, 50, 10_050)


async def test_more_pages_than_a_tick_reads_are_left_to_the_next_in_order(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    for number in range(70):
        await h.worlds.submit("w", [Spawn(Place(x=number, y=0), priority=number)])

    first, second = await h.run("w", 0), await h.run("w", 1)

    assert first.applied + second.applied == 70
    assert first.applied == limits.DRAIN_PAGES_MAX


async def test_speed_moves_what_has_it_from_its_first_tick_on(tmp_path):
    app = fresh_app()

    @app.processor(Place, Speed)
    def drift(rows, tick):
        import pyarrow.compute as pc  # noqa: PLC0415

        moved = pc.add(rows["place__x"], rows["speed__x"])
        return rows.set_column(rows.schema.get_field_index("place__x"), "place__x", moved)

    h = harness(tmp_path, app)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0), Speed(x=2, y=0)), Spawn(Place(x=7, y=0))])

    await h.run("w", 2)

    found = await manifests("w", h)
    moved = [table.inline["place__x"] for each in found for table in each.tables]
    assert sorted(moved) == [[2.0], [4.0], [6.0], [7.0]]
    assert found[0].processors == ("drift",)
