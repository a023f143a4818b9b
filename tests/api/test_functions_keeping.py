"""The deployed functions on a world whose past was trimmed: every route answers as before."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from functools import partial

import pytest
from tests.api.rig import spawn
from tests.api.test_functions import (  # noqa: F401  # fixtures
    environment,
    functions,
    in_lambda,
    on_aws,
    on_sqlite,
    told_lags,
)

from perdure.api import wiring_lake
from perdure.api.settings import settings
from perdure.api.watch import InvocationFailed
from perdure.api.wiring import opened_authority
from perdure.authority import system
from perdure.kernel import limits
from perdure.kernel.errors import StoreUnavailable
from perdure.kernel.ids import Holder, short_hash
from perdure.kernel.landing import TakeLandingFence
from perdure.runtime.project import Projection
from perdure.runtime.trim import Trimming

pytestmark = pytest.mark.lifecycle

DAY_MS = 24 * 3_600_000


@pytest.fixture
def time_passes(monkeypatch):
    """Let a day pass when called; checkpoints are frequent and archives small."""
    start, passed = system.now, [0]
    monkeypatch.setattr(system, "now", lambda: start() + passed[0])
    monkeypatch.setattr(limits, "CHECKPOINT_TICKS", 2)
    monkeypatch.setattr(wiring_lake, "Trimming", partial(Trimming, block_entries=3))

    def pass_a_day():
        passed[0] += DAY_MS + 1

    return pass_a_day


def read(functions):  # noqa: F811
    """Ask every route that reads."""
    http = functions.http
    paths = ("", "/log", "/commands", "/commands/b.0")
    told = [http("api", "GET", f"/v1/worlds/h{path}") for path in paths]
    rows = [
        http("query", "GET", "/v1/worlds/h/entities", query=f"components=Position&tick={tick}")
        for tick in range(4)
    ]
    return told, rows


def test_every_route_answers_after_a_trim_as_before_it(functions, time_passes):  # noqa: F811
    functions.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    body = {"commands": [spawn() for _ in range(800)], "batch_id": "b"}
    functions.http("api", "POST", "/v1/worlds/h/commands", body)
    functions.http("tick", "POST", "/v1/worlds/h/tick", {"to_tick": 3})
    functions.http("land", "POST", "/v1/land")
    before = read(functions)
    time_passes()

    trimmed = functions.http("land", "POST", "/v1/trim", {})
    after = read(functions)
    verified = functions.http("tick", "POST", "/v1/worlds/h/verify", {})
    functions.http("tick", "POST", "/v1/worlds/h/tick", {"to_tick": 4})

    assert trimmed["segments"] > 0
    assert (trimmed["archived"], trimmed["orphans"], trimmed["next"]) == (3, 0, None)
    assert after == before
    assert verified == {"checked_ticks": 4, "next_tick": None, "findings": []}


def test_the_schedule_that_lands_also_trims_where_it_is_told_to(
    environment,  # noqa: F811
    functions,  # noqa: F811
    time_passes,
):
    environment.setenv("PERDURE_TRIM", "1h")
    functions.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    body = {"commands": [spawn() for _ in range(800)], "batch_id": "b"}
    functions.http("api", "POST", "/v1/worlds/h/commands", body)
    functions.http("tick", "POST", "/v1/worlds/h/tick", {"to_tick": 3})
    time_passes()

    functions.scheduled("land")
    left = functions.http("land", "POST", "/v1/trim", {"grace": "1h"})

    assert (left["segments"], left["archived"]) == (0, 0)
    assert functions.http("tick", "POST", "/v1/worlds/h/verify", {})["findings"] == []


@pytest.mark.cloud
def test_a_schedule_that_finds_another_landing_fails_nobody_and_projects_all_the_same(on_sqlite):  # noqa: F811
    on_sqlite.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    on_sqlite.http("tick", "POST", "/v1/worlds/h/tick", {"to_tick": 2})
    hold(TakeLandingFence(settings().storage, Holder("a long one"), 60_000))

    left = on_sqlite.scheduled("land")
    read = on_sqlite.http("query", "GET", "/v1/worlds/h/history")

    assert left == {
        "rows": 0,
        "files": 0,
        "events": 0,
        "entries": 0,
        "failed": [],
        "left": "fence_held",
    }
    assert read["through_seq"] == read["head_seq"]


def hold(request):
    """Take a fence in another process's name."""

    async def taken():
        async with opened_authority(settings()) as authority:
            await authority.execute(request)

    asyncio.run(taken())


@pytest.mark.parametrize(
    ("partition", "sort"), [("w/%/", "head"), ("m/%/", "manifest/%")], ids=["head", "manifest"]
)
def test_schedule_lands_the_others_when_one_world_cannot_be_read_and_names_it(
    on_sqlite,  # noqa: F811
    in_lambda,  # noqa: F811
    capsys,
    tmp_path,
    partition,
    sort,
):
    for world in ("a", "b"):
        on_sqlite.http("api", "POST", "/v1/worlds", {"name": world, "world_id": world})
        on_sqlite.http("api", "POST", f"/v1/worlds/{world}/commands", {"commands": [spawn()]})
        on_sqlite.http("tick", "POST", f"/v1/worlds/{world}/tick", {"to_tick": 0})
    (catalog,) = tmp_path.glob("default/.*.db")
    with closing(sqlite3.connect(catalog, isolation_level=None)) as database:
        spoiled = database.execute(
            "UPDATE record SET body = ? WHERE partition LIKE ? AND sort LIKE ?",
            (b"{}", partition + short_hash("a"), sort),
        )
        assert spoiled.rowcount == 1
    capsys.readouterr()

    landed = on_sqlite.scheduled("land")

    assert (landed["rows"], landed["failed"]) == (1, ["a: corrupt"])
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["worlds_failed"] for each in printed if "worlds_failed" in each] == [[1.0]]


@pytest.mark.lifecycle
def test_the_lag_is_told_of_a_landing_that_fails_too(
    on_sqlite,  # noqa: F811
    environment,  # noqa: F811
    in_lambda,  # noqa: F811
    capsys,
):
    on_sqlite.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})

    on_sqlite.scheduled("land")
    on_sqlite.http("api", "PUT", "/v1/worlds/h/consumers/hook", {})
    capsys.readouterr()

    async def fails(*_, **__):
        raise StoreUnavailable(expected="tables that answer", found="none")

    environment.setattr(Projection, "project", fails)
    with pytest.raises(InvocationFailed, match="store_unavailable"):
        on_sqlite.scheduled("land")

    assert told_lags(capsys) == {"audit": [1.0], "hook": [2.0]}
