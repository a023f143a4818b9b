"""The routes of document stores: who may ask for what, what is answered, what is refused unchanged."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.rig import Caller
from tests.support.documents import LINEAGE, REF

from perdure.kernel.documents.commit import OwnerGrip, TakeOwner
from perdure.kernel.documents.cursors import Question, spelled
from perdure.kernel.documents.places import SAFE_INTEGER_MAX
from perdure.kernel.documents.records import StoreHead
from perdure.kernel.errors import OutcomeUnknown
from perdure.kernel.ids import Holder, Seq

pytestmark = pytest.mark.stores

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


@pytest.fixture
def notes(rig):
    """A store with one rewindable document, id 2, and one with no past, id 3; rows of a table."""
    call = rig.caller
    assert call("POST", "/v1/stores", {"store_id": "notes"}).status == 201
    assert call("PUT", TAGS, SHAPE).status == 200
    rows = [insert(tag, n) for tag in "ab" for n in (1, 2, 3)]
    first = [create(history="rewindable"), create("second", {"said": "hello"}), *rows]
    assert commit(rig.caller, *first, commit_id="first").body["seq"] == 2
    return rig


def commit(call: Caller, *writes, **more):
    return call("POST", f"{NOTES}/commits", {"writes": list(writes), **more})


def change(id=2, **more):
    return {"write": "document.change", "id": id, **more}


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
        {"writes": [GOOD]}
        | {
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


# ------------------------------------------------------------------ documents


def test_document_is_read_now_and_as_it_was(notes):
    commit(notes.caller, change(ops=[["r", "hello there"]]))
    commit(notes.caller, change(value={"said": "bye"}, revision=2))

    now = notes.caller("GET", f"{NOTES}/documents/2").body
    then = [
        notes.caller("GET", f"{NOTES}/documents/2", query=f"at={at}").body["value"]
        for at in (2, 3, 4)
    ]

    assert (now["value"], now["document"]["revision"], now["deltas"]) == ({"said": "bye"}, 3, 0)
    assert then == ["hello", "hello there", {"said": "bye"}]


def test_document_is_found_at_its_address(notes):
    address = "owner=notes&namespace=desk&kind=note&key=first"
    commit(notes.caller, {"write": "document.retire", "id": 2})
    commit(notes.caller, create("first", "anew"))

    now = notes.caller("GET", f"{NOTES}/lookup", query=address).body
    then = notes.caller("GET", f"{NOTES}/lookup", query=f"{address}&at=2").body
    never = notes.caller("GET", f"{NOTES}/lookup", query=f"{address}er")

    assert (now["document"]["document_id"], now["value"]) == (4, "anew")
    assert (then["document"]["document_id"], then["value"]) == (2, "hello")
    assert (never.status, never.body["code"]) == (404, "unknown_document")


def test_documents_of_a_namespace_are_listed_now_and_as_they_were(notes):
    commit(notes.caller, create("third", kind="list"), {"write": "document.retire", "id": 3})
    of = "owner=notes&namespace=desk"

    first = notes.caller("GET", f"{NOTES}/documents", query=f"{of}&limit=1").body
    rest = notes.caller(
        "GET", f"{NOTES}/documents", query=f"{of}&limit=1&next={first['next']}"
    ).body
    then = notes.caller("GET", f"{NOTES}/documents", query=f"{of}&at=2").body
    kind = notes.caller("GET", f"{NOTES}/documents", query=f"{of}&kind=list").body

    ids = [
        [each["document_id"] for each in page["documents"]] for page in (first, rest, then, kind)
    ]
    assert ids == [[2], [4], [2, 3], [4]]


def test_value_with_the_half_of_a_pair_comes_back(notes):
    body = '{"writes": [{"write": "document.change", "id": 2, "value": "\\ud800"}]}'

    written = notes.caller("POST", f"{NOTES}/commits", text=body)
    read = notes.caller("GET", f"{NOTES}/documents/2")

    assert written.status == 201, written
    assert read.body["value"] == "\ud800"


@pytest.mark.parametrize(
    ("path", "query", "status", "code"),
    [
        ("/documents/3", "at=2", 409, "history_not_kept"),
        ("/documents/2", "at=99", 400, "out_of_range"),
        ("/documents/2", "at=-1", 400, "out_of_range"),
        ("/documents/2", "at=soon", 400, "wrong_type"),
        ("/documents/2", "at=1", 404, "unknown_document"),
        ("/documents/99", "", 404, "unknown_document"),
        ("/documents/0", "", 400, "invalid_id"),
        ("/documents/two", "", 400, "invalid_id"),
        ("/documents/99999999999999999", "", 400, "invalid_id"),
        ("/documents", "owner=notes", 400, "missing_field"),
        ("/documents", "owner=notes&namespace=desk&limit=0", 400, "out_of_range"),
        ("/documents", "owner=notes&namespace=desk&next=zzz", 400, "invalid_cursor"),
        ("/lookup", "owner=notes&namespace=desk", 400, "missing_field"),
        ("/tables/notes:never/rows", "", 404, "unknown_table"),
        ("/tables/notes:tags/rows", "index=never", 400, "invalid_value"),
        ("/tables/notes:tags/rows", "index=by_who", 400, "invalid_value"),
        ("/tables/notes:tags/rows", "index=by_who&values=[7]", 400, "wrong_type"),
        ("/tables/notes:tags/rows", "values=[1", 400, "invalid_json"),
        ("/tables/notes:tags/rows", "values={}", 400, "wrong_type"),
        ("/tables/notes:tags/rows", 'values=["a",1,2]', 400, "invalid_value"),
        ("/tables/notes:tags/rows", "order=random", 400, "invalid_value"),
        ("/tables/notes:tags/row", 'key=["z",1]', 404, "row_absent"),
        ("/tables/notes:tags/row", 'key=["a"]', 400, "invalid_value"),
        ("/log", "after=99", 409, "stale_cursor"),
        ("/log", "lineage=another", 409, "lineage_changed"),
        ("/log", "limit=1001", 400, "out_of_range"),
    ],
)
def test_what_cannot_be_read_has_its_code(notes, path, query, status, code):
    refused = notes.caller("GET", f"{NOTES}{path}", query=query)

    assert (refused.status, refused.body["code"]) == (status, code)


# ------------------------------------------------------------------ rows


def keys(page):
    return ["".join(map(str, each["key"])) for each in page["rows"]]


def pages(call, query):
    """Return the keys of every page of a scan."""
    found, following = [], ""
    while True:
        page = call("GET", f"{TAGS}/rows", query=f"{query}{following}").body
        found.append(keys(page))
        if "next" not in page:
            return found
        following = f"&next={page['next']}"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("limit=4", [["a1", "a2", "a3", "b1"], ["b2", "b3"]]),
        ("limit=3", [["a1", "a2", "a3"], ["b1", "b2", "b3"]]),
        ("limit=4&order=descending", [["b3", "b2", "b1", "a3"], ["a2", "a1"]]),
        ('limit=2&values=["b"]', [["b1", "b2"], ["b3"]]),
        ('limit=2&values=["b"]&order=descending', [["b3", "b2"], ["b1"]]),
        ('values=["b",2]', [["b2"]]),
        ('values=["z"]', [[]]),
        ('limit=5&index=by_who&values=["ann"]', [["a1", "a2", "a3", "b1", "b2"], ["b3"]]),
        ('index=by_who&values=["bob"]', [[]]),
    ],
)
def test_rows_are_listed_in_the_order_of_their_keys(notes, query, expected):
    assert pages(notes.caller, query) == expected


def test_rows_are_put_changed_and_taken_away(notes):
    tags = {"table": "notes:tags"}
    done = commit(
        notes.caller,
        insert("c", 1, stamps=["at"]),
        {"write": "row.put", **tags, "row": {"tag": "a", "n": 1, "who": "bob", "at": 1}},
        {"write": "row.update", **tags, "key": ["a", 2], "changes": {"who": "bob"}},
        {"write": "row.delete", **tags, "key": ["a", 3]},
        {"write": "rows.update", **tags, "where": {"tag": "b", "n": 1}, "changes": {"who": "bob"}},
        {"write": "rows.delete", **tags, "where": {"tag": "b", "n": 3}, "count": 1},
    )

    stamped = notes.caller("GET", f"{TAGS}/row", query='key=["c",1]').body

    assert done.status == 201, done
    assert stamped["row"] == {"tag": "c", "n": 1, "who": "ann", "at": 3}
    assert pages(notes.caller, 'index=by_who&values=["bob"]') == [["a1", "a2", "b1"]]
    assert pages(notes.caller, "") == [["a1", "a2", "b1", "b2", "c1"]]


def test_cursor_goes_on_in_its_own_order_and_question_alone(notes):
    following = notes.caller("GET", f"{TAGS}/rows", query="limit=2&order=descending").body["next"]
    listed = f"{NOTES}/documents"
    of = "owner=notes&namespace=desk&limit=1"
    elsewhere = notes.caller("GET", listed, query=of).body["next"]

    def asked(query):
        return notes.caller("GET", f"{TAGS}/rows", query=query)

    assert keys(asked(f"limit=2&next={following}").body) == ["b1", "a3"]
    for query, code in [
        (f"order=ascending&next={following}", "other_order"),
        (f'values=["a"]&next={following}', "invalid_cursor"),
        (f"next={following[:-1]}", "invalid_cursor"),
        (f"next={elsewhere}", "invalid_cursor"),
    ]:
        refused = asked(query)
        assert (refused.status, refused.body["code"]) == (400, code)


@pytest.mark.parametrize(
    ("lineage", "seq"), [(LINEAGE, Seq(1)), ("the store's own", Seq(99))], ids=["other", "ahead"]
)
def test_cursor_of_another_history_is_stale(notes, lineage, seq):
    own = notes.caller("GET", NOTES).body["lineage"]
    head = StoreHead(
        partition=REF.partition, lineage=LINEAGE if lineage == LINEAGE else own, seq=seq
    )
    question = Question(("rows", "notes:tags", None))

    refused = notes.caller(
        "GET", f"{TAGS}/rows", query=f"next={spelled(head, question, 'ascending', ('a', 1))}"
    )

    assert (refused.status, refused.body["code"]) == (409, "stale_cursor")


@pytest.mark.parametrize("behind", [("a",), ("a", 1, 1), ("z", 1), (["a"], 1), ()])
def test_forged_cursor_reads_nothing(notes, behind):
    own = notes.caller("GET", NOTES).body
    head = StoreHead(partition=REF.partition, lineage=own["lineage"], seq=Seq(own["seq"]))
    question = Question(("rows", "notes:tags", None, "a"))

    forged = spelled(head, question, "ascending", behind)
    refused = notes.caller("GET", f"{TAGS}/rows", query=f'values=["a"]&next={forged}')

    assert (refused.status, refused.body["code"]) == (400, "invalid_cursor")


# ------------------------------------------------------------------ tables


def test_table_is_declared_once_and_listed(notes):
    again = notes.caller("PUT", TAGS, SHAPE)
    listed = notes.caller("GET", f"{NOTES}/tables").body["tables"]

    assert (again.status, again.body["version"]) == (200, 1)
    assert [(each["table"], each["key"]) for each in listed] == [("notes:tags", ["tag", "n"])]
    assert notes.caller("GET", NOTES).body["seq"] == 2


@pytest.mark.parametrize(
    ("table", "changed", "status", "code"),
    [
        ("notes:tags", {"key": ["tag"]}, 500, "schema_mismatch"),
        ("notes:tags", {"version": 2}, 409, "table_migrating"),
        ("notes", {}, 400, "invalid_id"),
        ("notes:a b", {}, 400, "invalid_id"),
        ("notes:more", {"columns": {"tag": "colour"}}, 400, "invalid_value"),
        ("notes:more", {"key": ["never"]}, 400, "invalid"),
        ("notes:more", {"key": []}, 400, "invalid"),
        ("notes:more", {"version": 0}, 400, "out_of_range"),
    ],
)
def test_table_that_cannot_be_declared_is_refused_and_nothing_changes(
    notes, table, changed, status, code
):
    before = notes.snapshot()

    refused = notes.caller("PUT", f"{NOTES}/tables/{table}", {**SHAPE, **changed})

    assert (refused.status, refused.body["code"]) == (status, code)
    assert notes.snapshot() == before


def test_older_version_of_a_table_is_refused(notes):
    notes.caller("PUT", f"{NOTES}/tables/notes:more", {**SHAPE, "version": 3})

    refused = notes.caller("PUT", f"{NOTES}/tables/notes:more", {**SHAPE, "version": 2})

    assert (refused.status, refused.body["code"]) == (409, "newer_table")


# ------------------------------------------------------------------ the log


def test_log_tells_what_was_applied_a_page_at_a_time(notes):
    commit(notes.caller, change(value="bye"))

    first = notes.caller("GET", f"{NOTES}/log", query="limit=2").body
    rest = notes.caller("GET", f"{NOTES}/log", query=f"after={first['next']}").body
    none = notes.caller("GET", f"{NOTES}/log", query=f"after={rest['next']}").body

    assert [each["seq"] for each in first["entries"] + rest["entries"]] == [1, 2, 3]
    assert [each["w"] for each in first["entries"][0]["writes"]] == ["table.declare"]
    assert rest["entries"][0]["previous"] == first["entries"][1]["digest"]
    assert rest["entries"][0]["writes"] == [
        {"w": "document.change", "id": 2}
        | {"content": {"kind": "base", "value": "bye", "version": 1}}
    ]
    assert (none["entries"], none["next"], none["seq"]) == ([], 3, 3)


def test_page_of_the_log_ends_before_it_outgrows_a_reply(notes):
    for each in range(3):
        assert commit(notes.caller, change(value=f"{each}" * 2_000_000)).status == 201

    first = notes.caller("GET", f"{NOTES}/log", query="after=2").body
    rest = notes.caller("GET", f"{NOTES}/log", query=f"after={first['next']}").body

    assert [each["seq"] for each in first["entries"]] == [3, 4]
    assert [each["seq"] for each in rest["entries"]] == [5]
