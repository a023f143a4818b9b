"""`perdure stores`: documents and rows of a local directory, without a server."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.stores

SHAPE = {"columns": {"tag": "str", "n": "int"}, "key": ["tag", "n"], "indexes": {"by_n": ["n"]}}


@pytest.fixture
def stores(perdure, root):
    """Run ``perdure stores`` on a storage with one document store, ``notes``."""

    def run(*arguments, stdin=""):
        return perdure("stores", *arguments, "--root", root, stdin=stdin)

    made = run("create", "notes", "--json")
    assert (made.exit_code, made.json["seq"]) == (0, 0), made.err
    return run


def test_document_is_made_changed_and_read_as_it_was(stores):
    first = stores("put", "notes", "me/desk/note/a", '{"said": 1}', "--history", "rewindable")
    second = stores("put", "notes", "me/desk/note/a", "-", "--json", stdin='{"said": 2}')
    now = stores("get", "notes", "me/desk/note/a")
    then = stores("get", "notes", "2", "--at", "1", "--json")
    shown = stores("history", "notes", "me/desk/note/a", "--json")

    assert first.exit_code == 0, first.err
    assert (second.json["seq"], second.json["ids"]) == (2, [])
    assert json.loads(now.out) == {"said": 2}
    assert (then.json["value"], then.json["document"]["revision"]) == ({"said": 1}, 2)
    assert [(each["seq"], each["did"]) for each in shown.json["commits"]] == [
        (1, "create"),
        (2, "change"),
    ]


def test_put_again_under_its_commit_id_changes_nothing(stores):
    writes = json.dumps([{"write": "document.retire", "id": 2}])
    stores("put", "notes", "me/desk/note", "1")
    once = stores("commit", "notes", "-", "--commit-id", "c", "--json", stdin=writes)
    again = stores("commit", "notes", "-", "--commit-id", "c", "--json", stdin=writes)
    other = stores("put", "notes", "me/desk/note", "3", "--commit-id", "c")

    assert (once.exit_code, once.json["replayed"]) == (0, False)
    assert again.json == {**once.json, "replayed": True}
    assert (other.exit_code, other.err.split()[1]) == (1, "conflict:")


def test_name_with_a_slash_is_spelled_out(stores):
    stores("put", "notes", "me/a%2Fb/note", '"hello"')
    listed = stores("documents", "notes", "me", "a/b", "--json")
    plain = stores("documents", "notes", "me", "a/b")

    assert [each["namespace"] for each in listed.json["documents"]] == ["a/b"]
    assert plain.out.splitlines()[1].split()[:2] == ["2", "note"]


def test_rows_are_listed_by_key_and_by_index(stores):
    made = stores("declare", "notes", "me:tags", "-", stdin=json.dumps(SHAPE))
    insert = {"write": "row.insert", "table": "me:tags"}
    rows = [{**insert, "row": {"tag": tag, "n": n}} for tag in "ab" for n in (1, 2)]
    stores("commit", "notes", "-", stdin=json.dumps(rows))
    all_of = stores("rows", "notes", "me:tags", "--descending", "--limit", "3", "--json")
    some = stores("rows", "notes", "me:tags", "--index", "by_n", "--values", "[2]")

    assert made.exit_code == 0, made.err
    assert [each["key"] for each in all_of.json["rows"]] == [["b", 2], ["b", 1], ["a", 2]]
    assert [line.split() for line in some.out.splitlines()] == [
        ["n", "tag"],
        ["2", "a"],
        ["2", "b"],
    ]


def test_stores_and_their_log_are_shown(stores):
    stores("put", "notes", "me/desk/note", "1")
    listed = stores("list")
    shown = stores("show", "notes", "--json")
    log = stores("log", "notes")
    rest = stores("log", "notes", "--after", "1", "--json")

    assert listed.out.splitlines()[1].split()[:3] == ["notes", "1", "3"]
    assert (shown.json["seq"], shown.json["tables"]) == (1, [])
    assert "document.create" in log.out
    assert (rest.json["entries"], rest.json["seq"]) == ([], 1)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (("show", "nowhere"), 1, "not_found"),
        (("show", "a/b"), 1, "invalid_id"),
        (("get", "notes", "99"), 1, "unknown_document"),
        (("get", "notes", "me/desk/note"), 1, "unknown_document"),
        (("get", "notes", "me/desk"), 2, None),
        (("put", "notes", "me/desk/note", "{"), 2, None),
        (("put", "notes", "99", "1"), 1, "unknown_document"),
        (("put", "notes", "me/desk/note", "1", "--history", "some"), 1, "invalid_value"),
        (("rows", "notes", "me:never"), 1, "unknown_table"),
        (("log", "notes", "--lineage", "another"), 1, "lineage_changed"),
    ],
)
def test_refusals_have_their_code_and_exit_code(stores, arguments, exit_code, code):
    found = stores(*arguments)

    assert found.exit_code == exit_code
    assert code is None or found.err.startswith(f"perdure: {code}: ")
