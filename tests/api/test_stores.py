"""The routes of document stores: who may ask for what, commits at most once, refusals unchanged."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.store_rig import NOTE, NOTES, SHAPE, TAGS, change, commit, create, insert
from tests.support.documents import REF

from perdure.kernel.documents.commit import OwnerGrip, TakeOwner
from perdure.kernel.documents.places import SAFE_INTEGER_MAX
from perdure.kernel.errors import OutcomeUnknown
from perdure.kernel.ids import Holder

pytestmark = pytest.mark.stores


# ------------------------------------------------------------------ stores


def test_store_is_made_once_by_its_id(rig):
    made = rig.caller("POST", "/v1/stores", {"store_id": "notes"})
    again = rig.caller("POST", "/v1/stores", {"store_id": "notes"})
    drawn = rig.caller("POST", "/v1/stores", {})

    assert (made.status, made.body["seq"], made.body["next_id"]) == (201, 0, 2)
    assert again.body == made.body
    assert len(made.body["lineage"]) == 22
    assert drawn.body["store_id"] != "notes"


def test_stores_are_listed_a_page_at_a_time(rig):
    for name in ("b", "a", "c"):
        rig.caller("POST", "/v1/stores", {"store_id": name})

    first = rig.caller("GET", "/v1/stores", query="limit=2").body
    rest = rig.caller("GET", "/v1/stores", query=f"limit=2&next={first['next']}").body

    assert [each["store_id"] for each in first["stores"]] == ["a", "b"]
    assert [each["store_id"] for each in rest["stores"]] == ["c"]
    assert "next" not in rest


@pytest.mark.parametrize("path", ["", "/log", "/tables", "/documents/2"])
def test_store_that_is_not_there_is_not_found(rig, path):
    refused = rig.caller("GET", f"/v1/stores/nowhere{path}")

    assert (refused.status, refused.body["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("role", "method", "path", "body"),
    [
        ("operator", "POST", "/v1/stores", {"store_id": "more"}),
        ("player", "POST", f"{NOTES}/commits", {"writes": [create("new")]}),
        ("player", "PUT", f"{NOTES}/tables/notes:more", SHAPE),
    ],
)
def test_whoever_may_not_is_refused_and_nothing_changes(notes, role, method, path, body):
    before = notes.snapshot()

    refused = notes.as_(role)(method, path, body)

    assert (refused.status, refused.body["code"]) == (403, "not_permitted")
    assert notes.snapshot() == before


def test_viewer_reads(notes):
    viewer = notes.as_("viewer")

    assert viewer("GET", f"{NOTES}/documents/2").body["value"] == "hello"
    assert viewer("GET", f"{TAGS}/rows").status == 200
    assert viewer("GET", f"{NOTES}/log").status == 200


# ------------------------------------------------------------------ commits, at most once


def test_commit_that_is_asked_again_is_told_the_same_for_ever(notes):
    once = commit(notes.caller, create("third"), commit_id="c")
    commit(notes.caller, {"write": "document.retire", "id": once.body["ids"][0]})
    before = notes.snapshot()

    again = commit(notes.caller, create("third"), commit_id="c")

    assert (once.status, once.body["seq"], once.body["ids"]) == (201, 3, [4])
    assert again.body == {**once.body, "replayed": True}
    assert notes.snapshot() == before


def test_header_says_the_commit_id_as_well(notes):
    body = {"writes": [create("third")]}

    once = notes.caller("POST", f"{NOTES}/commits", body, idempotency_key="c")
    again = commit(notes.caller, create("third"), commit_id="c")
    other = notes.caller(
        "POST", f"{NOTES}/commits", {**body, "commit_id": "d"}, idempotency_key="e"
    )

    assert (once.body["commit_id"], again.body["replayed"]) == ("c", True)
    assert (other.status, other.body["code"]) == (400, "invalid_value")


def test_other_writes_under_an_id_are_refused(notes):
    commit(notes.caller, create("third"), commit_id="c")
    before = notes.snapshot()

    refused = commit(notes.caller, create("fourth"), commit_id="c")

    assert (refused.status, refused.body["code"]) == (409, "conflict")
    assert notes.snapshot() == before


def test_commit_without_an_id_is_told_the_one_that_was_drawn(notes, monkeypatch):
    async def lost(*_):
        raise OutcomeUnknown(expected="an answer", found="none")

    known = commit(notes.caller, create("third")).body["commit_id"]
    monkeypatch.setattr(notes.store, "commit", lost)
    unknown = commit(notes.caller, create("fourth"))

    assert known
    assert (unknown.status, unknown.body["code"]) == (503, "outcome_unknown")
    assert unknown.body["commit_id"] not in {None, known}


def test_commit_whose_answer_was_lost_happens_once(notes, monkeypatch):
    happens, asked = notes.store.commit, []

    async def lost(each):
        asked.append(each)
        await happens(each)
        raise OutcomeUnknown(expected="an answer", found="none")

    with monkeypatch.context() as patch:
        patch.setattr(notes.store, "commit", lost)
        unknown = commit(notes.caller, create("third"), commit_id="c")
    again = commit(notes.caller, create("third"), commit_id="c")

    # The engine may have found by itself what it had done; if not, the caller does.
    assert unknown.body.get("code", "outcome_unknown") == "outcome_unknown"
    assert asked
    assert (again.status, again.body["ids"], again.body["replayed"]) == (201, [4], True)
    assert notes.caller("GET", NOTES).body["seq"] == 3


def test_two_callers_at_once_never_both_take_an_address(notes):
    """Their commits may be decided as one group: the second must see what the first wrote."""
    writes = [create("third")]

    async def both():
        ports = await notes.caller.sandbox.opened()
        return await asyncio.gather(
            *(ports.stores.commit("notes", writes, commit_id=each) for each in "abc"),
            return_exceptions=True,
        )

    found = notes.caller.sandbox._loop().run(both())

    codes = [getattr(each, "code", "done") for each in found]
    assert sorted(codes) == ["address_taken", "address_taken", "done"]
    listed = notes.caller("GET", f"{NOTES}/documents", query="owner=notes&namespace=desk").body
    assert [each["key"] for each in listed["documents"]] == ["first", "second", "third"]


def test_one_commit_asked_for_twice_at_once_happens_once(notes):
    async def both():
        ports = await notes.caller.sandbox.opened()
        asked = (ports.stores.commit("notes", [create("third")], commit_id="c") for _ in range(4))
        return await asyncio.gather(*asked)

    found = notes.caller.sandbox._loop().run(both())

    assert {(each.seq, each.ids) for each in found} == {(3, (4,))}
    assert [each.replayed for each in found].count(False) == 1


# ------------------------------------------------------------------ what is refused


GOOD = create("good")

REFUSED = {
    "no list": ({"writes": {}}, 400, "invalid_batch"),
    "nothing": ({"writes": []}, 400, "invalid_batch"),
    "too many": ({"writes": [create()] * 101}, 400, "invalid_batch"),
    "unknown write": ({"writes": [{"write": "document.burn", "id": 2}]}, 400, "unknown_operation"),
    "no write": ({"writes": [7]}, 400, "wrong_type"),
    "unknown field": ({"writes": [create(colour="red")]}, 400, "unknown_field"),
    "missing field": ({"writes": [{"write": "document.retire"}]}, 400, "missing_field"),
    "id that is text": ({"writes": [change("2", value=1)]}, 400, "wrong_type"),
    "both": ({"writes": [change(value=1, ops=[])]}, 400, "invalid_value"),
    "neither": ({"writes": [change()]}, 400, "invalid_value"),
    "commit id": ({"writes": [create("third")], "commit_id": "a/b"}, 400, "invalid_id"),
    "delta that is none": ({"writes": [change(ops=[["set", 1]])]}, 400, "invalid_delta"),
    "delta of no kind": ({"writes": [change(ops=[[["s"], 1]])]}, 400, "invalid_delta"),
    "delta that does not apply": (
        {"writes": [GOOD, change(3, ops=[["a", ["never"], "x"]])]},
        409,
        "delta_does_not_apply",
    ),
    "delta of another version": (
        {"writes": [GOOD, change(3, ops=[["s", ["said"], 1]], version=2)]},
        409,
        "needs_base",
    ),
    "two contents": ({"writes": [GOOD, change(value=1), change(value=2)]}, 409, "needs_base"),
    "version beyond numbers": (
        {"writes": [GOOD, create("big", version=2**53)]},
        400,
        "invalid_value",
    ),
    "unknown document": ({"writes": [GOOD, change(99, value=1)]}, 404, "unknown_document"),
    "revision": ({"writes": [GOOD, change(value=1, revision=7)]}, 409, "revision_differs"),
    "id taken": ({"writes": [GOOD, create("third", id=2)]}, 409, "id_taken"),
    "address taken": ({"writes": [GOOD, create("first")]}, 409, "address_taken"),
    "copy": (
        {"writes": [GOOD, {"write": "document.copy", **NOTE, "key": "x", "source": 99}]},
        409,
        "copy_refused",
    ),
    "exhausted": (
        {"writes": [create("third", id=SAFE_INTEGER_MAX - 1), create("fourth")]},
        409,
        "ids_exhausted",
    ),
    "unknown table": (
        {"writes": [GOOD, {**insert("c", 1), "table": "notes:never"}]},
        404,
        "unknown_table",
    ),
    "row exists": ({"writes": [GOOD, insert("a", 1)]}, 409, "row_exists"),
    "row absent": (
        {"writes": [GOOD, {"write": "row.delete", "table": "notes:tags", "key": ["z", 1]}]},
        404,
        "row_absent",
    ),
    "row of other columns": (
        {"writes": [GOOD, {"write": "row.put", "table": "notes:tags", "row": {"tag": "a"}}]},
        400,
        "missing_field",
    ),
    "row of another type": ({"writes": [GOOD, insert("c", "one")]}, 400, "wrong_type"),
    "stamp in the key": ({"writes": [GOOD, insert("c", 1, stamps=["n"])]}, 400, "invalid_value"),
    "key too short": (
        {"writes": [GOOD, {"write": "row.delete", "table": "notes:tags", "key": ["a"]}]},
        400,
        "invalid_value",
    ),
    "key of another type": (
        {"writes": [GOOD, {"write": "row.delete", "table": "notes:tags", "key": ["a", True]}]},
        400,
        "wrong_type",
    ),
    "where of no column": (
        {"writes": [GOOD, {"write": "rows.delete", "table": "notes:tags", "where": {"x": None}}]},
        400,
        "unknown_field",
    ),
    "count": (
        {
            "writes": [
                GOOD,
                {"write": "rows.delete", "table": "notes:tags", "where": {"tag": "a"}, "count": 2},
            ]
        },
        409,
        "row_count_differs",
    ),
    "content too large": ({"writes": [create("third", "x" * 4_200_000)]}, 413, "too_large"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_cannot_be_committed_is_refused_and_nothing_changes(notes, case):
    body, status, code = REFUSED[case]
    before = notes.snapshot()

    refused = notes.caller("POST", f"{NOTES}/commits", body)

    assert (refused.status, refused.body["code"]) == (status, code)
    assert notes.snapshot() == before


def test_owner_in_anothers_hand_is_left_alone(notes):
    async def hold():
        ports = await notes.caller.sandbox.opened()
        take = TakeOwner(REF, "notes", Holder("somebody"), 60_000)
        grip, _ = await ports.stores.means.authority.execute(take)
        return grip

    grip = notes.caller.sandbox._loop().run(hold())
    before = notes.snapshot()

    refused = commit(notes.caller, change(value=1))
    held = notes.caller("GET", NOTES).body["held"]

    assert isinstance(grip, OwnerGrip)
    assert (refused.status, refused.body["code"]) == (409, "owner_held")
    assert notes.snapshot() == before
    assert [(each["owner"], each["epoch"]) for each in held] == [("notes", 1)]


def test_document_that_has_ended_is_gone(notes):
    commit(notes.caller, {"write": "document.retire", "id": 2})

    read = notes.caller("GET", f"{NOTES}/documents/2")
    written = commit(notes.caller, change(value=1))
    before = notes.caller("GET", f"{NOTES}/documents/2", query="at=2")

    assert (read.status, read.body["code"]) == (410, "document_retired")
    assert (written.status, written.body["code"]) == (410, "document_retired")
    assert (before.status, before.body["value"]) == (200, "hello")
