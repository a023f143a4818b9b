"""kill -9 under load: nothing acknowledged is missing, nothing is done twice."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from tests.proof.asking import Line
from tests.proof.history import Recorder, read_history
from tests.proof.load import Load, loaded
from tests.proof.reckoning import reckoned

pytestmark = pytest.mark.proof


def test_kill_9_of_those_who_serve_tick_and_land_loses_and_repeats_nothing(tmp_path):
    load = Load(seed=29, rounds=5, answers=20, callers=8)

    killed = loaded(tmp_path, load)

    reckoning = asyncio.run(reckoned(killed))
    assert reckoning.faults == []
    assert set(killed.kills) == set(load.victims)
    assert reckoning.batches > load.rounds * load.answers // 2
    assert reckoning.replayed > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_kill_9_of_whole_groups_and_of_who_asks_loses_and_repeats_nothing(tmp_path, seed):
    """Functions are processes of their own: who kills the server kills them, too."""
    victims = ("server", "ticker one", "ticker two", "lander", "client")
    load = Load(seed=seed, rounds=25, victims=victims, whole_group=True, options=("--isolate",))

    killed = loaded(tmp_path, load)

    reckoning = asyncio.run(reckoned(killed))
    assert reckoning.faults == []
    assert set(killed.kills) == set(victims)


def test_a_client_asks_again_while_nobody_serves_and_stops_when_it_is_refused(tmp_path):
    answers = [(503, "store_unavailable"), (409, "world_closing"), (500, "asked_too_often")]

    def answer(_request: httpx.Request) -> httpx.Response:
        status, code = answers.pop(0)
        return httpx.Response(status, json={"code": code, "detail": "a detail"})

    async def asked() -> None:
        recorder = Recorder(tmp_path / "history", "client")
        transport = httpx.MockTransport(answer)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
            await Line(http, recorder).admit("b1")

    asyncio.run(asked())

    assert answers == [(500, "asked_too_often")]
    told = [call.code for call in read_history([tmp_path / "history"])]
    assert told == ["store_unavailable", "world_closing"]
