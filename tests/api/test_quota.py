"""Quotas over HTTP: shared by all processes, spent by what is admitted, and never by reading."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from itertools import count, pairwise
from pathlib import Path

import boto3
import pytest
from tests.api.rig import Caller, Context, bearer, spawn
from tests.api.store_rig import commit, create
from tests.support.children import children, let_go
from tests.support.ministack import account

from perdure.authority.dynamodb_wire import table_definition

pytestmark = pytest.mark.lifecycle

ROOT = Path(__file__).parents[2]
COMMANDS = "/v1/worlds/harbour/commands"
LONG_MS = 10**12
"""A window that no test outlives: it ends in 2033."""

_NUMBERS = count(1)


@pytest.fixture
def quota(rig, monkeypatch):
    """Gives players so many units, in a window that does not end."""

    def given(units, role="player"):
        monkeypatch.setenv(f"PERDURE_QUOTA_{role.upper()}", str(units))
        monkeypatch.setenv("PERDURE_QUOTA_WINDOW_MS", str(LONG_MS))
        rig.caller.sandbox._access = None  # as a process that starts now

    return given


def refused(reply, status, code):
    assert (reply.status, reply.body["code"]) == (status, code), reply.body
    return reply


def test_quota_that_is_spent_is_answered_with_when_to_ask_again(rig, harbour, quota):
    quota(3)
    ann = rig.as_("player")
    ann("POST", COMMANDS, {"commands": [spawn()] * 2})
    before = rig.snapshot()

    reply = ann("POST", COMMANDS, {"commands": [spawn()] * 2})

    refused(reply, 429, "quota_exceeded")
    assert 1 <= int(reply.headers["retry-after"]) <= LONG_MS // 1_000
    assert rig.snapshot() == before
    assert ann("POST", COMMANDS, {"commands": [spawn()]}).status == 202


def test_next_window_lets_the_actor_go_on(rig, harbour, quota, monkeypatch):
    quota(1)
    monkeypatch.setenv("PERDURE_QUOTA_WINDOW_MS", "20000")
    ann = rig.as_("player")

    # The clock of the rig moves on by a second with every decision.
    statuses = [ann("POST", COMMANDS, {"commands": [spawn()]}).status for _ in range(50)]

    assert set(statuses) == {202, 429}
    assert all(202 in statuses[first : first + 20] for first in range(30))
    assert (202, 202) not in pairwise(statuses)


def test_nothing_refused_and_nothing_repeated_is_paid_for(rig, harbour, quota):
    quota(2)
    ann = rig.as_("player")
    ann("POST", COMMANDS, {"commands": [spawn()], "batch_id": "b"})

    for _ in range(5):
        again = ann("POST", COMMANDS, {"commands": [spawn()], "batch_id": "b"})
        assert (again.status, again.body["replayed"]) == (202, True)
        refused(
            ann("POST", COMMANDS, {"commands": [spawn()] * 2, "batch_id": "b"}), 409, "conflict"
        )
        refused(ann("POST", COMMANDS, {"commands": [{"operation": "x"}]}), 400, "unknown_operation")
        nowhere = ann("POST", "/v1/worlds/nowhere/commands", {"commands": [spawn()]})
        refused(nowhere, 404, "not_found")

    assert ann("POST", COMMANDS, {"commands": [spawn()]}).status == 202
    refused(ann("POST", COMMANDS, {"commands": [spawn()]}), 429, "quota_exceeded")


def test_commit_to_a_document_store_is_paid_once_and_only_if_it_happens(notes, quota):
    quota(20, role="operator")
    bob = notes.as_("operator", "bob")

    first = commit(bob, create("third"), commit_id="c")
    again = commit(bob, create("third"), commit_id="c")
    refused(commit(bob, create("third")), 409, "address_taken")
    second = commit(bob, create("fourth"))
    before = notes.snapshot()
    refused(commit(bob, create("fifth")), 429, "quota_exceeded")

    assert (first.status, again.body["replayed"], second.status) == (201, True, 201)
    assert notes.snapshot() == before


def test_making_document_stores_and_tables_is_paid_for_once_each(rig, quota):
    quota(109, role="admin")
    ann = rig.as_("admin")

    def made(store):
        return ann("POST", "/v1/stores", {"store_id": store})

    def declared(name):
        shape = {"columns": {"n": "int"}, "key": ["n"]}
        return ann("PUT", f"/v1/stores/one/tables/ann:{name}", shape)

    statuses = [made("one").status, made("one").status, made("two").status]
    refused(declared("a:b"), 400, "invalid_id")
    before = rig.snapshot()
    refused(declared("late"), 429, "quota_exceeded")
    refused(made("three"), 429, "quota_exceeded")

    assert statuses == [201] * 3
    assert rig.snapshot() == before

    quota(110, role="admin")
    assert [declared("tags").status, declared("tags").status] == [200] * 2
    refused(declared("more"), 429, "quota_exceeded")


def test_batch_beyond_the_whole_quota_is_too_large(rig, harbour, quota):
    quota(3)
    before = rig.snapshot()

    reply = rig.as_("player")("POST", COMMANDS, {"commands": [spawn()] * 4})

    refused(reply, 413, "too_large")
    assert "retry-after" not in reply.headers
    assert rig.snapshot() == before


def test_reading_is_never_refused_for_a_quota_and_spends_none(rig, harbour, quota):
    quota(1)
    ann = rig.as_("player")
    ann("POST", COMMANDS, {"commands": [spawn()], "batch_id": "b"})
    refused(ann("POST", COMMANDS, {"commands": [spawn()]}), 429, "quota_exceeded")
    before = rig.snapshot()

    paths = ("/v1/worlds/harbour", "/v1/worlds", COMMANDS, f"{COMMANDS}/b.0", "/healthz")
    statuses = [ann("GET", paths[number % len(paths)]).status for number in range(501)]

    assert statuses == [200] * 501
    assert rig.snapshot() == before


def test_creating_a_world_costs_more_than_a_command(rig, quota):
    quota(99, role="admin")
    ann = rig.as_("admin")

    assert ann("POST", "/v1/worlds", {"name": "one", "world_id": "one"}).status == 201
    assert ann("POST", "/v1/worlds", {"name": "one", "world_id": "one"}).status == 201
    refused(ann("POST", "/v1/worlds", {"name": "two"}), 429, "quota_exceeded")


def test_acknowledging_is_paid_for_once(rig, harbour, quota):
    quota(2, role="operator")
    ann, hook = rig.as_("operator"), "/v1/worlds/harbour/consumers/hook"
    ann("PUT", hook, {})

    statuses = [ann("POST", hook, {"seq": 1}).status for _ in range(3)]
    reply = ann("POST", hook, {"seq": 2})

    assert statuses == [200] * 3
    refused(reply, 429, "quota_exceeded")


def test_zero_is_no_quota(rig, harbour, quota):
    quota(0)

    replies = [rig.as_("player")("POST", COMMANDS, {"commands": [spawn()]}) for _ in range(5)]

    assert {reply.status for reply in replies} == {202}
    assert not [key for key in rig.snapshot() if key.partition.startswith("q/")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PERDURE_QUOTA_PLAYER", "many"),
        ("PERDURE_QUOTA_PLAYER", "-1"),
        ("PERDURE_QUOTA_ADMIN", "1.5"),
        ("PERDURE_QUOTA_WINDOW_MS", "0"),
        ("PERDURE_QUOTA_WINDOW_MS", "٣"),
    ],
)
def test_setting_that_is_no_number_is_the_fault_of_the_deployment(rig, monkeypatch, name, text):
    monkeypatch.setenv(name, text)

    reply = rig.caller("GET", "/healthz")

    assert (reply.status, reply.body["code"]) == (500, "invalid_value")
    assert name in reply.body["expected"]


@pytest.fixture
def on_sqlite(tmp_path):
    (tmp_path / "default").mkdir()
    return {"PERDURE_STORAGE": tmp_path.as_uri()}


@pytest.fixture
def on_aws(request):
    address, name = request.getfixturevalue("aws"), f"quota-{next(_NUMBERS)}"
    variables = {
        "AWS_ACCESS_KEY_ID": account(710),
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
        "PERDURE_STORAGE": f"s3://{name}/worlds",
        "PERDURE_TABLE": name,
    }
    client = boto3.client(
        "dynamodb",
        "us-east-1",
        endpoint_url=address,
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key="secret",
    )
    client.create_table(**table_definition(name))
    client.close()
    return variables


@pytest.mark.parametrize("place", ["on_sqlite", pytest.param("on_aws", marks=pytest.mark.cloud)])
def test_processes_share_one_quota(request, place):
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PERDURE_")}
    environment = {
        **kept,
        **request.getfixturevalue(place),
        "PERDURE_APP": "tests.emulator.harbour:app",
        "PERDURE_QUOTA_PLAYER": "12",
        "PERDURE_QUOTA_WINDOW_MS": str(LONG_MS),
    }
    commands = [
        (sys.executable, "-c", _CHILD.format(sys.path), f"world-{number}") for number in range(2)
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}

    with children(commands, env=environment, **pipes) as rivals:
        let_go(rivals)
        outcomes = [json.loads(rival.communicate(timeout=120)[0]) for rival in rivals]

    assert [rival.returncode for rival in rivals] == [0, 0]
    told = [outcome for each in outcomes for outcome in each]
    assert told.count("admitted") == 12
    assert told.count("quota_exceeded") == len(told) - 12


_CHILD = """
import sys
sys.path[:] = {!r}
from tests.api.test_quota import child
child()
"""


def child():
    """Run one of the processes: as one and the same actor, submit to a world of its own."""
    spec = importlib.util.spec_from_file_location("api", ROOT / "functions" / "api" / "app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ask = Caller(module.sandbox, Context(remaining_ms=29_000))
    name = sys.argv[1]
    while ask("POST", "/v1/worlds", {"name": name, "world_id": name}).status != 201:
        pass
    ask.authorizer = bearer("player")
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    outcomes = []
    while len(outcomes) < 10:
        sent = ask("POST", f"/v1/worlds/{name}/commands", {"commands": [spawn()]})
        outcome = sent.body.get("code", "admitted")
        outcomes += [outcome] if outcome != "contended" else []
    print(json.dumps(outcomes))  # noqa: T201
    module.sandbox.close()
