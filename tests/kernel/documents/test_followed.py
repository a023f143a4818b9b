"""What a commit changes of something followed, from its log entry alone, or that it takes a look."""

from __future__ import annotations

import pytest
from tests.support.following import NOTES, address

from perdure.kernel.documents.followed import AddressView, NamespaceView, TableView, within
from perdure.kernel.documents.places import spelled_key

pytestmark = pytest.mark.stores

OTHER = {"owner": "app", "namespace": "main", "kind": "note", "key": "b", "meta": None}
NOTE = {**OTHER, "key": "a"}
CURRENT = {"id": 2, "version": 1, "value": {"n": 0}, "meta": None}
ROW = {"id": 1, "state": "open", "size": 1}


def create(id, **more):
    content = {"kind": "base", "version": 1, "value": {"n": 0}}
    return {"w": "document.create", "id": id, **NOTE, "content": content, **more}


def delta(id, *ops):
    content = {"kind": "delta", "version": 1, "ops": list(ops)}
    return {"w": "document.change", "id": id, "content": content}


def retire(id):
    return {"w": "document.retire", "id": id}


@pytest.mark.parametrize(
    ("value", "writes", "ops"),
    [
        (None, [create(2)], [["r", CURRENT]]),
        (None, [create(2, **OTHER)], []),
        (None, [create(2), retire(2)], []),
        (None, [delta(2, ["s", ["n"], 1])], []),
        (CURRENT, [delta(3, ["s", ["n"], 1])], []),
        (CURRENT, [retire(3)], []),
        (CURRENT, [delta(2, ["r", 5], ["d", ["x"]])], [["s", ["value"], 5], ["d", ["value", "x"]]]),
        (CURRENT, [delta(2, ["s", ["n"], 1]), retire(2)], [["r", None]]),
        (CURRENT, [retire(2), create(9)], [["r", {**CURRENT, "id": 9}]]),
        (CURRENT, [{"w": "row.put", "table": "app:notes", "row": ROW}], []),
        (CURRENT, [{"w": "document.unheard_of", "id": 9}], None),
    ],
)
def test_an_address_goes_from_one_document_to_the_next(value, writes, ops):
    assert AddressView(address("a")).ops(value, writes) == ops


def test_one_life_does_not_go_on_with_the_next():
    view = AddressView(address("a"), one_life=True)

    assert view.ops(CURRENT, [retire(2), create(9)]) == [["r", None]]
    assert view.again(CURRENT, {**CURRENT, "id": 9}) is None
    assert view.again(CURRENT, {**CURRENT, "version": 2}) == {**CURRENT, "version": 2}
    assert view.is_over(None)
    assert not view.is_over(CURRENT)


@pytest.mark.parametrize("kind", ["p", "m", "a", "t"])
def test_every_operation_on_a_value_is_one_on_what_holds_it(kind):
    assert within([kind, ["x", 0], 1, 2]) == [kind, ["value", "x", 0], 1, 2]


def test_a_namespace_lists_what_lives_and_how_often_it_was_changed():
    listed = {"kind": "note", "key": "a", "version": 1, "revision": 1, "meta": None}
    view = NamespaceView("app", "main")

    begun = view.ops({}, [create(2), create(3, **OTHER), create(4, namespace="else"), retire(3)])
    changed = view.ops({"2": listed}, [delta(2, ["s", ["n"], 1]), delta(9)])

    assert begun == [["s", ["2"], listed]]
    assert changed == [["s", ["2"], {**listed, "revision": 2}]]
    assert view.ops({"2": listed}, [retire(2), retire(9)]) == [["d", ["2"]]]
    assert view.ops({}, [{"w": "document.unheard_of", "id": 9}]) is None
    assert NamespaceView("app", "main", "todo").ops({}, [create(2)]) == []


@pytest.mark.parametrize(
    ("where", "write", "is_told"),
    [
        ({}, {"w": "row.update", "key": [9], "changes": {"size": 2}}, False),
        ({"state": "open"}, {"w": "row.update", "key": [9], "changes": {"size": 2}}, True),
        ({"state": "open"}, {"w": "row.update", "key": [9], "changes": {"state": "open"}}, False),
        ({"state": "open"}, {"w": "rows.update", "where": {}, "changes": {"state": "x"}}, False),
        ({"state": "open"}, {"w": "rows.update", "where": {}, "changes": {"size": 2}}, True),
        ({"state": "open"}, {"w": "rows.delete", "where": {"size": 1}}, True),
        ({}, {"w": "table.alter", "key": ["id"]}, True),
        ({}, {"w": "table.alter", "key": ["id", "size"]}, False),
        ({}, {"w": "row.move", "version": 2, "row": ROW}, True),
        ({}, {"w": "table.moved", "version": 2}, True),
        ({}, {"w": "table.declare", "key": ["id"]}, True),
        ({}, {"w": "table.unheard_of"}, False),
        ({}, {"w": "row.unheard_of"}, False),
    ],
)
def test_a_table_says_when_only_a_look_can_tell(where, write, is_told):
    rows = {"k/": ROW}

    ops = TableView(NOTES, where).ops(rows, [{**write, "table": "app:notes"}])

    assert (ops is not None) is is_told
    assert TableView(NOTES, where).ops(rows, [{**write, "table": "app:other"}]) == []


@pytest.mark.parametrize("where", [{}, {"state": "open"}])
def test_a_write_by_condition_is_told_of_what_its_own_commit_has_written_before(where):
    first, second = ({**ROW, "id": id} for id in (1, 2))
    key_1, key_2 = (spelled_key((id,)) for id in (1, 2))
    put = {"w": "row.put", "table": "app:notes", "row": second}
    close = {"w": "row.update", "table": "app:notes", "key": [1], "changes": {"state": "done"}}
    grow = {"w": "rows.update", "table": "app:notes", "where": {"state": "open"}}
    grow["changes"] = {"size": 7}
    drop = {"w": "rows.delete", "table": "app:notes", "where": {"state": "open"}}
    value = {key_1: first}
    closed = ["d", [key_1]] if where else ["s", [key_1], {**first, "state": "done"}]

    view = TableView(NOTES, where)

    assert view.ops(value, [put, close, grow]) == [["s", [key_2], {**second, "size": 7}], closed]
    assert view.ops(value, [put, close, drop]) == [closed]
