"""Where exports lie: in one file, or as parts in objects with a list of them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.documents.errors import DigestDiffers, ExportTruncated, UnknownFormat
from perdure.kernel.documents.export import EXPORT_FORMAT
from perdure.kernel.errors import Conflict, Corrupt, NotFound, StoreUnavailable
from perdure.lake.objects import ObjectStore

if sys.platform != "win32":
    import fcntl

PART_BYTES: Final = 8 * 1_024 * 1_024
"""Bytes of one part in objects."""

READ_BYTES: Final = 1_024 * 1_024

UNFINISHED: Final = ".export-"
"""What the name of a file begins with that is no whole export yet. Its writer has it in hand."""

JOBS_FOLDER: Final = "export"
"""Where a storage has the exports that its jobs made, beside its data."""


class Sink(Protocol):
    """Takes the bytes of an export; it has its name once it is finished."""

    async def write(self, data: bytes) -> None: ...
    async def finish(self) -> None: ...


class NoSink:
    """Takes an export for its digest alone."""

    async def write(self, data: bytes) -> None:
        pass

    async def finish(self) -> None:
        pass


class Source(Protocol):
    """An export that lies somewhere, to be read from its beginning as often as it takes."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield its bytes. Raises NotFound, StoreUnavailable, ExportTruncated, DigestDiffers."""
        ...


class FileSink:
    """A file under another name until it is whole: what dies leaves nothing under its own.

    What it leaves under the other is taken away by the next export into the same directory.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        _sweep(self._path.parent)
        if self._path.exists():
            raise _taken(self._path)
        try:
            handle, name = _begun(self._path.parent)
        except OSError as error:
            raise _unavailable(self._path, error) from error
        self._unfinished = Path(name)
        self._file = os.fdopen(handle, "wb")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # what it could not hold is missed by nobody any more
            self._file.close()
        self._unfinished.unlink(missing_ok=True)

    async def write(self, data: bytes) -> None:
        try:
            if len(data) < READ_BYTES:
                self._file.write(data)
            else:
                await asyncio.to_thread(self._file.write, data)
        except OSError as error:
            raise _unavailable(self._path, error) from error

    async def finish(self) -> None:
        try:
            await asyncio.to_thread(self._finish)
        except FileExistsError:
            raise _taken(self._path) from None
        except OSError as error:
            raise _unavailable(self._path, error) from error

    def _finish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._path.hardlink_to(self._unfinished)  # a rename would replace what is there
        handle = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _begun(folder: Path) -> tuple[int, str]:
    """Begin a file that is in the hand of this process, and return its handle and its name."""
    while True:
        handle, name = tempfile.mkstemp(prefix=UNFINISHED, dir=folder)
        if sys.platform == "win32":
            return handle, name
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, name
        os.close(handle)  # it was swept before it was in hand


def _sweep(folder: Path) -> None:
    """Take away what exports have left that ended before they were whole."""
    if sys.platform == "win32":  # there, nobody can tell whose writer lives
        return
    for each in folder.glob(f"{UNFINISHED}*"):
        try:
            with each.open("rb") as left:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                each.unlink()
        except OSError:
            continue  # its writer lives, or another has taken it away, or may alone


class FileSource:
    """An export in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            with self._path.open("rb") as file:
                while data := await asyncio.to_thread(file.read, READ_BYTES):
                    yield data
        except FileNotFoundError:
            raise NotFound(expected=f"an export at {self._path}", found="no such file") from None
        except OSError as error:
            raise _unavailable(self._path, error) from error


class ObjectsSink:
    """Objects below a name: parts called by what they hold, then the list of them."""

    def __init__(self, objects: ObjectStore, name: str) -> None:
        self._objects = objects
        self._name = name
        self._pending = bytearray()
        self._parts: list[dict[str, Any]] = []

    async def write(self, data: bytes) -> None:
        self._pending += data
        while len(self._pending) >= PART_BYTES:
            await self._put(bytes(self._pending[:PART_BYTES]))
            del self._pending[:PART_BYTES]

    async def finish(self) -> None:
        if self._pending:
            await self._put(bytes(self._pending))
        told = {"format": EXPORT_FORMAT, "parts": self._parts}
        await self._objects.put(list_name(self._name), canonical(told))
        kept = {part["name"] for part in self._parts}
        for name in await self._objects.names(f"{self._name}/part-"):
            if name.removeprefix(f"{self._name}/") not in kept:
                await self._objects.delete(name)

    async def _put(self, data: bytes) -> None:
        sha256 = hashlib.sha256(data).hexdigest()
        name = f"part-{len(self._parts) + 1:06d}-{sha256[:16]}"
        await self._objects.put(f"{self._name}/{name}", data)
        self._parts.append({"bytes": len(data), "name": name, "sha256": sha256})


class ObjectsSource:
    """An export in objects: the parts that its list names, each held to its digest."""

    def __init__(self, objects: ObjectStore, name: str) -> None:
        self._objects = objects
        self._name = name

    async def chunks(self) -> AsyncIterator[bytes]:
        for part in await self._parts():
            name = f"{self._name}/{part['name']}"
            try:
                data = await self._objects.get(name)
            except NotFound as error:
                raise ExportTruncated(expected=f"part {name}", found="none") from error
            found = hashlib.sha256(data).hexdigest()
            if found != part["sha256"]:
                raise DigestDiffers(
                    expected=f"digest {part['sha256'][:12]}… of part {name}", found=found[:12] + "…"
                )
            yield data

    async def _parts(self) -> list[dict[str, str]]:
        name = list_name(self._name)
        spelled = await self._objects.get(name)
        try:
            told = strict(spelled)
            known, parts = told["format"], told["parts"]
            found = [{key: str(part[key]) for key in ("name", "sha256")} for part in parts]
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(expected=f"a list of parts at {name}", found=str(error)) from error
        if known != EXPORT_FORMAT:
            raise UnknownFormat(
                expected=f"an export of format {EXPORT_FORMAT}", found=f"format {known!r}"
            )
        return found


def list_name(name: str) -> str:
    """Return what the list of an export's parts is called."""
    return f"{name}/export.json"


def _taken(path: Path) -> Conflict:
    return Conflict(expected=f"nothing at {path}", found="a file: an export replaces nothing")


def _unavailable(path: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(expected=f"to keep an export at {path}", found=str(error))
