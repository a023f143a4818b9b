"""Creation raced for: one winner, whole, and losers who are told why."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.support.lifecycle import opening_on
from tests.support.steps import Died, SteppedStore, Steps

from perdure.authority.engine import Authority
from perdure.kernel.create import CreateWorld
from perdure.kernel.errors import NameTaken, NotFound, Refused
from perdure.kernel.ids import RunId
from perdure.kernel.records import name_key
from perdure.kernel.view import Reads

pytestmark = pytest.mark.lifecycle

RACERS = 8
RACES = [
    ("harbour", "w{}", "name_taken"),
    ("harbour-{}", "w", "conflict"),
]
"""The name and the id that each racer asks for, and what the losers are told."""


@pytest.mark.cloud
@pytest.mark.parametrize(("name", "world", "told"), RACES, ids=["one name", "one id"])
async def test_writers_of_one_table_create_one_world_and_seven_are_refused(
    aws, tmp_path, name, world, told
):
    async with opening_on("dynamodb", tmp_path, aws)() as h:

        async def races(n):
            authority = Authority(await h.open_store(), h.clock, h.new_token)
            ref = h.worlds.ref(world.format(n))
            request = CreateWorld(ref, name.format(n), RunId(f"run-{n}"))
            try:
                await authority.execute(request.checked())
            except Refused as refused:
                return refused.code
            return "created"

        answers = Counter(await asyncio.gather(*(races(n) for n in range(RACERS))))
        found, _ = await h.worlds.discover(show="all")

    assert answers == {"created": 1, told: RACERS - 1}
    assert len(found) == 1


@pytest.mark.parametrize("after", [False, True])
async def test_a_creation_whose_process_dies_is_whole_or_was_never_there(opening, after):
    async with opening() as h:
        dying = Authority(SteppedStore(h.store, Steps(1, after=after)), h.clock, h.new_token)
        request = CreateWorld(h.worlds.ref("w"), "harbour", RunId("run"))

        with pytest.raises(Died):
            await dying.execute(request)
        claim = name_key(h.worlds.ref("w").catalog, "harbour")
        claimed = (await h.authority.view(Reads(peeks=(claim,)))).peek(claim)
        found, _ = await h.worlds.discover(show="all")

        if after:
            assert [info.world_id for info in found] == ["w"]
            with pytest.raises(NameTaken):
                await h.worlds.create("harbour", world_id="v")
        else:
            assert (claimed, found) == (None, [])
            with pytest.raises(NotFound):
                await h.worlds.describe("w")
            await h.worlds.create("harbour", world_id="v")
