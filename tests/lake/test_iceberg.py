"""Iceberg tables: made once, appended to by compare-and-swap, never hurt by a lying answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ValidationException,
)

from perdure.kernel.component import Component
from perdure.kernel.errors import SchemaMismatch, StoreUnavailable
from perdure.kernel.ids import StorageId, Tick, Token, WorldId
from perdure.kernel.places import catalog_partition
from perdure.lake.catalog import Guarded, LocalCatalog, open_local
from perdure.lake.iceberg import Lake, Verdict, append, head_of, verdict
from perdure.lake.scan import holds_rows
from perdure.lake.schema import schema_from_signature, signature_record


class Position(Component):
    x: float


SIGNATURE = signature_record(catalog_partition(StorageId("s")), [Position.component])
SCHEMA = schema_from_signature(SIGNATURE)


def rows(*entities: int, tick: int = 0) -> pa.Table:
    base = {"world_id": "w", "run_id": "r", "tick": tick, "is_active": True, "commit": "t"}
    return pa.Table.from_pylist(
        [{**base, "entity_id": each, "position__x": 0.5} for each in entities], schema=SCHEMA
    )


class Lying(SqlCatalog):
    """Applies a commit, and answers that it failed: a retry inside the transport does this."""

    answer: type[Exception] | None = None

    def commit_table(self, *arguments):
        response = super().commit_table(*arguments)
        if self.answer is None:
            return response
        raise self.answer("Requirement failed: branch main has changed")


class GuardedLying(Guarded, Lying):
    pass


class Refusing(SqlCatalog):
    def commit_table(self, *arguments):
        raise CommitFailedException("somebody was first")


class GuardedRefusing(Guarded, Refusing):
    pass


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "with space, #?%41é"


@pytest.fixture
def catalog(root) -> Iterator[SqlCatalog]:
    catalog = open_local(root)
    yield catalog
    catalog.close()


@pytest.fixture
def lake(catalog) -> Lake:
    return Lake(catalog, "main")


def entities(lake: Lake) -> list[int]:
    return sorted(lake.opened(SIGNATURE).scan().to_arrow().column("entity_id").to_pylist())


@pytest.mark.parametrize("answer", [CommitFailedException, ValidationException])
def test_without_the_guard_a_lying_answer_makes_the_table_unreadable(root, lake, answer):
    """The bug this guards against, in pyiceberg 0.12; when this fails, look at the guard again."""
    lake.created(SIGNATURE)
    lying = open_local(root, Lying)
    table = Lake(lying, "main").opened(SIGNATURE)
    lying.answer = answer

    with pytest.raises(answer):
        append(table, rows(1, 2), "b1")

    lying.close()
    with pytest.raises(FileNotFoundError):
        entities(lake)


@pytest.mark.parametrize("answer", [CommitFailedException, ValidationException, ConnectionError])
def test_behind_the_guard_a_lying_answer_is_found_out(root, lake, answer):
    lake.created(SIGNATURE)
    lying = open_local(root, GuardedLying)
    table = Lake(lying, "main").opened(SIGNATURE)
    lying.answer = answer

    append(table, rows(1, 2), "b1")

    lying.close()
    assert entities(lake) == [1, 2]
    assert verdict(lake.opened(SIGNATURE), "b1", None) is Verdict.LANDED


def test_a_true_refusal_is_told_as_unknown_and_deletes_nothing(root, lake):
    lake.created(SIGNATURE)
    refusing = open_local(root, GuardedRefusing)
    files = sorted(root.rglob("*.avro"))

    with pytest.raises(CommitStateUnknownException):
        append(Lake(refusing, "main").opened(SIGNATURE), rows(1), "b1")

    refusing.close()
    assert len(list(root.rglob("*.avro"))) == len(files) + 2
    assert entities(lake) == []


def test_the_guard_loads_nothing_when_even_the_look_up_fails(root, lake):
    class Gone(Lying):
        def load_table(self, identifier):
            if self.answer is not None:
                raise ConnectionError("no catalog")
            return super().load_table(identifier)

        def commit_table(self, *arguments):
            answer, self.answer = self.answer, None
            SqlCatalog.commit_table(self, *arguments)
            self.answer = answer
            raise answer("changed")

    class GuardedGone(Guarded, Gone):
        pass

    lake.created(SIGNATURE)
    gone = open_local(root, GuardedGone)
    table = Lake(gone, "main").opened(SIGNATURE)
    gone.answer = CommitFailedException

    with pytest.raises(CommitStateUnknownException):
        append(table, rows(1), "b1")

    gone.close()
    assert entities(lake) == [1]


def test_an_append_on_an_old_head_is_refused_not_rebased(lake):
    lake.created(SIGNATURE)
    stale = lake.opened(SIGNATURE)
    append(lake.opened(SIGNATURE), rows(1), "b1")

    with pytest.raises(CommitStateUnknownException):
        append(stale, rows(1), "b1")

    assert entities(lake) == [1]


def test_readers_open_and_never_create(lake, catalog, root):
    assert lake.opened(SIGNATURE) is None

    assert catalog.list_namespaces() == []
    assert not (root / "warehouse").exists()


def test_rivals_create_one_table(root):
    def created(_: int) -> str:
        catalog = open_local(root)
        try:
            return str(Lake(catalog, "main").created(SIGNATURE).metadata.table_uuid)
        finally:
            catalog.close()

    with ThreadPoolExecutor(4) as pool:
        uuids = set(pool.map(created, range(4)))

    assert len(uuids) == 1


class Unheard(SqlCatalog):
    """Makes a table, or does not, and never answers."""

    makes = True

    def create_table(self, *arguments, **options):
        if self.makes:
            super().create_table(*arguments, **options)
        raise ConnectionError("no answer")


@pytest.mark.parametrize("makes", [True, False], ids=["made", "not made"])
def test_a_table_like_another_is_asked_for_again_if_no_answer_comes(lake, tmp_path, makes):
    model = lake.created(SIGNATURE)
    catalog = Unheard("elsewhere", uri="sqlite://", warehouse=str(tmp_path / "elsewhere"))
    catalog.create_namespace("main")
    catalog.makes = makes

    if makes:
        found = Lake(catalog, "main").like("copy", model)
        assert found.schema().as_arrow() == model.schema().as_arrow()
    else:
        with pytest.raises(StoreUnavailable, match="to create table copy"):
            Lake(catalog, "main").like("copy", model)
    catalog.close()


def test_a_table_of_another_schema_is_refused_to_readers_and_landing(lake, catalog):
    lake.created(SIGNATURE)
    table = catalog.load_table(("main", SIGNATURE.table))
    with table.update_schema() as update:
        update.rename_column("position__x", "position__longitude")

    for use in (lake.opened, lake.created):
        with pytest.raises(SchemaMismatch):
            use(SIGNATURE)


def test_a_directory_that_cannot_be_made_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(StoreUnavailable):
        open_local(tmp_path / "file" / "root")


@pytest.mark.parametrize(
    ("parent", "expired", "batch", "seen"),
    [
        (0, 0, "b2", Verdict.LANDED),
        (0, 0, "b9", Verdict.NOT_LANDED),
        (None, 0, "b9", Verdict.NOT_LANDED),
        (None, 0, "b0", Verdict.LANDED),
        (2, 0, "b9", Verdict.NOT_LANDED),
        (2, 0, "b1", Verdict.NOT_LANDED),  # the search ends at the parent
        (1, 1, "b9", Verdict.NOT_LANDED),
        (0, 2, "b3", Verdict.LANDED),
        (0, 2, "b1", Verdict.UNTOLD),
        (None, 1, "b0", Verdict.UNTOLD),  # expiry cuts parents off: no beginning of the table
        (None, 3, "b0", Verdict.UNTOLD),
    ],
)
def test_only_an_unbroken_chain_proves_that_a_batch_is_not_there(
    lake, parent, expired, batch, seen
):
    lake.created(SIGNATURE)
    heads = []
    for number in range(4):
        table = lake.opened(SIGNATURE)
        append(table, rows(number), f"b{number}")
        heads.append(head_of(table))
    if expired:
        table.maintenance.expire_snapshots().by_ids(heads[:expired]).commit()

    table = lake.opened(SIGNATURE)

    assert verdict(table, batch, None if parent is None else heads[parent]) is seen


@pytest.mark.parametrize(("parent", "seen"), [(None, Verdict.NOT_LANDED), (5, Verdict.UNTOLD)])
def test_an_empty_table_proves_absence_only_if_it_was_empty_before(lake, parent, seen):
    assert verdict(lake.created(SIGNATURE), "b0", parent) is seen


@pytest.mark.parametrize(
    ("world", "tick", "token", "is_there"),
    [("w", 3, "t", True), ("v", 3, "t", False), ("w", 4, "t", False), ("w", 3, "u", False)],
)
def test_rows_of_a_tick_are_found_by_world_tick_and_token(lake, world, tick, token, is_there):
    append(lake.created(SIGNATURE), rows(1, 2, tick=3), "b0")

    found = holds_rows(lake.opened(SIGNATURE), WorldId(world), Tick(tick), Token(token))

    assert found is is_there


def test_old_metadata_is_trimmed_while_appends_go_on(lake, root):
    lake.created(SIGNATURE)
    for number in range(15):
        append(lake.opened(SIGNATURE), rows(number), f"b{number}")

    assert len(list(root.rglob("*.metadata.json"))) <= 12
    assert entities(lake) == list(range(15))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks into /proc")
def test_every_file_a_commit_names_was_synced_first(root, lake, monkeypatch):
    synced: set[str] = set()
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.add(str(Path(f"/proc/self/fd/{handle}").readlink()))
        real(handle)

    table = lake.created(SIGNATURE)
    monkeypatch.setattr(os, "fsync", fsync)

    append(table, rows(1), "b0")

    written = {*root.rglob("*.parquet"), *root.rglob("*.avro"), *root.rglob("00001-*.json")}
    assert len(written) == 4
    assert {str(path) for path in written} <= synced
    assert str(next(root.rglob("data"))) in synced


def test_the_local_catalog_is_guarded():
    assert issubclass(LocalCatalog, Guarded)
