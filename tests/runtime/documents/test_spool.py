"""What an export keeps on disk while it reads: a disk that fails it has a code, and leaves nothing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.support.documents import REF, opened

from perdure.kernel.documents.content import base
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.errors import StoreUnavailable
from perdure.runtime.documents import export_files
from perdure.runtime.documents.export import export_to_file
from perdure.runtime.documents.export_files import FileSink

pytestmark = pytest.mark.stores


def full(**_: Any) -> Any:
    """Open a file that takes nothing."""
    return Path("/dev/full").open("r+b")


def there(directory: Path) -> list[Path]:
    return list(directory.iterdir())


@pytest.mark.parametrize("size", [10, 100_000])
async def test_an_export_beside_a_full_disk_is_unavailable(
    tmp_path: Path, monkeypatch: Any, size: int
) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    async with opened() as store:
        note = CreateDocument(Address("a", "n", "k"), "none", base(1, "x" * size))
        await store.commit([note])

        with pytest.raises(StoreUnavailable):
            await export_to_file(store.means, REF, tmp_path / "export")

    assert there(tmp_path) == []


@pytest.mark.parametrize("size", [10, 100_000])
async def test_an_export_that_its_disk_does_not_hold_is_unavailable_and_leaves_nothing(
    tmp_path: Path, monkeypatch: Any, size: int
) -> None:
    def fdopen(handle: int, mode: str) -> Any:
        os.close(handle)
        return Path("/dev/full").open(mode)

    monkeypatch.setattr(export_files.os, "fdopen", fdopen)

    async def written() -> None:
        with FileSink(tmp_path / "export") as sink:
            await sink.write(b"x" * size)
            await sink.finish()

    with pytest.raises(StoreUnavailable):
        await written()

    assert there(tmp_path) == []


async def test_an_export_into_a_directory_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    async with opened() as store:
        with pytest.raises(StoreUnavailable):
            await export_to_file(store.means, REF, tmp_path / "none" / "export")
