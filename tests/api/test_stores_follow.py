"""Following a document over HTTP: from one event to the next, without a gap, to its end."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.api.store_rig import NOTES, change, commit, create
from tests.support.documents import REF

from perdure.kernel.documents import records
from perdure.kernel.documents.ops import applied
from perdure.kernel.ids import Seq

pytestmark = pytest.mark.stores

FOLLOW = f"{NOTES}/follow"
SECOND = "owner=notes&namespace=desk&kind=note&key=second"


def events(reply):
    """Return name, id and data of each event; a place alone is an event without a name."""
    assert reply.status == 200, reply.body
    assert reply.headers["content-type"] == "text/event-stream"
    found = []
    for each in reply.body.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in each.splitlines() if not line.startswith(":"))
        if lines.keys() & {"id", "data"}:
            data = json.loads(lines["data"]) if "data" in lines else None
            found.append((lines.get("event"), lines.get("id"), data))
    return found


def follow(rig, after=None, query=SECOND, **headers):
    more = "" if after is None else f"&after={after}"
    return events(rig.caller("GET", FOLLOW, query=query + more, **headers))


def delta(value, id=3, name="said"):
    return change(id, ops=[["s", [name], value]])


@pytest.mark.usefixtures("notes")
def test_a_document_is_followed_to_its_end_by_the_ids_of_events(rig):
    lineage = rig.caller("GET", NOTES).body["lineage"]
    first = follow(rig)
    commit(rig.caller, delta("good day"))
    commit(rig.caller, change(2, value="another"))
    commit(rig.caller, delta("good night"))
    second = follow(rig, last_event_id=first[-1][1])
    commit(rig.caller, delta("bye"))
    commit(rig.caller, delta("never seen"), {"write": "document.retire", "id": 3})
    last = follow(rig, after=second[-1][1])
    third = follow(rig, after=last[-1][1])
    again = follow(rig, after=last[-1][1])

    (snapshot,) = first
    assert snapshot[:2] == ("snapshot", f"{lineage}:2:3")
    assert snapshot[2]["document"]["value"] == {"said": "hello"}
    assert [each[:2] for each in second] == [
        ("change", f"{lineage}:3:3"),
        ("change", f"{lineage}:5:3"),
    ]
    value = applied(snapshot[2]["document"], [data["ops"] for _, _, data in second])
    assert value["value"] == {"said": "good night"}
    assert [each[:2] for each in last] == [("change", f"{lineage}:6:3")], "the end is by itself"
    assert [(name, id, data["id"]) for name, id, data in third] == [("retired", None, 3)]
    assert again == third


@pytest.mark.usefixtures("notes")
def test_an_address_is_followed_from_before_its_document_begins(rig):
    empty = follow(rig, query="owner=notes&namespace=desk&kind=todo")
    todo = {**create(None, 1), "kind": "todo"}
    commit(rig.caller, todo)
    begun = follow(rig, empty[-1][1], query="owner=notes&namespace=desk&kind=todo")

    assert [(each[0], each[2]["document"]) for each in empty] == [("snapshot", None)]
    ((name, id, data),) = begun
    assert (name, id.split(":")[1:]) == ("change", ["3", "4"])
    assert applied(None, [data["ops"]])["value"] == 1


@pytest.mark.usefixtures("notes")
def test_the_next_document_at_an_address_is_another_one_to_follow(rig):
    (first,) = follow(rig)
    commit(rig.caller, {"write": "document.retire", "id": 3}, create("second", "new"))
    ended = follow(rig, first[1])
    (snapshot,) = follow(rig)

    assert [each[0] for each in ended] == ["retired"]
    assert snapshot[2]["document"]["value"] == "new"


@pytest.mark.usefixtures("notes")
def test_a_place_goes_on_past_commits_that_change_nothing_of_it(rig):
    (first,) = follow(rig)
    for _ in range(3):
        commit(rig.caller, change(2, value="another"))

    passed = follow(rig, first[1])
    behind = follow(rig, passed[-1][1])

    assert [(name, id.split(":")[1], data) for name, id, data in passed] == [(None, "5", None)]
    assert behind == []


@pytest.mark.usefixtures("notes")
def test_who_waits_is_answered_when_there_is_an_event(rig):
    (first,) = follow(rig)

    reply = rig.caller("GET", FOLLOW, query=f"{SECOND}&wait=0.5", last_event_id=first[1])

    assert events(reply) == []
    assert reply.body == "retry: 1000\n\n: nothing yet\n\n"
    assert rig.pauses == [0.25, 0.25]


@pytest.mark.usefixtures("notes")
def test_a_page_ends_where_it_is_large_enough(rig):
    (first,) = follow(rig)
    for letter in "abc":
        commit(rig.caller, delta(letter * 600_000))

    two = follow(rig, first[1])
    one = follow(rig, two[-1][1])

    assert [data["ops"][0][2][0] for _, _, data in (*two, *one)] == ["a", "b", "c"]
    assert (len(two), len(one)) == (2, 1)


@pytest.mark.usefixtures("notes")
def test_a_log_that_was_trimmed_is_a_snapshot_again(rig):
    (first,) = follow(rig)
    for n in range(5):
        commit(rig.caller, delta(n))
    head(rig, lambda found: replace(found, log_from=Seq(5)))

    (again,) = follow(rig, first[1])

    assert (again[0], again[1].split(":")[1]) == ("snapshot", "7")
    assert again[2]["document"]["value"] == {"said": 4}


@pytest.mark.usefixtures("notes")
def test_what_cannot_be_followed_is_refused(rig):
    (first,) = follow(rig)
    lineage, seq, id = first[1].split(":")

    def code(path=FOLLOW, query=SECOND, **headers):
        reply = rig.caller("GET", path, query=query, **headers)
        return reply.status, reply.body["code"]

    assert code("/v1/stores/none/follow") == (404, "not_found")
    assert code(last_event_id="seven") == (400, "invalid_value")
    assert code(last_event_id=f"{lineage}:{10**16 - 1}:0") == (400, "invalid_value")
    assert code(last_event_id=f"{lineage}:99:{id}") == (409, "stale_cursor")
    assert code(last_event_id=f"{'x' * 22}:{seq}:{id}") == (409, "lineage_changed")
    assert code(query="owner=notes&namespace=desk") == (400, "missing_field")
    assert code(query=f"owner={'n' * 2_000}&namespace=desk&kind=x") == (413, "too_large")


@pytest.mark.usefixtures("notes")
def test_a_replica_that_diverged_tells_no_more(rig):
    (first,) = follow(rig)
    head(rig, lambda found: replace(found, diverged="a count"))

    for headers in ({}, {"last_event_id": first[1]}):
        reply = rig.caller("GET", FOLLOW, query=SECOND, **headers)
        assert (reply.status, reply.body["code"]) == (409, "store_diverged")


def head(rig, change):
    """Let something happen to the head of the store that no route does."""
    key = records.store_head_key(REF.partition)
    stored = rig.store._records[key]
    packed, body = stored.body[:1], stored.body[1:]
    found = records.StoreHead.read(key.partition, key.sort, body)
    version = stored.version._replace(revision=stored.version.revision + 1)
    rig.store._records[key] = stored._replace(version=version, body=packed + change(found).body())
