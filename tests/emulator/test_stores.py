"""Document stores over HTTP as a black box: one is made, filled, read, and refuses what it must."""

from __future__ import annotations

from itertools import count

import pytest
from tests.emulator.deployment import bearer

pytestmark = pytest.mark.stores

_NAMES = count(1)

NOTE = {"owner": "notes", "namespace": "desk", "kind": "note"}


@pytest.fixture
def notes(http):
    """The path of a new document store."""
    name = f"notes-{next(_NAMES)}"
    assert http.post("/v1/stores", json={"store_id": name}).status_code == 201
    return f"/v1/stores/{name}"


def commit(http, notes, *writes, key=None):
    headers = {} if key is None else {"Idempotency-Key": key}
    return http.post(f"{notes}/commits", json={"writes": writes}, headers=headers)


def test_document_is_made_read_changed_and_ended(http, notes):
    create = {"write": "document.create", **NOTE, "value": "hello", "history": "rewindable"}

    made = commit(http, notes, create, key="first")
    again = commit(http, notes, create, key="first")
    (id,) = made.json()["ids"]
    one = f"{notes}/documents/{id}"
    commit(http, notes, {"write": "document.change", "id": id, "ops": [["r", "bye"]]})
    now = http.get(one).json()["value"]
    then = http.get(one, params={"at": 1}).json()["value"]
    found = http.get(f"{notes}/lookup", params=NOTE).json()["document"]["document_id"]
    commit(http, notes, {"write": "document.retire", "id": id, "revision": 2})

    assert (made.status_code, made.json()["seq"]) == (201, 1)
    assert again.json() == {**made.json(), "replayed": True}
    assert (now, then, found) == ("bye", "hello", id)
    assert http.get(one).json()["code"] == "document_retired"
    log = http.get(f"{notes}/log").json()
    assert [each["writes"][0]["w"] for each in log["entries"]] == [
        "document.create",
        "document.change",
        "document.retire",
    ]


def test_rows_are_declared_written_and_listed_by_their_index(http, notes):
    tags = f"{notes}/tables/notes:tags"
    shape = {"columns": {"tag": "str", "n": "int"}, "key": ["tag"], "indexes": {"by_n": ["n"]}}
    insert = {"write": "row.insert", "table": "notes:tags"}

    declared = http.put(tags, json=shape)
    commit(http, notes, *({**insert, "row": {"tag": tag, "n": 7}} for tag in ("a/b", "ü", "c")))
    page = http.get(f"{tags}/rows", params={"index": "by_n", "values": "[7]", "limit": 2}).json()
    rest = http.get(f"{tags}/rows", params={"index": "by_n", "values": "[7]", "next": page["next"]})

    assert declared.status_code == 200
    assert [each["key"] for each in page["rows"] + rest.json()["rows"]] == [["ü"], ["a/b"], ["c"]]
    assert http.get(f"{tags}/row", params={"key": '["a/b"]'}).json()["row"]["n"] == 7


def test_player_reads_and_does_not_commit(deployment, http, notes):
    player = bearer(deployment.root, "player")
    create = {"write": "document.create", **NOTE, "value": 1}

    refused = http.post(f"{notes}/commits", json={"writes": [create]}, headers=player)

    assert (refused.status_code, refused.json()["code"]) == (403, "not_permitted")
    assert http.get(notes, headers=player).json()["seq"] == 0
