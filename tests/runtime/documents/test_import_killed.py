"""Exports and imports whose process is killed are whole afterwards, or not there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.documents import REF, means, opened
from tests.support.exporting import bytes_of, made
from tests.support.histories import Past
from tests.support.importers import COPY, LINEAGE

from perdure.authority.sqlite import SqliteStore
from perdure.kernel.documents.errors import StoreImporting
from perdure.kernel.errors import NotFound
from perdure.runtime.documents.export import export_to_file
from perdure.runtime.documents.export_files import FileSource
from perdure.runtime.documents.importing import import_store

pytestmark = [pytest.mark.stores, pytest.mark.slow]


def killed(what: str, directory: Path, at: int) -> None:
    """Run a process until it is killed at a moment of its work."""
    command = [sys.executable, "-m", "tests.support.importers", what, str(directory), str(at)]
    path = ":".join(sys.path)
    run = subprocess.run(command, check=False, env={"PYTHONPATH": path}, timeout=120)
    assert run.returncode == -signal.SIGKILL


@pytest.mark.parametrize("at", [1, 3])
async def test_an_import_goes_on_after_its_process_was_killed(tmp_path: Path, at: int) -> None:
    data = await made(11)
    (tmp_path / "from.export").write_bytes(data)
    killed("import", tmp_path, at)
    with_ = means(await SqliteStore.open(tmp_path / "store.db"), prefix="next")
    with pytest.raises((NotFound, StoreImporting)):
        await bytes_of(with_, COPY)

    await import_store(with_, COPY, FileSource(tmp_path / "from.export"), lineage=LINEAGE)

    assert await bytes_of(with_, COPY) == data
    await with_.authority.close()


@pytest.mark.parametrize("at", [1, 5, 14])
async def test_an_export_whose_process_was_killed_is_not_there(tmp_path: Path, at: int) -> None:
    async with opened(await SqliteStore.open(tmp_path / "store.db")) as source:
        past = Past(source, 3)
        await past.begin()
        await past.go_on(40)

    killed("export", tmp_path, at)

    path = tmp_path / "to.export"
    assert not path.exists()
    with_ = means(await SqliteStore.open(tmp_path / "store.db"), prefix="next")
    await export_to_file(with_, REF, path)
    assert path.read_bytes() == await bytes_of(with_, REF)
    await with_.authority.close()
