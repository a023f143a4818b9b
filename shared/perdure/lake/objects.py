"""Objects: immutable bytes under a name, put once, on local files or in a bucket."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import tempfile
from pathlib import Path
from typing import Final, Protocol

from perdure.kernel.errors import Conflict, InvalidId, NotFound, StoreUnavailable

_PART: Final = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9_=.\-]*\Z")
_UNFINISHED: Final = ".put-"

CACHED_BYTES_MAX: Final = 256_000
"""Bytes of an object up to which it is left in memory for those who read it next."""


class ObjectStore(Protocol):
    """Bytes by name. A name, once taken, keeps its bytes until it is deleted."""

    async def put(self, name: str, data: bytes | memoryview) -> None:
        """Make ``data`` durable under ``name`` if that is free.

        Idempotent: equal bytes under the name count as put. Raises: Conflict for other
        bytes under that name; StoreUnavailable; OutcomeUnknown. After the latter two the
        bytes may be there: put again.
        """
        ...

    async def get(self, name: str) -> bytes:
        """Return the bytes under ``name``. Raises NotFound, StoreUnavailable."""
        ...

    async def delete(self, name: str) -> None:
        """Free ``name``. Idempotent. Raises StoreUnavailable."""
        ...

    async def names(self, prefix: str) -> list[str]:
        """Return every name that starts with ``prefix``, sorted. Raises StoreUnavailable."""
        ...

    async def sizes(self, prefix: str) -> dict[str, int]:
        """Return every name that starts with ``prefix``, sorted, and its bytes.

        Raises: StoreUnavailable.
        """
        ...


class LocalObjects:
    """Objects as files below a directory; a put survives the loss of power."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._durable = {root.parent}
        """Directories whose way down from there survives the loss of power."""

    async def put(self, name: str, data: bytes | memoryview) -> None:
        await asyncio.to_thread(self._put, name, data)

    async def get(self, name: str) -> bytes:
        return await asyncio.to_thread(self._get, name)

    async def delete(self, name: str) -> None:
        await asyncio.to_thread(self._delete, name)

    async def names(self, prefix: str) -> list[str]:
        return await asyncio.to_thread(self._names, prefix)

    async def sizes(self, prefix: str) -> dict[str, int]:
        return await asyncio.to_thread(self._sizes, prefix)

    def _put(self, name: str, data: bytes | memoryview) -> None:
        path = self._path(name)
        try:
            self._ensure_directory(path.parent)
            handle, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                    _let_go(file.fileno(), len(data))
                is_same = _linked(Path(unfinished), path) or path.read_bytes() == data
            finally:
                Path(unfinished).unlink()
            # Also if it was there: whoever put it may have died before this very line.
            _sync_directory(path.parent)
        except OSError as error:
            raise _unavailable(f"put {name}", error) from error
        if not is_same:
            raise Conflict(expected=f"the same bytes as before under {name}", found="other bytes")

    def _get(self, name: str) -> bytes:
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            raise not_found(name) from None
        except OSError as error:
            raise _unavailable(f"get {name}", error) from error

    def _delete(self, name: str) -> None:
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise _unavailable(f"delete {name}", error) from error

    def _names(self, prefix: str) -> list[str]:
        folder, _, _ = prefix.rpartition("/")
        start = self._root / folder if folder else self._root
        found = (
            Path(at, file).relative_to(self._root).as_posix()
            for at, _, files in os.walk(start)
            for file in files
            if not file.startswith(_UNFINISHED)
        )
        return sorted(name for name in found if name.startswith(prefix))

    def _sizes(self, prefix: str) -> dict[str, int]:
        found = {}
        for name in self._names(prefix):
            with contextlib.suppress(FileNotFoundError):  # deleted since it was listed
                found[name] = (self._root / name).stat().st_size
        return found

    def _path(self, name: str) -> Path:
        return self._root / checked_name(name)

    def _ensure_directory(self, directory: Path) -> None:
        """Make the directory and every entry on the way to it durable, once per process."""
        if directory in self._durable:
            return
        self._ensure_directory(directory.parent)
        directory.mkdir(parents=True, exist_ok=True)
        _sync_directory(directory.parent)
        self._durable.add(directory)


def checked_name(name: str) -> str:
    """Return ``name`` if every store can hold it and no path can escape by it. Raises InvalidId."""
    if len(name) > 900 or not all(_PART.match(part) for part in name.split("/")):
        raise InvalidId(
            expected="an object name of parts of letters, digits, '_', '-', '=' and '.'",
            found=repr(name[:80]),
        )
    return name


def not_found(name: str) -> NotFound:
    """Say that no object has that name."""
    return NotFound(expected=f"an object {name}", found="no such object")


def _linked(unfinished: Path, path: Path) -> bool:
    """Give the finished file its name, unless that is taken: a rename would replace."""
    try:
        path.hardlink_to(unfinished)
    except FileExistsError:
        return False
    return True


def _let_go(handle: int, size: int) -> None:
    """Give the memory that holds a large file back, now that the disk has it.

    Whoever put it has no need of it, and the next one then takes the same memory again.
    """
    if size > CACHED_BYTES_MAX and hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # advice: some file systems take none
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def _unavailable(what: str, error: OSError) -> StoreUnavailable:
    reason = errno.errorcode.get(error.errno or 0, "an unknown error")
    return StoreUnavailable(expected=f"to {what}", found=f"{reason}: {error.strerror}")


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
