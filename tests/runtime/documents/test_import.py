"""An export becomes a store again, all of it or nothing that anybody sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support import conversing as c
from tests.support.documents import LINEAGE, REF, means, opened
from tests.support.exporting import (
    BytesSource,
    bytes_of,
    export_made_of,
    export_of,
    parts_of,
)
from tests.support.histories import Past
from tests.support.steps import Died, SteppedStore, Steps

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.commit import CommitWrites, TakeOwner
from perdure.kernel.documents.create import DescribeDocumentStore
from perdure.kernel.documents.errors import StoreImporting
from perdure.kernel.documents.log import ReadLog
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.errors import NotEmpty, NotFound, OutcomeUnknown, PerdureError, StaleWriter
from perdure.kernel.ids import DocumentStoreId, Holder, Lineage, Token
from perdure.runtime.documents.conversations import ConversationStorage
from perdure.runtime.documents.export import Progress
from perdure.runtime.documents.importing import discard_import, import_store
from perdure.runtime.documents.store import OpenStore, StoreMeans

pytestmark = pytest.mark.stores

COPY = DocumentStoreRef(REF.storage, DocumentStoreId("copy"))
OTHER = Lineage("otherotherotherother00")


async def made(seed: int, commits: int = 60) -> bytes:
    """Return the export of a store with a past."""
    records = MemoryStore()
    async with opened(records) as source:
        past = Past(source, seed)
        await past.begin()
        await past.go_on(commits)
        await past.end()
        return await bytes_of(source.means, REF)


@pytest.fixture(scope="module")
def exported() -> bytes:
    return asyncio.run(made(11))


async def imported(with_: StoreMeans, data: bytes, **options: Any) -> None:
    await import_store(with_, COPY, BytesSource(data), lineage=OTHER, **options)


@pytest.mark.parametrize("seed", range(4))
async def test_an_imported_store_is_exported_as_it_was(seed: int) -> None:
    data = await made(seed)
    with_ = means()

    await imported(with_, data)

    assert await bytes_of(with_, COPY) == data


async def test_an_imported_store_goes_on_with_the_history_of_its_source(exported: bytes) -> None:
    manifest = parts_of(exported)[0]
    with_ = means()

    await imported(with_, exported)

    info = await with_.authority.execute(DescribeDocumentStore(COPY))
    assert (info.lineage, info.seq) == (LINEAGE, manifest["last_seq"])
    assert (info.next_id, info.log_from) == (manifest["next_id"], manifest["last_seq"] + 1)
    assert (info.follows, info.importing, info.held) == (False, False, ())
    store = await OpenStore.open(with_, COPY)
    talk = await ConversationStorage.open(store, "pi")
    id = talk.mint()
    assert id == manifest["next_id"]
    assert await talk.commit([c.entry(id)]) == manifest["last_seq"] + 1
    assert (await talk.conversation(1)) == {"id": 1}


async def test_no_grip_of_the_source_is_one_on_what_was_imported() -> None:
    async with opened() as source:
        taken = TakeOwner(REF, "pi", Holder("h"), 60_000)
        grip, _ = await source.means.authority.execute(taken)
        data, _ = await export_of(source.means, REF)
    with_ = means()

    await imported(with_, data)

    stale = CommitWrites(COPY, (), Token("late"), grip=grip)
    with pytest.raises(StaleWriter):
        await with_.authority.execute(stale)
    again, _ = await with_.authority.execute(TakeOwner(COPY, "pi", Holder("h"), 60_000))
    assert again.epoch > grip.epoch


async def test_progress_comes_to_every_byte_twice_checked_then_written(exported: bytes) -> None:
    seen: list[Progress] = []

    await imported(means(), exported, report=seen.append)

    assert [each.phase for each in seen] == sorted(each.phase for each in seen)
    ends = {each.phase: each.bytes for each in seen}
    assert ends == {"checking": len(exported), "writing": len(exported)}


async def test_a_store_that_holds_anything_takes_no_import(exported: bytes) -> None:
    async with opened(ref=COPY) as store:
        past = Past(store, 1)
        await past.begin()
        before = await bytes_of(store.means, COPY)

        with pytest.raises(NotEmpty):
            await imported(store.means, exported)

        assert await bytes_of(store.means, COPY) == before


async def test_an_empty_store_takes_an_import_and_its_lineage(exported: bytes) -> None:
    async with opened(ref=COPY) as store:
        await imported(store.means, exported)

        assert await bytes_of(store.means, COPY) == exported


class Halting:
    """A source that dies when it is read a second time, so far."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._readings = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        self._readings += 1
        yield self._data[: self._at]
        if self._readings == 2:
            raise Died
        yield self._data[self._at :]


async def half_imported(with_: StoreMeans, data: bytes) -> None:
    source = Halting(data, len(data) - 200)
    with pytest.raises(Died):
        await import_store(with_, COPY, source, lineage=OTHER)


async def test_of_an_import_that_has_not_ended_nothing_is_seen(exported: bytes) -> None:
    with_ = means()
    await half_imported(with_, exported)

    commit = CommitWrites(COPY, (), Token("t"))
    for asked in (commit, TakeOwner(COPY, "pi", Holder("h"), 1), ReadLog(COPY)):
        with pytest.raises(StoreImporting):
            await with_.authority.execute(asked)
    with pytest.raises(StoreImporting):
        await OpenStore.open(with_, COPY)
    with pytest.raises(StoreImporting):
        await bytes_of(with_, COPY)
    info = await with_.authority.execute(DescribeDocumentStore(COPY))
    assert (info.importing, info.seq) == (True, 0)


async def test_another_export_waits_until_the_first_is_discarded(exported: bytes) -> None:
    with_ = means()
    await half_imported(with_, exported)
    other = await made(12, 5)
    with pytest.raises(StoreImporting):
        await imported(with_, other)

    await discard_import(with_, COPY)
    await imported(with_, other)

    assert await bytes_of(with_, COPY) == other
    with pytest.raises(NotEmpty):
        await discard_import(with_, COPY)


async def test_what_was_discarded_is_an_empty_store_of_its_own(exported: bytes) -> None:
    with_ = means()
    await half_imported(with_, exported)

    await discard_import(with_, COPY)

    info = await with_.authority.execute(DescribeDocumentStore(COPY))
    assert (info.lineage, info.seq, info.importing) == (OTHER, 0, False)
    assert len(parts_of(await bytes_of(with_, COPY))) == 2


@pytest.mark.parametrize("when", ["before", "after", "lost"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
async def test_an_import_that_died_at_any_commit_goes_on_where_it_was(
    exported: bytes, at: int, when: Any
) -> None:
    records = MemoryStore()
    steps = Steps(at, when=when, of="commit")
    dying = means(SteppedStore(records, steps))
    if when == "lost":  # nobody died: the engine sends it again, and finds it there
        await imported(dying, exported)
    else:
        with pytest.raises((Died, OutcomeUnknown)):
            await imported(dying, exported)
        with_ = means(records, prefix="again")
        if at > 1 or when == "after":
            info = await with_.authority.execute(DescribeDocumentStore(COPY))
            assert info.importing or bytes(await bytes_of(with_, COPY)) == exported
        try:
            await imported(with_, exported)
        except NotEmpty:  # it had died behind its last commit
            assert when == "after"

    assert await bytes_of(means(records, prefix="last"), COPY) == exported
    assert steps.taken >= at


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


REFUSALS = [
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
]


async def refused(data: bytes) -> str:
    """Return the code of the refusal of an import, which leaves nothing."""
    records = MemoryStore()
    with_ = means(records)
    with pytest.raises(PerdureError) as error:
        await imported(with_, data)
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


async def test_parts_as_they_are_make_the_same_export(exported: bytes) -> None:
    assert export_made_of(parts_of(exported)) == exported


@pytest.mark.parametrize("count", ["tables", "rows", "documents", "revisions"])
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
