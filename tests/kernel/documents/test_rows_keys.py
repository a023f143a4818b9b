"""Any number, text and truth is a key, sorts as it must, and comes back as it was."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.store_rows import EDITS, NAMES, desk, edit, refuses

from perdure.kernel.documents import places
from perdure.kernel.documents.errors import (
    RowExists,
)
from perdure.kernel.documents.places import KEY_TEXT_BYTES_MAX, SAFE_INTEGER_MAX
from perdure.kernel.documents.rows import (
    DeleteRow,
    InsertRow,
    UpdateRow,
)
from perdure.kernel.errors import (
    InvalidValue,
    PerdureError,
    TooLarge,
    UnknownField,
    WrongType,
)

pytestmark = pytest.mark.stores


def test_a_stamp_is_a_number_beside_the_key():
    at = desk()

    refuses(at, InvalidValue, InsertRow(EDITS, edit(1), stamps=("id",)))
    refuses(at, WrongType, InsertRow(EDITS, edit(1), stamps=("by",)))
    refuses(at, UnknownField, InsertRow(EDITS, edit(1), stamps=("when",)))


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ((), InvalidValue),
        ((1, 2), InvalidValue),
        (("1",), WrongType),
        ((True,), WrongType),
        ((None,), WrongType),
        ((1.0,), WrongType),
    ],
)
def test_what_is_no_key_of_the_table_is_refused(key: tuple[Any, ...], kind: type[PerdureError]):
    at = desk(edit(1))

    refuses(at, kind, DeleteRow(EDITS, key))
    refuses(at, kind, UpdateRow(EDITS, key, {"by": "eve"}))


def test_numbers_sort_as_numbers_below_zero_too():
    ids = [0, -1, 1, -SAFE_INTEGER_MAX, SAFE_INTEGER_MAX, -10, 10, 9, -9]

    at = desk(*(edit(id) for id in ids))

    assert [row["id"] for row in at.values(EDITS)] == sorted(ids)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "a/b",
        "a/",
        "..",
        "\0",
        "\ud800",
        "\udfff x",
        "😀",
        "\u00e9",
        "e\u0301",
        '"',
        "\\u002f",
        "\n",
    ],
)
def test_any_text_is_a_key_and_comes_back_as_it_was(name: str):
    at = desk()

    at.commit(InsertRow(NAMES, {"name": name, "page": 1}))
    refuses(at, RowExists, InsertRow(NAMES, {"name": name, "page": 1}))
    found = at.rows(NAMES)
    at.commit(DeleteRow(NAMES, (name, 1)))

    assert [(row.row_key, row.value["name"]) for row in found] == [((name, 1), name)]
    assert at.rows(NAMES) == []


def test_texts_that_look_alike_are_different_keys():
    names = ["\ud800", "\ud801", "�", "\\ud800", "\u00e9", "e\u0301", "a", "a/", "a/1"]
    at = desk()

    at.commit(*(InsertRow(NAMES, {"name": name, "page": 1}) for name in names))

    assert sorted(row["name"] for row in at.values(NAMES)) == sorted(names)


def test_rows_that_begin_with_one_key_part_lie_together_whatever_it_ends_with():
    names = ["a", "a!", "a/", "a0", "ab", "a\0"]
    at = desk()

    at.commit(
        *(InsertRow(NAMES, {"name": name, "page": page}) for name in names for page in (2, 1))
    )
    found = [row.row_key for row in at.rows(NAMES)]

    assert [page for _, page in found] == [1, 2] * len(names)
    assert len({name for name, _ in found}) == len(names)


def test_a_text_that_no_key_has_room_for_is_refused():
    at = desk()
    longest = "x" * KEY_TEXT_BYTES_MAX

    at.commit(InsertRow(NAMES, {"name": longest, "page": 1}))

    refuses(at, TooLarge, InsertRow(NAMES, {"name": longest + "x", "page": 1}))
    refuses(
        at, TooLarge, InsertRow(NAMES, {"name": "é" * (KEY_TEXT_BYTES_MAX // 6 + 1), "page": 1})
    )
    refuses(at, TooLarge, DeleteRow(NAMES, (longest + "x", 1)))


def test_a_text_of_an_index_may_be_longer_than_a_key():
    at = desk(edit(1, "x" * 10_000), edit(2, "x" * 10_001))

    assert at.index_is_whole(EDITS)
    assert len(at.index(EDITS)) == 2


def test_a_key_is_spelled_in_no_more_than_a_store_takes():
    spelled = places.spelled_key(("é/\ud800", -1, True, 1))

    assert spelled == "\\u00e9\\u002f\\ud800/09007199254740991/1/09007199254740993/"
