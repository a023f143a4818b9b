"""What is followed ends once, behind its last change; a host that closes ends everything."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.following import Thing, frames, host, turn, until, until_end

from perdure.kernel.documents.errors import StoreClosed

pytestmark = pytest.mark.stores


async def test_the_last_change_reaches_watches_before_the_end():
    thing, steady = Thing({"n": 1}), Thing({"n": 5})
    followed = host()
    source, other = followed.follow(thing.attach), followed.follow(steady.attach)
    both = followed.derive(lambda a, b: [a, b["n"]], source, other)
    alone = followed.derive(lambda a: a is None, source)
    await followed.activate()
    watch, of_both, of_alone = source.watch(), both.watch(), alone.watch()

    thing.set(2)
    thing.observer.change([["r", None]])
    thing.observer.ended()
    thing.set(3)
    await turn()
    steady.set(6)
    await turn()

    assert [frame.value for frame in await until_end(watch)] == [None]
    assert [frame.value for frame in await until_end(of_alone)] == [True]
    assert [frame.value for frame in await frames(of_both)] == [[None, 5], [None, 6]]
    assert (source.value, source.has_ended, both.has_ended) == (None, True, False)
    assert thing.detached == 1


async def test_a_watch_on_what_has_ended_opens_at_its_last_value_and_ends():
    thing = Thing({"n": 1})
    followed = host()
    source = followed.follow(thing.attach)
    await followed.activate()
    thing.set(2)
    thing.observer.ended()
    await turn()

    watch = source.watch()

    assert watch.value == {"n": 2}
    assert await until_end(watch) == []


async def test_what_has_ended_is_not_attached_again():
    ended, lives = Thing({"n": 1}), Thing({"n": 2})
    followed = host()
    source = followed.follow(ended.attach)
    followed.follow(lives.attach)
    running = asyncio.create_task(followed.run())
    await turn()
    ended.observer.ended()
    await turn()

    lives.observer.failed(OSError("away"))
    await until(lambda: lives.attached == 2 and followed.is_live)

    assert (ended.attached, ended.detached) == (1, 1)
    assert source.value == {"n": 1}
    followed.close()
    await running


async def test_a_host_that_closes_ends_every_watch_and_hears_nothing_more():
    thing = Thing({"n": 1})
    followed = host()
    source = followed.follow(thing.attach)
    await followed.activate()
    watch = source.watch()
    reading = asyncio.create_task(until_end(watch))
    await turn()

    followed.close()
    followed.close()
    thing.set(2)
    await turn()

    assert await reading == []
    assert source.value == {"n": 1}
    assert thing.detached == 1
    with pytest.raises(StoreClosed):
        await followed.activate()


async def test_a_host_that_closes_while_it_attaches_lets_go_of_what_comes():
    thing = Thing({"n": 1})
    followed = host()
    followed.follow(thing.attach)
    activating = asyncio.create_task(followed.activate())
    await asyncio.sleep(0)

    followed.close()
    await activating

    assert (thing.attached, thing.detached) == (1, 1)
    assert not followed.is_live


async def test_a_watch_that_is_stopped_drops_what_waits():
    thing = Thing({"n": 1})
    followed = host()
    source = followed.follow(thing.attach)
    await followed.activate()
    watch = source.watch()
    thing.set(2)
    await turn()

    watch.stop()
    thing.set(3)
    await turn()

    assert await until_end(watch) == []


async def test_one_of_two_readers_that_gives_up_waits_no_more():
    thing = Thing({"n": 1})
    followed = host()
    source = followed.follow(thing.attach)
    await followed.activate()
    watch = source.watch()
    reading = asyncio.create_task(anext(watch))
    await turn()

    reading.cancel()
    await turn()
    thing.set(2)
    await turn()

    assert [frame.value for frame in await frames(watch)] == [{"n": 2}]
    assert source.awaited == set()
