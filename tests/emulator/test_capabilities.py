"""What a world uses, over HTTP: the routes of the function that has the processors imported."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lifecycle

DRIFT = {"name": "drift", "priority": 0, "components": ["Position"], "registered": True}
SPAWN = {"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}}


def places(http, world):
    page = http.get(f"{world}/entities", params={"components": "Position"}).json()
    return [row["position__x"] for row in page["rows"]]


def test_removed_processor_runs_no_longer_until_it_is_put_back(http, world):
    http.post(f"{world}/commands", json={"commands": [SPAWN]})
    seen = []

    for change in (
        lambda: http.get(f"{world}/processors"),
        lambda: http.delete(f"{world}/processors/drift"),
        lambda: http.put(f"{world}/processors/drift", json={"priority": 2}),
    ):
        reply = change()
        ticked = http.post(f"{world}/tick", json={"ticks": 1}).json()
        seen.append((reply.status_code, reply.json()["processors"], places(http, world)))

    assert seen == [
        (200, [DRIFT], [2.0]),
        (200, [], [2.0]),
        (200, [{**DRIFT, "priority": 2}], [3.0]),
    ]
    assert ticked["hook_failures"] == []


def test_log_tells_of_each_change(http, world):
    http.put(f"{world}/processors/drift", json={})
    http.delete(f"{world}/processors/drift")
    http.delete(f"{world}/processors/drift")

    entries = http.get(f"{world}/log").json()["entries"]

    changes = [each["facts"] for each in entries if each["kind"] == "configured"]
    by = {"actor": "ann", "origin": "gateway"}
    assert changes == [{"kind": "processor", "action": "remove", "name": "drift", **by}]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("PUT", "processors/fly", b"{}", 400, "unknown_processor"),
        ("DELETE", "processors/fly", b"", 400, "unknown_processor"),
        ("PUT", "hooks/fly", b"", 400, "unknown_hook"),
        ("PUT", "resources/fly", b"", 400, "unknown_resource"),
        ("PUT", "processors/drift", b"", 400, "invalid_json"),
        ("PUT", "processors/drift", b'{"priority":1.5}', 400, "wrong_type"),
        ("PUT", "processors/drift", b'{"priority":2147483648}', 400, "out_of_range"),
        ("PUT", "processors/drift", b'{"prioritee":1}', 400, "unknown_field"),
        ("POST", "processors/drift", b"{}", 404, "not_found"),
        ("PUT", "processors/%00", b"{}", 400, "invalid_id"),
        ("PUT", f"processors/{'x' * 129}", b"{}", 400, "invalid_id"),
        ("GET", "hooks?limit=1", b"", 400, "unknown_field"),
    ],
)
def test_refusal_has_its_code_and_changes_nothing(http, world, method, path, body, status, code):
    before = http.get(f"{world}/log").json()

    reply = http.request(method, f"{world}/{path}", content=body)

    assert (reply.status_code, reply.json()["code"]) == (status, code)
    assert http.get(f"{world}/log").json() == before


def test_world_that_is_not_there_has_nothing_to_list(http):
    for kind in ("processors", "hooks", "resources"):
        assert http.get(f"/v1/worlds/nowhere/{kind}").status_code == 404
