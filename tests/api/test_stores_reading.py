"""Reading document stores over HTTP: documents, rows, tables and the log, now and as they were."""

from __future__ import annotations

import pytest
from tests.api.store_rig import NOTES, SHAPE, TAGS, change, commit, create, insert
from tests.support.documents import LINEAGE, REF

from perdure.kernel.documents.cursors import Question, spelled
from perdure.kernel.documents.records import StoreHead
from perdure.kernel.ids import Seq

pytestmark = pytest.mark.stores


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
        ("/tables/notes:tags/rows", 'index=by_who&values=[""]', 400, "invalid_value"),
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
        ("notes:tags", {"key": ["tag"]}, 409, "table_differs"),
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
    changed, key = rest["entries"][0]["writes"]
    content = {"kind": "base", "value": "bye", "version": 1}
    assert changed == {"w": "document.change", "id": 2, "content": content}
    assert (key.keys(), key["w"]) == ({"w", "commit", "digest"}, "commit.key")
    assert (none["entries"], none["next"], none["seq"]) == ([], 3, 3)


def test_page_of_the_log_ends_before_it_outgrows_a_reply(notes):
    for each in range(3):
        assert commit(notes.caller, change(value=f"{each}" * 2_000_000)).status == 201

    first = notes.caller("GET", f"{NOTES}/log", query="after=2").body
    rest = notes.caller("GET", f"{NOTES}/log", query=f"after={first['next']}").body

    assert [each["seq"] for each in first["entries"]] == [3, 4]
    assert [each["seq"] for each in rest["entries"]] == [5]
