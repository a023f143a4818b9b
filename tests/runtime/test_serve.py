"""Serving a schedule: each of its times once, as many as there is time for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.runtime.harness import Harness, Place, fresh_app, harness

from perdure import Spawn
from perdure.kernel.errors import FenceHeld, OutcomeUnknown, TickFailed
from perdure.kernel.ids import Instant
from perdure.kernel.publish import Publish
from perdure.kernel.records import head_key
from perdure.kernel.rest import ReadAgenda
from perdure.kernel.view import Reads
from perdure.runtime.dispatch import Due
from perdure.runtime.run import TICK_RESERVE_MS
from perdure.runtime.serve import PATIENCE_MS, serve

pytestmark = pytest.mark.cloud


async def clockwork(tmp_path, every_ms=60_000, app=None, **options) -> tuple[Harness, Due]:
    """Return a storage with a scheduled world, and its first time."""
    h = harness(tmp_path, app)
    await h.worlds.create("clockwork", world_id="w", every_ms=every_ms, **options)
    return h, Due(h.worlds.ref("w"), Instant(h.clock.time + every_ms))


async def served(h: Harness, due: Due, *, holder="ann", ms=600_000, ticker=None):
    deadline = Instant(h.clock.time + ms)
    return await serve(ticker or h.ticker(holder), due, deadline=deadline)


async def fence(h: Harness):
    key = head_key(h.worlds.ref("w").partition)
    return (await h.authority.view(Reads(keys=(key,)))).get(key).fence


async def next_at(h: Harness):
    return (await h.authority.execute(ReadAgenda(h.worlds.ref("w")))).schedule.next_at


async def manifests(h: Harness):
    """Return the ticks that are published."""
    entries = [each for each in await h.worlds.log("w") if each.kind == "published"]
    return [each.facts["tick"] for each in entries]


async def test_one_time_of_the_schedule_is_one_tick_and_the_fence_is_free_after_it(tmp_path):
    h, due = await clockwork(tmp_path)
    h.clock.advance(60_000)

    done = await served(h, due)

    (report,) = done.ticks
    assert (report.tick, report.missed, done.again, done.early_ms) == (0, 0, None, 0)
    assert (await fence(h)).holder is None


async def test_the_same_message_again_or_an_old_one_does_nothing(tmp_path):
    h, due = await clockwork(tmp_path)
    h.clock.advance(60_000)
    first = await served(h, due)
    h.clock.advance(60_000)
    epoch = (await fence(h)).epoch

    again = await served(h, due, holder="bob")
    unheard = await served(h, replace(due, serves=Instant(due.serves + 1)), holder="bob")

    assert [len(each.ticks) for each in (first, again, unheard)] == [1, 0, 0]
    assert (await fence(h)).epoch == epoch
    assert await manifests(h) == [0]


async def test_a_world_that_is_not_there_or_has_no_schedule_is_served_nothing(tmp_path):
    h, due = await clockwork(tmp_path)
    await h.worlds.create("harbour", world_id="still")

    gone = await served(h, replace(due, ref=h.worlds.ref("nobody")))
    still = await served(h, replace(due, ref=h.worlds.ref("still")))

    assert (gone.ticks, still.ticks) == ((), ())


@pytest.mark.parametrize("early_ms", [PATIENCE_MS + 1, 20_000])
async def test_before_its_time_a_world_is_left_alone(tmp_path, early_ms):
    h, due = await clockwork(tmp_path)
    h.clock.advance(60_000 - early_ms)

    done = await served(h, due)

    assert (done.ticks, done.early_ms) == ((), early_ms)
    assert await manifests(h) == []


async def test_a_time_that_is_near_is_waited_for(tmp_path):
    h, due = await clockwork(tmp_path)
    h.clock.advance(60_000 - PATIENCE_MS)
    ticker, waits = h.ticker(), []

    async def pause(seconds):
        waits.append(seconds)
        h.clock.advance(round(seconds * 1_000))

    ticker._means = replace(ticker.means, pause=pause)

    done = await served(h, due, ticker=ticker)

    assert waits == [PATIENCE_MS / 1_000]
    assert [each.tick for each in done.ticks] == [0]


async def test_ticks_that_were_missed_fall_into_one(tmp_path):
    h, due = await clockwork(tmp_path)
    h.clock.advance(6 * 60_000 - 1)

    done = await served(h, due)

    assert [(each.tick, each.missed) for each in done.ticks] == [(0, 4)]
    assert await next_at(h) == due.serves + 5 * 60_000


async def test_a_world_that_catches_up_ticks_for_each_time_under_one_fence(tmp_path):
    h, due = await clockwork(tmp_path, missed="catch_up")
    h.clock.advance(3 * 60_000)

    done = await served(h, due)

    assert [(each.tick, each.missed) for each in done.ticks] == [(0, 0), (1, 0), (2, 0)]
    assert (await fence(h)).epoch == 1
    assert (await fence(h)).holder is None
    assert await next_at(h) == due.serves + 3 * 60_000
    assert done.again is None


async def test_catching_up_ends_with_the_time_there_is_and_asks_to_go_on(tmp_path):
    h, due = await clockwork(tmp_path, missed="catch_up")
    h.clock.advance(3 * 60_000)

    done = await served(h, due, ms=TICK_RESERVE_MS)
    rest = await served(h, done.again, holder="bob")

    assert [each.tick for each in done.ticks] == [0]
    assert done.again.serves == due.serves + 60_000
    assert [each.tick for each in rest.ticks] == [1, 2]
    assert (await fence(h)).holder is None


async def test_while_a_world_catches_up_nobody_else_may_write_it(tmp_path):
    app, holders = fresh_app(), []

    @app.processor(Place, name="looks")
    async def looks(rows, tick):
        holders.append((await fence(h)).holder)
        return rows

    h, due = await clockwork(tmp_path, app=app, missed="catch_up")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0))])
    h.clock.advance(3 * 60_000)

    await served(h, due)

    assert holders == ["ann", "ann", "ann"]
    assert (await fence(h)).holder is None


async def test_no_tick_is_begun_when_the_time_is_over(tmp_path):
    app = fresh_app()

    @app.processor(Place, name="slow")
    def slow(rows, tick):
        h.clock.advance(30_000)
        return rows

    h, due = await clockwork(tmp_path, app=app, missed="catch_up")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0))])
    h.clock.advance(5 * 60_000)

    done = await served(h, due, ms=2 * TICK_RESERVE_MS)

    assert [each.tick for each in done.ticks] == [0]
    assert done.again.serves == due.serves + 60_000
    assert (await fence(h)).holder is None


async def test_a_message_for_what_was_served_lays_its_hint_to_rest(tmp_path):
    h, _ = await clockwork(tmp_path, 600_000)
    h.clock.advance(600_000)
    (found,) = (await h.look()).due
    await served(h, replace(found, hint=None))

    again = await served(h, found, holder="bob")

    assert again.ticks == ()
    assert found.hint not in [hint.sort for hint in await h.hints()]
    assert (await h.look()).due == ()


async def test_a_publish_that_got_no_answer_is_one_tick_and_leaves_the_rest_to_dispatch(tmp_path):
    h, due = await clockwork(tmp_path, 5_000)
    h.clock.advance(5_000)
    ticker = h.ticker(authority=Unanswered(h.authority))

    done = await served(h, due, ticker=ticker)
    h.clock.advance(60_000)

    assert ([each.tick for each in done.ticks], done.again) == ([0], None)
    assert [each.serves for each in (await h.look()).due] == [due.serves + 5_000]


class Unanswered:
    """An authority whose first publish is done, and not answered."""

    def __init__(self, authority):
        self._authority = authority
        self._lost = False

    async def execute(self, request):
        reply = await self._authority.execute(request)
        if isinstance(request, Publish) and not self._lost:
            self._lost = True
            raise OutcomeUnknown(expected="an answer", found="none")
        return reply


@pytest.mark.parametrize(("every_ms", "asks"), [(60_000, False), (5_000, True)])
async def test_a_world_that_skips_is_not_ticked_late_but_at_its_next_time(tmp_path, every_ms, asks):
    h, due = await clockwork(tmp_path, every_ms, missed="skip")
    h.clock.advance(every_ms + 130_000)

    done = await served(h, due)
    following = await next_at(h)
    h.clock.time = following
    after = await served(h, replace(due, serves=following))

    assert done.ticks == ()
    assert due.serves + 130_000 < following <= due.serves + 130_000 + every_ms
    assert (done.again is not None) == asks
    assert [each.missed for each in after.ticks] == [(following - due.serves) // every_ms]


async def test_what_ticks_more_often_than_a_dispatch_comes_asks_for_its_next_time(tmp_path):
    h, due = await clockwork(tmp_path, 5_000)
    h.clock.advance(5_000)

    first = await served(h, due)
    h.clock.advance(5_000)
    second = await served(h, first.again, holder="bob")

    assert (first.again.serves, first.again.hint) == (due.serves + 5_000, None)
    assert [each.tick for each in second.ticks] == [1]
    assert len({due.attempt, first.again.attempt, second.again.attempt}) == 3


async def test_the_hint_that_a_message_came_by_is_laid_to_rest_by_who_served_it(tmp_path):
    h, _ = await clockwork(tmp_path)
    h.clock.advance(60_000)
    found = await h.look()

    await served(h, found.due[0])

    (hint,) = await h.hints()
    assert hint.at > h.clock.time
    assert (await h.look()).due == ()


async def test_a_processor_that_fails_leaves_the_world_due_and_its_fence_free(tmp_path):
    app = fresh_app()

    @app.processor(name="broken")
    def broken(rows, tick):
        raise RuntimeError("out of order")

    h, due = await clockwork(tmp_path, app=app)
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0))])
    h.clock.advance(60_000)

    with pytest.raises(TickFailed):
        await served(h, due)

    assert (await fence(h)).holder is None
    assert [each.serves for each in (await h.look()).due] == [due.serves]


async def test_a_fence_that_is_held_is_told_and_nothing_is_done(tmp_path):
    h, due = await clockwork(tmp_path)
    h.clock.advance(60_000)
    await h.ticker("rival").take(due.ref)

    with pytest.raises(FenceHeld):
        await served(h, due)

    assert await manifests(h) == []


async def test_who_dies_behind_the_publish_is_followed_by_a_dispatch(tmp_path):
    h, due = await clockwork(tmp_path, 5_000)
    h.clock.advance(5_000)
    await served(h, due)  # what it asked for next is lost with it
    h.clock.advance(60_000)

    found = await h.look()

    assert [each.serves for each in found.due] == [due.serves + 5_000]
