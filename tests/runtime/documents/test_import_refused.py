"""What no store has written so is not imported: each damage has its code, and leaves nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.documents import REF, means
from tests.support.exporting import BytesSource, export_made_of, made, parts_of

from perdure.kernel.documents.create import DescribeDocumentStore
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.errors import NotFound, PerdureError
from perdure.kernel.ids import DocumentStoreId, Lineage
from perdure.runtime.documents.importing import import_store

pytestmark = pytest.mark.stores

COPY = DocumentStoreRef(REF.storage, DocumentStoreId("copy"))


@pytest.fixture(scope="module")
def exported() -> bytes:
    return asyncio.run(made(11, 120))


Parts = list[dict[str, Any]]


def of(parts: Parts, part: str, **fields: Any) -> dict[str, Any]:
    """Return the first part of a kind with these fields."""
    return next(each for each in parts if each["part"] == part and fields.items() <= each.items())


def living(parts: Parts) -> Parts:
    """Return the documents that have not ended."""
    return [
        each for each in parts if each["part"] == "document.create" and "retired_at" not in each
    ]


def two_part_names(parts: Parts) -> None:
    of(parts, "table")["table"] = "items"


def first_is_a_delta(parts: Parts) -> None:
    at = parts.index(of(parts, "document.create", history="rewindable"))
    ops: list[Any] = []
    parts[at + 1]["content"] = {"kind": "delta", "version": 1, "ops": ops}


def long_tail(parts: Parts) -> int:
    """Return where the second of at least two contents of a document is."""
    for at, part in enumerate(parts):
        before = parts[at - 1]
        if part["part"] == before["part"] == "document.revision" and (
            part["content"]["kind"] == "delta" and part["id"] == before["id"]
        ):
            return at
    raise AssertionError("no document with a delta")


def out_of_order(parts: Parts) -> None:
    at = long_tail(parts)
    parts[at]["seq"] = parts[at - 1]["seq"]


def beyond_the_last(parts: Parts) -> None:
    last = max(at for at, part in enumerate(parts) if part["part"] == "document.revision")
    parts[last]["seq"] = parts[0]["last_seq"] + 1


def another_version(parts: Parts) -> None:
    parts[long_tail(parts)]["content"]["version"] = 77


def inapplicable(parts: Parts) -> None:
    parts[long_tail(parts)]["content"]["ops"] = [["a", ["absent"], "x"]]


def overlapping(parts: Parts) -> None:
    one, other, *_ = living(parts)
    for name in ("owner", "namespace", "kind", "key"):
        other[name] = one[name]


def beyond_next_id(parts: Parts) -> None:
    parts[0]["next_id"] = of(parts, "document.create")["id"]


def twice(parts: Parts) -> None:
    at = parts.index(of(parts, "row"))
    parts.insert(at, dict(parts[at]))


def same_document_twice(parts: Parts) -> None:
    at = parts.index(of(parts, "document.create", history="rewindable"))
    parts[at:at] = [dict(parts[at]), dict(parts[at + 1])]


def another_tables_row(parts: Parts) -> None:
    of(parts, "row")["table"] = "pi:tasks"


def a_wrong_row(parts: Parts) -> None:
    of(parts, "row", table="notes:items")["value"]["color"] = 5


def a_wrong_key(parts: Parts) -> None:
    of(parts, "row", table="notes:items")["key"][1] += 100


def unknown_part(parts: Parts) -> None:
    parts.insert(1, {"part": "surprise"})


def unknown_field(parts: Parts) -> None:
    parts[0]["surprise"] = 1


def unknown_format(parts: Parts) -> None:
    parts[0]["format"] = 2


def without_manifest(parts: Parts) -> None:
    del parts[0]


def kept_of_the_retired(parts: Parts) -> None:
    latest = next(each for each in living(parts) if each["history"] == "latest")
    latest["retired_at"] = parts[0]["last_seq"]


def less_than_it_says(parts: Parts) -> None:
    of(parts, "document.create", history="rewindable")["revision"] += 1


def commit_behind_the_last(parts: Parts) -> None:
    of(parts, "commit")["seq"] = parts[0]["last_seq"] + 1


def commit_before_the_first(parts: Parts) -> None:
    of(parts, "commit")["seq"] = 0


def commit_that_gave_more_ids(parts: Parts) -> None:
    of(parts, "commit")["next_id"] = parts[0]["next_id"] + 1


def commit_of_ids_not_given(parts: Parts) -> None:
    kept = of(parts, "commit")
    kept["ids"] = [kept["next_id"]]


def commit_of_one_id_twice(parts: Parts) -> None:
    of(parts, "commit")["ids"] = [2, 2]


def commit_of_no_ids(parts: Parts) -> None:
    of(parts, "commit")["ids"] = ["2"]


def commit_without_digest(parts: Parts) -> None:
    of(parts, "commit")["digest"] = "0f" * 31


def commit_of_no_name(parts: Parts) -> None:
    of(parts, "commit")["commit"] = "a/b"


def commit_twice(parts: Parts) -> None:
    at = parts.index(of(parts, "commit"))
    parts.insert(at, dict(parts[at]))


def commit_under_two_ids(parts: Parts) -> None:
    at = parts.index(of(parts, "commit"))
    parts.insert(at + 1, {**parts[at], "commit": parts[at]["commit"] + "."})


def commit_behind_documents(parts: Parts) -> None:
    parts.insert(-1, parts.pop(parts.index(of(parts, "commit"))))


def commit_before_any_id(parts: Parts) -> None:
    of(parts, "commit").update(ids=[], next_id=1)


def tables_without_a_commit(parts: Parts) -> None:
    parts[0].update(last_seq=0, digest="")
    parts[1:-1] = [each for each in parts if each["part"] in ("table", "row")]


def next_id_of_the_root(parts: Parts) -> None:
    parts[0]["next_id"] = 1
    parts[1:-1] = [each for each in parts if each["part"] in ("table", "row")]


def more_revisions_than_commits(parts: Parts) -> None:
    latest = next(each for each in living(parts) if each["history"] == "latest")
    latest["revision"] = parts[0]["last_seq"] - latest["created_at"] + 2


REFUSALS = [
    (more_revisions_than_commits, "invalid_export"),
    (commit_before_any_id, "invalid_export"),
    (tables_without_a_commit, "invalid_export"),
    (next_id_of_the_root, "invalid_export"),
    (two_part_names, "invalid_export"),
    (first_is_a_delta, "invalid_export"),
    (out_of_order, "invalid_export"),
    (beyond_the_last, "invalid_export"),
    (another_version, "invalid_export"),
    (inapplicable, "invalid_export"),
    (overlapping, "lifetimes_overlap"),
    (beyond_next_id, "invalid_export"),
    (twice, "invalid_export"),
    (same_document_twice, "invalid_export"),
    (another_tables_row, "invalid_export"),
    (a_wrong_row, "invalid_export"),
    (a_wrong_key, "invalid_export"),
    (unknown_part, "invalid_export"),
    (unknown_field, "invalid_export"),
    (unknown_format, "unknown_format"),
    (without_manifest, "invalid_export"),
    (kept_of_the_retired, "invalid_export"),
    (less_than_it_says, "invalid_export"),
    (commit_behind_the_last, "invalid_export"),
    (commit_before_the_first, "invalid_export"),
    (commit_that_gave_more_ids, "invalid_export"),
    (commit_of_ids_not_given, "invalid_export"),
    (commit_of_one_id_twice, "invalid_export"),
    (commit_of_no_ids, "invalid_export"),
    (commit_without_digest, "invalid_export"),
    (commit_of_no_name, "invalid_export"),
    (commit_twice, "invalid_export"),
    (commit_under_two_ids, "invalid_export"),
    (commit_behind_documents, "invalid_export"),
]


async def refused(data: bytes) -> str:
    """Return the code of the refusal of an import, which leaves nothing."""
    with_ = means()
    with pytest.raises(PerdureError) as error:
        await import_store(with_, COPY, BytesSource(data), lineage=Lineage("o" * 22))
    with pytest.raises(NotFound):
        await with_.authority.execute(DescribeDocumentStore(COPY))
    return error.value.code


@pytest.mark.parametrize(
    ("damage", "code"), REFUSALS, ids=lambda each: getattr(each, "__name__", "")
)
async def test_an_export_that_is_not_one_is_refused_and_nothing_is_written(
    exported: bytes, damage: Any, code: str
) -> None:
    parts = parts_of(exported)
    damage(parts)

    assert await refused(export_made_of(parts)) == code


@pytest.mark.parametrize(
    "said",
    [
        {"last_seq": 2**53 - 1},
        {"last_seq": 2**63},
        {"epoch": 2**63},
        {"epoch": -1},
        {"digest": ""},
        {"digest": '"' * 64},
        {"digest": "\ud800" * 64},
        {"digest": "é" * 64},
        {"lineage": ""},
        {"lineage": "a:b"},
        {"lineage": "a\ndata: b"},
        {"lineage": "\ud800"},
    ],
    ids=str,
)
async def test_a_manifest_that_no_later_commit_could_be_spelled_behind_is_refused(
    exported: bytes, said: dict[str, Any]
) -> None:
    parts = parts_of(exported)
    parts[0].update(said)

    assert await refused(export_made_of(parts)) == "invalid_export"


async def test_parts_as_they_are_make_the_same_export(exported: bytes) -> None:
    assert export_made_of(parts_of(exported)) == exported


@pytest.mark.parametrize("count", ["tables", "rows", "commits", "documents", "revisions"])
async def test_an_end_with_other_counts_is_refused(exported: bytes, count: str) -> None:
    parts = parts_of(exported)
    parts[-1][count] += 1

    assert await refused(export_made_of(parts, digest=False)) == "counts_differ"


async def test_bytes_that_are_not_those_that_were_written_are_refused(exported: bytes) -> None:
    parts = parts_of(exported)
    of(parts, "row", table="notes:items")["value"]["more"] = "other"

    assert await refused(export_made_of(parts, digest=False)) == "digest_differs"


@pytest.mark.parametrize("left", [0, 1, 300, -1, -300])
async def test_a_file_that_stops_early_is_refused(exported: bytes, left: int) -> None:
    lines = exported.splitlines(keepends=True)
    short = {-1: exported[:-1], -300: b"".join(lines[:-1])}.get(left, exported[:left])

    assert await refused(short) in ("export_truncated", "invalid_export")


async def test_two_spellings_of_a_line_and_lines_behind_the_end_are_refused(
    exported: bytes,
) -> None:
    assert await refused(exported.replace(b'"part":', b'"part": ', 1)) == "invalid_export"
    assert await refused(exported + b"{}\n") == "invalid_export"
