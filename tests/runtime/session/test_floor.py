"""The floor of a storage names every feature that a journal in it needs, before anybody reads one."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.sessions import STORAGE, _unpacked, counting, sessions_on, within

from perdure.authority.memory import MemoryStore
from perdure.kernel.caller import Caller
from perdure.kernel.floor import Floor
from perdure.kernel.places import catalog_partition
from perdure.kernel.session.features import CANCEL_V1, MODULE_V1, SCOPE_V1, STEER_V1
from perdure.runtime.session.model_scripted import calling

pytestmark = pytest.mark.sessions

ANN = Caller(actor="ann", origin="gateway")


def floor_in(store):
    for key, stored in store._records.items():
        if (key.partition, key.sort) == (catalog_partition(STORAGE), "floor"):
            return Floor.read(key.partition, key.sort, _unpacked(stored.body))
    return None


def launching(request, said):
    return calling(("launch", {})) if said == 0 else "Done."


def test_what_a_journal_first_needs_is_in_the_floor_with_that_very_commit():
    store = MemoryStore()
    floors = []

    async def told():
        sessions = sessions_on(store, script=launching, tools=[counting("launch")])

        def look():
            found = floor_in(store)
            floors.append(set() if found is None else set(found.features))

        await sessions.create("pilot", session_id="talk", by=ANN)
        look()
        await sessions.send("talk", "go", send_id="go", by=ANN)
        look()
        await sessions.send("talk", "north", delivery="steer", by=ANN)
        look()
        await sessions.drive("talk", deadline=within(sessions))
        look()
        await sessions.send("talk", "again", send_id="again", by=ANN)
        await sessions.cancel("talk", "again", by=ANN)
        look()

    asyncio.run(told())

    assert floors[0] == set()
    assert floors[1] == {SCOPE_V1}
    assert floors[2] == {SCOPE_V1, STEER_V1}
    assert floors[3] == {SCOPE_V1, STEER_V1, MODULE_V1}
    assert floors[4] == {SCOPE_V1, STEER_V1, MODULE_V1, CANCEL_V1}
