"""The functions: the very handler files that are deployed, on a storage of their own."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import boto3
import pytest
from tests.api.rig import SCHEDULED, Caller, Context, Reply, bearer, spawn
from tests.support.ministack import account
from tests.support.queue import PaperQueue

from perdure.authority import system
from perdure.authority.dynamodb_wire import table_definition
from perdure.kernel.ids import Instant

ROOT = Path(__file__).parents[2]
_NUMBERS = count(1)


class Functions:
    """Every function's module, loaded from its file when it is first called."""

    def __init__(self, queue: PaperQueue | None = None) -> None:
        self._modules: dict[str, ModuleType] = {}
        self.queue = PaperQueue() if queue is None else queue

    def module(self, name: str) -> ModuleType:
        if name not in self._modules:
            spec = importlib.util.spec_from_file_location(
                f"deployed_{name}", ROOT / "functions" / name / "app.py"
            )
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self._modules[name] = module
        return self._modules[name]

    def http(self, name: str, method: str, path: str, body: Any = None, **options: Any) -> Any:
        context = Context(remaining_ms=29_000)
        reply = Caller(self.module(name).sandbox, context)(method, path, body, **options)
        assert reply.status < 300, reply.body
        return reply.body

    def refused(self, name: str, method: str, path: str, body: Any = None) -> Reply:
        context = Context(remaining_ms=29_000)
        return Caller(self.module(name).sandbox, context)(method, path, body)

    def scheduled(self, name: str, *, remaining_ms: int = 60_000) -> Any:
        return self.module(name).handler(SCHEDULED, Context(remaining_ms=remaining_ms))

    def minute(self) -> list[dict[str, Any]]:
        """Do what happens in a minute: dispatch, and every message that comes of it."""
        self.scheduled("dispatch")
        served = []
        while self.queue.sent:
            event = self.queue.event()
            reply = self.module("tick").handler(event, Context(remaining_ms=60_000))
            served.append({"messages": len(event["Records"]), **reply})
        return served

    def close(self) -> None:
        for module in self._modules.values():
            module.sandbox.close()


@pytest.fixture
def environment(monkeypatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith(("PERDURE_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PERDURE_APP", "tests.emulator.harbour:app")
    return monkeypatch


@pytest.fixture
def in_lambda(environment) -> None:
    environment.setenv("AWS_LAMBDA_FUNCTION_NAME", "perdure-land")
    environment.setenv("POWERTOOLS_SERVICE_NAME", "land")


@pytest.fixture
def on_sqlite(environment, queue, tmp_path) -> Iterator[Functions]:
    (tmp_path / "default").mkdir()
    environment.setenv("PERDURE_STORAGE", tmp_path.as_uri())
    functions = Functions(queue)
    yield functions
    functions.close()


@pytest.fixture
def on_aws(environment, queue, request) -> Iterator[Functions]:
    address, name = request.getfixturevalue("aws"), f"functions-{next(_NUMBERS)}"
    variables = {
        "AWS_ACCESS_KEY_ID": account(700),
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
        "PERDURE_STORAGE": f"s3://{name}/worlds",
        "PERDURE_TABLE": name,
    }
    for variable, value in variables.items():
        environment.setenv(variable, value)
    environment.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps whose it was
    for service in ("dynamodb", "s3"):
        client = boto3.client(service)
        if service == "s3":
            client.create_bucket(Bucket=name)
        else:
            client.create_table(**table_definition(name))
        client.close()
    functions = Functions(queue)
    yield functions
    functions.close()


@pytest.fixture(
    params=["on_sqlite", pytest.param("on_aws", marks=[pytest.mark.cloud, pytest.mark.slow])]
)
def functions(request) -> Functions:
    return request.getfixturevalue(request.param)


def test_functions_together_take_a_command_to_a_landed_row(functions):
    functions.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    body = {"commands": [spawn(), spawn(tick=2)], "batch_id": "b"}
    functions.http("api", "POST", "/v1/worlds/h/commands", body)

    ran = functions.http("tick", "POST", "/v1/worlds/h/tick", {"to_tick": 3})
    asked = {"query": "components=Position&from_tick=0"}
    before = functions.http("query", "GET", "/v1/worlds/h/entities", **asked)
    landed = functions.http("land", "POST", "/v1/land")
    after = functions.http("query", "GET", "/v1/worlds/h/entities", **asked)

    assert (ran["published_tick"], ran["applied"], ran["done"]) == (3, 2, True)
    assert [(row["tick"], row["entity_id"], row["position__x"]) for row in before["rows"]] == [
        (0, 1, 2.0),
        (1, 1, 3.0),
        (2, 1, 4.0),
        (2, 2, 2.0),
        (3, 1, 5.0),
        (3, 2, 3.0),
    ]
    assert (landed["rows"], landed["files"]) == (6, 1)
    assert after == before


@pytest.mark.lifecycle
def test_functions_end_a_world_that_stays_readable_and_is_not_resumed(functions):
    functions.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    functions.http("api", "POST", "/v1/worlds/h/commands", {"commands": [spawn()]})
    functions.http("tick", "POST", "/v1/worlds/h/tick", {"to_tick": 0})

    resumed = functions.http("tick", "POST", "/v1/worlds/h/resume")
    ended = functions.http("tick", "DELETE", "/v1/worlds/h")
    again = functions.http("tick", "DELETE", "/v1/worlds/h")
    refused = Caller(functions.module("tick").sandbox)("POST", "/v1/worlds/h/resume")
    told = functions.http("api", "GET", "/v1/worlds/h")
    asked = {"query": "components=Position"}
    rows = functions.http("query", "GET", "/v1/worlds/h/entities", **asked)["rows"]

    assert (resumed["status"], resumed["published_tick"]) == ("active", 0)
    assert ended["epoch"] == resumed["epoch"] + 1
    assert (ended["status"], again, told) == ("destroyed", ended, ended)
    assert (refused.status, refused.body["code"]) == (410, "world_destroyed")
    assert [row["entity_id"] for row in rows] == [1]


@pytest.mark.lifecycle
def test_schedule_retires_the_private_world_of_a_process_that_was_killed(on_sqlite, tmp_path):
    killed = subprocess.run(
        [sys.executable, "-m", "tests.support.abandoned", tmp_path, "tests.emulator.harbour:app"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        timeout=120,
    )
    left = on_sqlite.http("api", "GET", "/v1/worlds/p")
    listed = on_sqlite.http("api", "GET", "/v1/worlds")["worlds"]
    rival = Caller(on_sqlite.module("tick").sandbox)("POST", "/v1/worlds/p/tick", {"ticks": 1})

    _until(on_sqlite.minute)
    after = on_sqlite.http("api", "GET", "/v1/worlds/p")
    pending = on_sqlite.http("api", "GET", "/v1/worlds/p/commands/b.1")
    asked = {"query": "components=Position"}
    rows = on_sqlite.http("query", "GET", "/v1/worlds/p/entities", **asked)["rows"]

    assert killed.returncode == -signal.SIGKILL
    assert (left["status"], left["published_tick"], listed) == ("active", 0, [])
    assert (rival.status, rival.body["code"]) == (409, "not_resumable")
    assert after["status"] == "destroyed"
    assert (pending["status"], pending["code"]) == ("rejected", "world_destroyed")
    assert [row["entity_id"] for row in rows] == [1]


def _until(found, seconds=120.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = found()
        if answer:
            return answer
        time.sleep(0.2)
    raise AssertionError(f"not within {seconds} s")


def test_schedule_ticks_nobody_and_lands_nothing_when_nothing_is_due(functions):
    functions.http("api", "POST", "/v1/worlds", {"name": "harbour", "every_ms": 86_400_000})

    assert functions.scheduled("dispatch") == {
        "due": 0,
        "failed": [],
        "oldest_due_ms": 0,
        "stalled": 0,
        "done": True,
        "sessions": 0,
        "jobs": 0,
    }
    assert functions.queue.sent == []
    assert functions.scheduled("land") == {
        "rows": 0,
        "files": 0,
        "events": 1,
        "entries": 1,
        "failed": [],
    }
    assert functions.scheduled("land") == {
        "rows": 0,
        "files": 0,
        "events": 0,
        "entries": 0,
        "failed": [],
    }


def test_schedule_lands_what_was_published(on_sqlite):
    on_sqlite.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    on_sqlite.http("api", "POST", "/v1/worlds/h/commands", {"commands": [spawn()]})
    on_sqlite.http("tick", "POST", "/v1/worlds/h/tick", {"to_tick": 4})

    landed, again = on_sqlite.scheduled("land"), on_sqlite.scheduled("land")

    assert landed == {"rows": 5, "files": 1, "events": 3, "entries": 7, "failed": []}
    assert again == {"rows": 0, "files": 0, "events": 0, "entries": 0, "failed": []}


@pytest.mark.lifecycle
def test_functions_together_tell_what_happened_and_hold_a_tick_for_who_must_read(functions):
    world = "/v1/worlds/h"
    functions.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    functions.http("api", "PUT", f"{world}/consumers/hook", {"required": True})
    gone = {"operation": "despawn", "entity_id": 77, "command_id": "gone"}
    body = {"commands": [spawn(), gone, spawn(tick=5)], "batch_id": "b"}
    functions.http("api", "POST", f"{world}/commands", body)
    functions.http("api", "DELETE", f"{world}/commands/b.2")
    empty = functions.http("query", "GET", f"{world}/history")

    functions.http("tick", "POST", f"{world}/tick", {"ticks": 1})
    behind = functions.refused("tick", "POST", f"{world}/tick", {"ticks": 1})
    functions.http("api", "POST", f"{world}/consumers/hook", {"seq": 5})
    functions.http("tick", "POST", f"{world}/tick", {"ticks": 1})
    landed = functions.http("land", "POST", "/v1/land")
    told = functions.http("query", "GET", f"{world}/history")
    applied = functions.http("query", "GET", f"{world}/history", query="kind=applied&to_tick=0")
    listed = functions.http("api", "GET", f"{world}/consumers")["consumers"]

    assert (empty["events"], empty["through_seq"], empty["head_seq"]) == ([], 0, 4)
    assert (behind.status, behind.body["code"]) == (503, "consumer_behind")
    assert int(behind.headers["retry-after"]) >= 1
    assert (landed["events"], landed["entries"]) == (8, 6)
    assert [(each["seq"], each["kind"], each["command_id"]) for each in told["events"]] == [
        (1, "created", None),
        (2, "configured", None),
        (3, "queued", "b.0"),
        (3, "queued", "gone"),
        (3, "queued", "b.2"),
        (4, "cancelled", "b.2"),
        (5, "applied", "b.0"),
        (5, "rejected", "gone"),
    ]
    assert [each["command_id"] for each in applied["events"]] == ["b.0"]
    assert [(each["name"], each["lag"], each["required"]) for each in listed] == [
        ("audit", 0, False),
        ("hook", 1, True),
        ("landing", 0, False),
    ]


@pytest.mark.lifecycle
def test_the_schedule_prints_the_lag_of_each_consumer_as_a_metric(on_sqlite, in_lambda, capsys):
    on_sqlite.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    on_sqlite.http("api", "PUT", "/v1/worlds/h/consumers/hook", {})
    on_sqlite.http("tick", "POST", "/v1/worlds/h/tick", {"ticks": 2})

    on_sqlite.scheduled("land")

    assert told_lags(capsys) == {"audit": [0.0], "hook": [4.0], "landing": [0.0]}


@pytest.mark.lifecycle
def test_the_lag_of_a_consumer_that_holds_a_world_is_told_as_long_as_it_does(
    on_sqlite, environment, in_lambda, capsys
):
    begin, late_ms = system.now(), 0
    environment.setattr(system, "now", lambda: Instant(begin + late_ms))
    minute = {"name": "harbour", "world_id": "h", "every_ms": 60_000}
    on_sqlite.http("api", "POST", "/v1/worlds", minute)
    on_sqlite.http("api", "PUT", "/v1/worlds/h/consumers/hook", {"required": True})
    late_ms = 60_000
    on_sqlite.minute()
    on_sqlite.scheduled("land")
    late_ms = 600_000
    (held,) = on_sqlite.minute()
    on_sqlite.scheduled("land")
    capsys.readouterr()

    copied = on_sqlite.scheduled("land")

    assert (held["messages"], len(held["batchItemFailures"])) == (1, 1)
    assert not any(copied.values())
    assert told_lags(capsys) == {"audit": [0.0], "hook": [3.0], "landing": [0.0]}


def told_lags(capsys) -> dict[str, list[float]]:
    """Read the metrics that were printed."""
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    lines = [each for each in printed if "consumer" in each]
    assert all('"Dimensions": [["consumer"]]' in json.dumps(each) for each in lines)
    return {each["consumer"]: each["consumer_lag"] for each in lines}


def test_tick_without_time_publishes_nothing_and_says_that_it_is_not_done(on_sqlite):
    on_sqlite.http("api", "POST", "/v1/worlds", {"name": "harbour", "world_id": "h"})
    hurried = Caller(on_sqlite.module("tick").sandbox, Context(remaining_ms=500))

    ran = hurried("POST", "/v1/worlds/h/tick", {"to_tick": 3}).body

    assert (ran["ticks"], ran["done"], ran["published_tick"]) == (0, False, None)


def test_function_without_a_storage_answers_that_it_is_its_own_fault(environment):
    functions = Functions()

    reply = Caller(functions.module("api").sandbox)("GET", "/healthz")

    functions.close()
    assert (reply.status, reply.body["code"]) == (500, "invalid_value")
    assert "PERDURE_STORAGE" in reply.body["expected"]


def test_handler_files_are_json_in_and_json_out(on_sqlite):
    event = {
        "version": "2.0",
        "routeKey": "GET /healthz",
        "rawPath": "/healthz",
        "rawQueryString": "",
        "headers": {"host": "id.execute-api.us-east-1.amazonaws.com"},
        "requestContext": {
            "authorizer": bearer("viewer"),
            "http": {"method": "GET", "path": "/healthz"},
            "stage": "$default",
        },
        "isBase64Encoded": False,
    }

    reply = on_sqlite.module("api").handler(event, Context())

    assert json.loads(json.dumps(reply)) == {
        "statusCode": 200,
        "headers": {"content-type": "application/json", "x-correlation-id": "request-1"},
        "body": '{"status":"ok"}',
        "isBase64Encoded": False,
    }
