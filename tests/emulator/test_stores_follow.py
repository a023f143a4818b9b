"""A document is followed over one connection of the emulator, and again behind its last event."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.emulator.deployment import Deployment, deployed

pytestmark = [pytest.mark.cloud, pytest.mark.stores, pytest.mark.slow]

NOTE = {"owner": "app", "namespace": "main", "kind": "note", "key": "a"}
FOLLOW = "/v1/stores/notes/follow"


@pytest.fixture
def running(tmp_path):
    with deployed(tmp_path / "root", log=tmp_path / "log") as running:
        assert running.http.post("/v1/stores", json={"store_id": "notes"}).status_code == 201
        yield running


def commit(running: Deployment, *writes: dict[str, Any]) -> dict[str, Any]:
    made = running.http.post("/v1/stores/notes/commits", json={"writes": writes})
    assert made.status_code == 201, made.text
    return made.json()


def set_to(n: int) -> dict[str, Any]:
    return {"write": "document.change", "id": 2, "ops": [["s", ["n"], n]]}


@contextmanager
def following(running: Deployment, **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
    """Yield the events of the note as they come."""
    asked = {"Accept": "text/event-stream", **headers}
    with running.http.stream("GET", FOLLOW, params=NOTE, headers=asked, timeout=120) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"] == "text/event-stream"
        yield events(reply.iter_lines())


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    said: dict[str, Any] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name:
            said[name] = value
        else:
            if "data" in said:
                yield {**said, "data": json.loads(said["data"])}
            said = {}


def test_a_document_is_followed_from_before_it_begins_to_its_end(running):
    with following(running) as told:
        first = next(told)
        commit(running, {"write": "document.create", **NOTE, "value": {"n": 0}})
        begun = next(told)
        commit(running, {"write": "document.create", **NOTE, "key": "b", "value": 1})
        commit(running, set_to(1))
        changed = next(told)

    for n in (2, 3):
        commit(running, set_to(n))
    with following(running, **{"Last-Event-ID": changed["id"]}) as told:
        missed = [next(told), next(told)]
        commit(running, set_to(4))
        live = next(told)
        commit(running, {"write": "document.retire", "id": 2})
        rest = list(told)

    assert (first["event"], first["data"]["document"]) == ("snapshot", None)
    assert begun["data"]["ops"][0][1]["value"] == {"n": 0}
    told_seqs = [each["data"]["seq"] for each in (begun, changed, *missed, live)]
    assert told_seqs == [1, 3, 4, 5, 6]
    assert [each["data"]["ops"][0][2] for each in (changed, *missed, live)] == [1, 2, 3, 4]
    assert [each["event"] for each in rest] == ["retired"]


def test_a_stream_that_is_open_does_not_keep_the_emulator(running):
    with following(running) as told:
        next(told)
        code, _, _ = running.stop(signal.SIGINT)

    assert code == 0


def test_a_store_that_is_not_there_is_not_followed(running):
    reply = running.http.get(
        "/v1/stores/none/follow", params=NOTE, headers={"Accept": "text/event-stream"}
    )

    assert (reply.status_code, reply.json()["code"]) == (404, "not_found")
