"""A host's sources: what happens in one batch is one frame, and what fails is attached again."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.following import Reports, Thing, frames, host, turn, until

from perdure.kernel.documents.errors import FollowFailed
from perdure.kernel.errors import NotFound
from perdure.runtime.documents.follow.host import Observation
from perdure.runtime.documents.follow.sources import PENDING_FRAMES_MAX

pytestmark = pytest.mark.stores


async def test_what_is_told_before_the_attachment_is_done_is_applied_in_order():
    thing = Thing({"n": 0})
    thing.early = [[["s", ["n"], 1]], [["s", ["m"], 5], ["s", ["n"], 2]]]
    followed = host()
    source = followed.follow(thing.attach)
    watch = source.watch()

    await followed.activate()

    assert source.value == {"n": 2, "m": 5}
    (frame,) = await frames(watch)
    assert frame.value == {"n": 2, "m": 5}
    assert thing.value == {"n": 0}, "what was attached is not changed"


async def test_a_batch_is_one_frame_and_one_computation():
    one, other = Thing({"n": 1}), Thing({"n": 2})
    followed = host()
    first, second = followed.follow(one.attach), followed.follow(other.attach)
    computed = []

    def total(a, b):
        computed.append((a["n"], b["n"]))
        return a["n"] + b["n"]

    doubled = followed.derive(lambda n: 2 * n, sum_ := followed.derive(total, first, second))
    watches = first.watch(), second.watch(), sum_.watch(), doubled.watch()
    await followed.activate()
    for watch in watches:
        await frames(watch)
    computed.clear()

    with followed.batch.within():
        one.set(10)
        with followed.batch.within():
            other.set(20)
        one.set(11)

    assert computed == [(11, 20)]
    told = [await frames(watch) for watch in watches]
    assert [[frame.value for frame in each] for each in told] == [
        [{"n": 11}],
        [{"n": 20}],
        [31],
        [62],
    ]
    assert told[0][0].ops == (["s", ["n"], 10], ["s", ["n"], 11])
    assert told[2][0].ops == (["r", 31],)


async def test_what_is_derived_along_two_ways_is_computed_behind_the_longer_one():
    near, far = Thing({"n": 1}), Thing({"n": 2})
    followed = host()
    first, second = followed.follow(near.attach), followed.follow(far.attach)
    computed = []
    doubled = followed.derive(lambda value: 2 * value["n"], second)
    both = followed.derive(lambda a, b: computed.append(1) or [a["n"], b], first, doubled)
    await followed.activate()
    computed.clear()

    with followed.batch.within():
        near.set(10)
        far.set(20)

    assert both.value == [10, 40]
    assert len(computed) == 1


async def test_calls_outside_a_batch_are_one_batch_of_the_next_turn():
    one, other = Thing({"n": 1}), Thing({"n": 2})
    followed = host()
    first, second = followed.follow(one.attach), followed.follow(other.attach)
    computed = []
    sum_ = followed.derive(lambda a, b: computed.append(1) or a["n"] + b["n"], first, second)
    await followed.activate()
    computed.clear()

    one.set(10)
    other.set(20)
    one.set(30)
    before = first.value, sum_.value
    await turn()

    assert before == ({"n": 1}, 3)
    assert (first.value, sum_.value, len(computed)) == ({"n": 30}, 50, 1)


async def test_a_call_in_a_batch_applies_what_has_waited_first():
    one, other = Thing({"n": 1}), Thing({"n": 2})
    followed = host()
    first, second = followed.follow(one.attach), followed.follow(other.attach)
    pairs = followed.derive(lambda a, b: [a["n"], b["n"]], first, second)
    await followed.activate()
    watch = pairs.watch()

    one.set(10)
    other.set(10)
    with followed.batch.within():
        one.set(11)
    at_once = pairs.value
    await turn()

    assert at_once == [11, 10]
    assert [frame.value for frame in await frames(watch)] == [[11, 10]]


async def test_a_derived_value_that_stays_is_no_frame():
    thing = Thing({"n": 1})
    followed = host()
    source = followed.follow(thing.attach)
    odd = followed.derive(lambda value: value["n"] % 2, source)
    await followed.activate()
    watch = odd.watch()

    for n in (3, 5, 6, 7):
        thing.set(n)
        await turn()

    assert [frame.value for frame in await frames(watch)] == [0, 1]


@pytest.mark.parametrize("count", [PENDING_FRAMES_MAX, PENDING_FRAMES_MAX + 1, 350])
async def test_a_reader_that_lags_is_told_all_of_a_hundred_frames_or_one_for_all(count):
    thing = Thing({"n": 0})
    followed = host()
    source = followed.follow(thing.attach)
    await followed.activate()
    watch = source.watch()

    for n in range(1, count + 1):
        thing.set(n)
        await turn()

    told = await frames(watch)
    assert told[-1].value == {"n": count}
    assert len(told) <= PENDING_FRAMES_MAX
    values = [frame.value["n"] for frame in told]
    assert values == list(range(values[0], count + 1))
    if count == PENDING_FRAMES_MAX:
        assert values[0] == 1
    else:
        assert told[0].ops == (["r", {"n": values[0]}],)


@pytest.mark.parametrize("kind", ["nothing", "fails"])
async def test_an_attachment_that_fails_detaches_what_was_attached(kind):
    good = Thing({"n": 1})

    async def bad(_):
        if kind == "nothing":
            return
        raise NotFound(expected="a document store that exists", found="none")

    followed = host()
    source = followed.follow(good.attach)
    followed.follow(bad)

    with pytest.raises(FollowFailed) as raised:
        await followed.activate()

    assert (good.attached, good.detached) == (1, 1)
    assert not followed.is_live
    assert ("not_found" in str(raised.value)) is (kind == "fails")
    good.set(2)
    await turn()
    assert source.value is None


async def test_an_attachment_that_is_given_up_detaches_what_was_attached():
    good = Thing({"n": 1})

    async def never(_):
        await asyncio.Event().wait()

    followed = host()
    followed.follow(good.attach)
    followed.follow(never)
    activating = asyncio.create_task(followed.activate())
    await turn()

    activating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await activating

    assert (good.attached, good.detached) == (1, 1)


async def test_sources_that_fail_at_once_fail_the_host_once_and_are_attached_again():
    one, other = Thing({"n": 1}), Thing({"n": 2})
    reports = Reports()
    followed = host(reports)
    first = followed.follow(one.attach)
    followed.follow(other.attach)
    running = asyncio.create_task(followed.run())
    await turn()
    watch = first.watch()

    one.value = {"n": 100}
    with followed.batch.within():
        one.set(50)
        one.observer.failed(OSError("one is gone"))
        other.observer.failed(OSError("other is gone"))
    await until(lambda: one.attached == 2 and followed.is_live)

    assert [str(each) for each in reports.errors] == [
        "Expected what is followed to go on; found OSError: one is gone."
    ]
    assert (one.detached, other.detached, other.attached) == (1, 1, 2)
    assert [frame.value["n"] for frame in await frames(watch)] == [50, 100]
    followed.close()
    await running
    assert (one.detached, other.detached) == (2, 2)


async def test_a_host_waits_longer_after_each_failure_in_a_row():
    tries = []

    async def bad(_):
        tries.append(1)
        if len(tries) == 12:
            followed.close()
        raise NotFound(expected="something", found="nothing")

    reports = Reports()
    followed = host(reports)
    followed.follow(bad)

    await followed.run()

    assert reports.pauses[:4] == [0.05, 0.1, 0.2, 0.4]
    assert max(reports.pauses) == 30
    assert len(reports.errors) == 11, "one that is closed has not failed"


async def test_what_a_derivation_raises_fails_the_attempt():
    thing = Thing({"n": 1})
    reports = Reports()
    followed = host(reports)
    source = followed.follow(thing.attach)
    share = followed.derive(lambda value: 12 // value["n"], source)
    running = asyncio.create_task(followed.run())
    await turn()

    thing.set(0)
    thing.value = {"n": 3}
    await until(lambda: thing.attached == 2 and followed.is_live)

    assert "ZeroDivisionError" in str(reports.errors[0])
    assert share.value == 4
    followed.close()
    await running


async def test_what_a_value_does_not_take_fails_the_attempt():
    thing = Thing({"n": 1})
    followed = host()
    source = followed.follow(thing.attach)
    await followed.activate()

    thing.observer.change([["s", ["no", "way"], 1]])
    await turn()

    assert not followed.is_live
    assert source.value == {"n": 1}
    assert thing.detached == 1


class Incomparable:
    """A value that is no JSON and does not say what it equals, as arrays do not."""

    def __ne__(self, other: object) -> bool:
        raise ValueError("of several truths")

    __hash__ = None  # type: ignore[assignment]  # nothing looks it up


async def test_a_derived_value_that_cannot_be_compared_fails_the_attempt():
    thing = Thing({"n": 1})
    followed = host()
    source = followed.follow(thing.attach)
    derived = followed.derive(lambda value: 1 if value["n"] == 1 else Incomparable(), source)
    await followed.activate()

    with followed.batch.within():
        thing.set(2)

    assert not followed.is_live
    assert not followed.batch.is_running, "the next batch is one"
    assert (source.value, derived.value) == ({"n": 2}, 1)


async def test_a_first_value_that_cannot_be_compared_fails_the_attempt():
    followed = host()
    followed.follow(Thing(Incomparable()).attach)

    with pytest.raises(FollowFailed):
        await followed.activate()

    assert not followed.batch.is_running


@pytest.mark.parametrize("ops", [None, 5, [None]])
async def test_operations_that_are_none_fail_the_attempt_and_not_the_batch(ops):
    thing = Thing({"n": 1})
    followed = host()
    followed.follow(thing.attach)
    await followed.activate()

    with followed.batch.within():
        thing.observer.change(ops)

    assert not followed.is_live
    assert not followed.batch.is_running


async def test_what_cannot_be_let_go_of_is_reported_and_the_rest_is_let_go_of():
    reports = Reports()
    followed = host(reports)

    async def stuck(_observer):
        def detach():
            raise OSError("stuck")

        return Observation(1, detach)

    thing = Thing({"n": 1})
    followed.follow(stuck)
    followed.follow(thing.attach)
    await followed.activate()

    followed.close()

    assert thing.detached == 1
    assert "OSError: stuck" in str(reports.errors[0])
