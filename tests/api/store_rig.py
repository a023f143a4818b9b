"""A document store behind the routes, on a store in memory, and what its tests say to it."""

from __future__ import annotations

from tests.api.rig import Caller, Reply

NOTES = "/v1/stores/notes"
TAGS = f"{NOTES}/tables/notes:tags"
NOTE = {"owner": "notes", "namespace": "desk", "kind": "note"}
SHAPE = {
    "columns": {"tag": "str", "n": "int", "who": "str", "at": "int"},
    "key": ["tag", "n"],
    "indexes": {"by_who": ["who"]},
}


def create(key="first", value="hello", **more):
    return {"write": "document.create", **NOTE, "key": key, "value": value, **more}


def insert(tag, n, who="ann", at=0, **more):
    row = {"tag": tag, "n": n, "who": who, "at": at}
    return {"write": "row.insert", "table": "notes:tags", "row": row, **more}


def change(id=2, **more):
    return {"write": "document.change", "id": id, **more}


def commit(call: Caller, *writes, **more) -> Reply:
    return call("POST", f"{NOTES}/commits", {"writes": list(writes), **more})


def filled(call: Caller) -> None:
    """Make a store with one rewindable document, id 2, and one with no past, id 3; rows of a table."""
    assert call("POST", "/v1/stores", {"store_id": "notes"}).status == 201
    assert call("PUT", TAGS, SHAPE).status == 200
    rows = [insert(tag, n) for tag in "ab" for n in (1, 2, 3)]
    first = [create(history="rewindable"), create("second", {"said": "hello"}), *rows]
    assert commit(call, *first, commit_id="first").body["seq"] == 2
