"""Expiry: what goes is what nothing names any more."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitStateUnknownException

from perdure.kernel.component import Component
from perdure.kernel.ids import StorageId
from perdure.kernel.places import catalog_partition
from perdure.lake.catalog import LocalCatalog, open_local
from perdure.lake.expire import expire
from perdure.lake.iceberg import Lake, append
from perdure.lake.schema import schema_from_signature, signature_record


class Position(Component):
    x: float


SIGNATURE = signature_record(catalog_partition(StorageId("s")), [Position.component])


def appended(lake: Lake, *numbers: int) -> None:
    for number in numbers:
        row = {"world_id": "w", "run_id": "r", "entity_id": number, "tick": number}
        whole = {**row, "is_active": True, "commit": "t", "position__x": 0.5}
        rows = pa.Table.from_pylist([whole], schema=schema_from_signature(SIGNATURE))
        append(lake.created(SIGNATURE), rows, f"b{number}")


def entities(lake: Lake, snapshot_id: int | None = None) -> list[int]:
    found = lake.opened(SIGNATURE).scan(snapshot_id=snapshot_id).to_arrow()
    return sorted(found.column("entity_id").to_pylist())


def avro_files(root: Path) -> int:
    return len(list(root.rglob("*.avro")))


@pytest.fixture
def lake(tmp_path):
    catalog = open_local(tmp_path)
    yield Lake(catalog, "main")
    catalog.close()


def test_a_trim_keeps_the_last_snapshots_every_row_and_no_file_too_many(lake, tmp_path):
    appended(lake, *range(30))  # four times as many as are merged into one manifest
    before = avro_files(tmp_path)

    dropped, removed = expire(lake.opened(SIGNATURE), above=10, kept=4)

    table = lake.opened(SIGNATURE)
    assert (dropped, len(table.snapshots())) == (26, 4)
    assert entities(lake) == list(range(30))
    for number, snapshot in enumerate(table.snapshots()):
        assert entities(lake, snapshot.snapshot_id) == list(range(27 + number))
    named = {
        file
        for each in table.snapshots()
        for file in (each.manifest_list, *(m.manifest_path for m in each.manifests(table.io)))
    }
    # Each time it merges manifests, pyiceberg itself leaves one behind that nothing ever named.
    assert avro_files(tmp_path) == before - removed == len(named) + 4
    assert len(list(tmp_path.rglob("*.parquet"))) == 30


def test_appends_go_on_after_a_trim(lake):
    appended(lake, *range(12))
    expire(lake.opened(SIGNATURE), above=5, kept=1)

    appended(lake, *range(12, 40))
    expire(lake.opened(SIGNATURE), above=5, kept=1)

    assert entities(lake) == list(range(40))


def test_few_snapshots_are_left_alone(lake, tmp_path):
    appended(lake, 0, 1, 2)
    before = avro_files(tmp_path)

    assert expire(lake.opened(SIGNATURE), above=3, kept=1) == (0, 0)
    assert avro_files(tmp_path) == before


def test_a_tagged_snapshot_stays_readable(lake):
    appended(lake, 0, 1, 2)
    table = lake.opened(SIGNATURE)
    tagged = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(tagged, "audit").commit()
    appended(lake, *range(3, 12))

    expire(lake.opened(SIGNATURE), above=5, kept=2)

    assert entities(lake, tagged) == [0, 1, 2]


@pytest.mark.parametrize("is_applied", [True, False])
def test_an_unanswered_expiry_removes_only_files_of_what_is_gone(tmp_path, lake, is_applied):
    appended(lake, *range(8))

    class Unanswered(LocalCatalog):
        def commit_table(self, *arguments):
            if is_applied:
                super().commit_table(*arguments)
            raise CommitStateUnknownException("no answer")

    catalog = open_local(tmp_path, Unanswered)

    dropped, removed = expire(Lake(catalog, "main").opened(SIGNATURE), above=5, kept=2)

    catalog.close()
    assert dropped == (6 if is_applied else 0)
    assert (removed > 0) is is_applied
    assert entities(lake) == list(range(8))
    for snapshot in lake.opened(SIGNATURE).snapshots():
        entities(lake, snapshot.snapshot_id)
