"""Files that survive the loss of power: every one is synced before a table may name it."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO, PyArrowLocalFileSystem

BUFFER_BYTES: Final = 1 << 20

WAREHOUSE: Final = "warehouse"
"""The directory of a local lake that holds the tables' files."""


class DurableFileIO(PyArrowFileIO):
    """What pyiceberg writes through, with local files synced on close.

    pyiceberg itself syncs nothing, while its SQLite catalog does: after a power cut the
    catalog would name files that are empty. Named by path in the catalog's properties.
    """

    def _initialize_local_fs(self) -> PyArrowLocalFileSystem:
        return _SyncedFileSystem()

    def new_input(self, location: str) -> PyArrowFile:
        return super().new_input(self._here(location))

    def new_output(self, location: str) -> PyArrowFile:
        return super().new_output(self._here(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        super().delete(self._here(location) if isinstance(location, str) else location)

    def _here(self, location: str) -> str:
        """Return where a file of this warehouse lies now.

        Metadata holds absolute paths. After the directory was moved or copied they lead to
        where it was: into nothing, or, worse, into the original. What is behind the last
        ``/warehouse/`` is the same in both.
        """
        root = self.properties["warehouse"]
        _, mark, rest = location.rpartition(f"/{WAREHOUSE}/")
        return f"{root}/{rest}" if mark else location


class _SyncedFileSystem(PyArrowLocalFileSystem):
    def open_output_stream(self, path: str, *_: Any, **__: Any) -> Any:
        # No parents by flag: what a table's first file creates must be synced upwards, too.
        _ensure_directory(Path(path).parent)
        return pa.PythonFile(io.BufferedWriter(_SyncedFile(path, "wb"), BUFFER_BYTES), mode="w")


class _SyncedFile(io.FileIO):
    def close(self) -> None:
        if self.closed:
            return
        try:
            os.fsync(self.fileno())
        finally:
            super().close()
        _sync_directory(Path(str(self.name)).parent)


def _ensure_directory(directory: Path) -> None:
    if directory.is_dir():
        return
    _ensure_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    _sync_directory(directory.parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
