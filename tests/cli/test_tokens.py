"""Tokens on the command line: how one is got, how it is given, and what a spent quota says."""

from __future__ import annotations

import json
import stat

import jwt
import pytest
from tests.emulator.deployment import deployed, key_of

pytestmark = pytest.mark.lifecycle

SPAWN = json.dumps({"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}})


def claims_of(token):
    return jwt.decode(token, options={"verify_signature": False})


def test_token_says_who_its_bearer_is_and_how_long_it_is_good(local, perdure, root, harbour):
    run = perdure("token", "--role", "player", "--actor", "ann", "--ttl", "15m", "--root", root)

    claims = key_of(root).claims(run.out.strip())
    assert (run.exit_code, run.err) == (0, "")
    assert (claims["sub"], claims["role"], claims["tenant"]) == ("ann", "player", "default")
    assert claims["exp"] - claims["iat"] == 900


def test_token_comes_as_json_too_and_is_named_as_its_role_by_itself(perdure, root, harbour):
    told = perdure("token", "--role", "viewer", "--root", root, "--json").json

    assert claims_of(told["token"])["sub"] == told["actor"] == "viewer"
    assert told["seconds"] == 3_600


@pytest.mark.parametrize(
    ("options", "exit_code"),
    [
        (("--role", "root"), 2),
        ((), 2),
        (("--role", "player", "--ttl", "soon"), 2),
        (("--role", "player", "--ttl", "0s"), 2),
        (("--role", "player", "--actor", "a/b"), 1),
        (("--role", "player", "--actor", ""), 1),
    ],
)
def test_token_for_nobody_is_not_made(perdure, root, harbour, options, exit_code):
    run = perdure("token", *options, "--root", root)

    assert (run.exit_code, run.out) == (exit_code, "")
    assert run.err.count("\n") == 1


def test_token_of_a_storage_that_is_not_there_makes_nothing(perdure, root):
    run = perdure("token", "--role", "player", "--root", root)

    assert (run.exit_code, run.out) == (3, "")
    assert not root.exists()


def test_key_beside_the_storage_is_for_its_owner_only(perdure, root, harbour):
    perdure("token", "--role", "player", "--root", root)

    (key,) = root.rglob("*.pem")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_storage_in_a_directory_needs_no_token_and_makes_no_key(local, root, harbour, monkeypatch):
    monkeypatch.setenv("PERDURE_TOKEN", "not good")
    monkeypatch.setenv("PERDURE_QUOTA_ADMIN", "1")

    run = local("submit", "harbour", "-", "--json", stdin=f"{SPAWN}\n{SPAWN}")

    assert run.exit_code == 0
    assert list(root.rglob("*.pem")) == []


def test_token_is_taken_from_the_environment_and_its_role_is_obeyed(perdure, root, monkeypatch):
    with deployed(root) as running:
        there = ("--url", str(running.http.base_url))
        nobody = perdure("worlds", *there)
        monkeypatch.setenv(
            "PERDURE_TOKEN", perdure("token", "--role", "viewer", "--root", root).out
        )
        seen = perdure("worlds", "--json", *there)
        denied = perdure("world", "create", "reef", *there)
        expired = key_of(root).token(
            actor="ann", role="admin", tenant="default", now_seconds=1, seconds=1
        )
        late = perdure("worlds", *there, "--token", expired)

    assert (nobody.exit_code, nobody.err.split(":")[1]) == (1, " unauthenticated")
    assert seen.json == {"worlds": []}
    assert (denied.exit_code, denied.err.split(":")[1]) == (1, " not_permitted")
    assert (late.exit_code, late.err.split(":")[1]) == (1, " unauthenticated")
    assert "expired" in late.err


def test_quota_that_ends_later_than_patience_is_told_and_is_unavailable(perdure, root, monkeypatch):
    monkeypatch.setenv("PERDURE_QUOTA_PLAYER", "1")
    monkeypatch.setenv("PERDURE_QUOTA_WINDOW_MS", str(10**12))
    with deployed(root) as running:
        running.http.post("/v1/worlds", json={"name": "reef", "world_id": "reef"})
        token = perdure("token", "--role", "player", "--root", root).out.strip()
        there = ("--url", str(running.http.base_url), "--token", token)
        first = perdure("submit", "reef", "-", *there, stdin=SPAWN)
        second = perdure("submit", "reef", "-", "--batch-id", "b", *there, stdin=SPAWN)

    assert first.exit_code == 0
    assert (second.exit_code, second.out) == (3, "")
    assert second.err.startswith("perdure: quota_exceeded: Expected at most 1 units in ")
    assert second.err.endswith("0 of 1 batches are accepted; to go on: --batch-id b\n")


def test_quota_that_ends_soon_is_waited_for(perdure, root, monkeypatch):
    monkeypatch.setenv("PERDURE_QUOTA_PLAYER", "2")
    monkeypatch.setenv("PERDURE_QUOTA_WINDOW_MS", "2000")
    with deployed(root) as running:
        running.http.post("/v1/worlds", json={"name": "reef", "world_id": "reef"})
        token = perdure("token", "--role", "player", "--root", root).out.strip()
        there = ("--url", str(running.http.base_url), "--token", token)
        runs = [perdure("submit", "reef", "-", *there, stdin=f"{SPAWN}\n{SPAWN}") for _ in range(3)]
        world = running.http.get("/v1/worlds/reef").json()

    assert [run.exit_code for run in runs] == [0, 0, 0]
    assert world["pending_commands"] == 6
