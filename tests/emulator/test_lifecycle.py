"""The life of a world as a client of the deployment sees it, over HTTP."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.lifecycle

SPAWN = {"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}}


def listed(http, **query):
    reply = http.get("/v1/worlds", params={"limit": 1_000, **query})
    assert reply.status_code == 200, reply.text
    return {world["world_id"] for world in reply.json()["worlds"]}


def test_an_ended_world_is_history(http, world):
    name = world.rpartition("/")[2]
    http.post(f"{world}/commands", json={"commands": [SPAWN], "batch_id": "b"})

    ended = http.delete(world)
    again = http.delete(world)
    late = http.post(f"{world}/commands", json={"commands": [SPAWN]})
    status = http.get(f"{world}/commands/b.0").json()

    assert (ended.status_code, ended.json()["status"]) == (200, "destroyed")
    assert again.json() == ended.json() == http.get(world).json()
    assert (late.status_code, late.json()["code"]) == (410, "world_destroyed")
    assert (status["status"], status["code"]) == ("rejected", "world_destroyed")
    assert name in listed(http)
    assert name not in listed(http, show="live")


def test_many_who_end_a_world_at_once_are_all_told_that_it_ended_or_to_ask_again(http, world):
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: http.delete(world), range(4)))

    codes = {reply.status_code for reply in replies}
    kinds = [entry["kind"] for entry in http.get(f"{world}/log").json()["entries"]]
    assert 200 in codes
    assert codes <= {200, 409}
    assert kinds == ["created", "closing", "destroyed"]


def test_a_world_is_resumed_and_goes_on(http, world):
    resumed = http.post(f"{world}/resume").json()
    ran = http.post(f"{world}/tick", json={"to_tick": 0}).json()

    assert (resumed["status"], resumed["epoch"]) == ("active", 1)
    assert ran["published_tick"] == 0


@pytest.mark.parametrize(("method", "path"), [("DELETE", ""), ("POST", "/resume")])
def test_an_absent_world_is_not_found(http, method, path):
    reply = http.request(method, f"/v1/worlds/absent{path}")

    assert (reply.status_code, reply.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("show", ["none", "", "ALL"])
def test_what_no_list_shows_is_refused(http, show):
    reply = http.get("/v1/worlds", params={"show": show})

    assert (reply.status_code, reply.json()["code"]) == (400, "invalid_value")
