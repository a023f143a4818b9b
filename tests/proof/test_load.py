"""kill -9 under load: nothing acknowledged is missing, nothing is done twice."""

from __future__ import annotations

import asyncio

import pytest
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
