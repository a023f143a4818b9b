"""Checks of what lies on this machine: a directory, its disk, and the file of an authority."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from perdure.api.checkup import Check, Finding, fail, ok, refused, skip, warn
from perdure.api.settings import Settings
from perdure.api.wiring import existing
from perdure.authority.sqlite import BUSY_MS
from perdure.authority.sqlite_schema import SCHEMA, has_log, open_untouched, translated
from perdure.kernel.errors import Corrupt, NewerSchema, StoreUnavailable

FREE_BYTES_FEW: Final = 2**30
FREE_BYTES_MIN: Final = 64 * 2**20
"""Room for the largest segment and the log of its commit; with less, nothing is published."""

SYNC_MS_MAX: Final = 250
"""A commit waits for one sync: what is slower is felt in every answer."""

SQLITE_MIN: Final = (3, 37, 0)
"""Source: STRICT tables, https://www.sqlite.org/stricttables.html."""

QUICK_CHECK_SECONDS: Final = 60.0
"""It reads the whole file."""

_EFFECTIVE: Final = os.access in os.supports_effective_ids

_RIVAL: Final = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(3)
"""
"""Another process that wants the same file for itself: it must not get it."""


def local_checks(chosen: Settings, *, write: bool) -> list[Check]:
    """Return the checks of a storage whose authority is a file of this machine."""
    file = chosen.catalog
    return [
        Check("directory", lambda: _directory(chosen), "make it, or name another one"),
        Check("disk", lambda: _disk(file.parent), "free space", after=("directory",)),
        Check(
            "directory-write",
            (lambda: _written(file.parent)) if write else _unasked,
            "see who owns the directory, and on what file system it lies",
            after=("directory",),
        ),
        Check(
            "catalog",
            lambda: _catalog(file),
            "restore the file from a copy; nothing else repairs it",
            after=("directory",),
            seconds=QUICK_CHECK_SECONDS,
        ),
    ]


def _unasked() -> list[Finding]:
    return [skip("it takes --write to try a write; what is written is taken away again")]


def _directory(chosen: Settings) -> Iterator[Finding]:
    directory = chosen.catalog.parent
    try:
        existing(chosen)
    except StoreUnavailable as error:
        # No storage comes there by itself, however often this is asked.
        yield fail(f"expected {error.expected}, found {error.found}", _made_by(chosen))
        return
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK, effective_ids=_EFFECTIVE):
        yield fail(
            f"{directory} cannot be written by this user", f"chown or chmod u+rwx {directory}"
        )
        return
    yield ok(f"{directory} is there and may be written")


def _made_by(chosen: Settings) -> str:
    """Say what makes a storage, without making one where another was meant."""
    if chosen.catalog.is_file():
        return f"restore {chosen.catalog.name} from a copy: it has lost every world"
    if chosen.is_local:
        return f"name another one, or make it: perdure world create NAME --root {chosen.root}"
    return (
        "name the table of this storage, --table; or make one whose worlds are kept here: "
        "perdure world create NAME"
    )


def _disk(directory: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(directory).free
    found = f"{free / 2**30:.1f} GiB free under {directory}"
    if free < FREE_BYTES_MIN:
        yield fail(found, "free space: no commit succeeds on a full disk", may_pass=True)
    elif free < FREE_BYTES_FEW:
        yield warn(found, "free space, or let go of what has landed: perdure land --trim")
    else:
        yield ok(found)


def _written(directory: Path) -> Iterator[Finding]:
    """Write a file, keep it from another process, sync it, and take it away again."""
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".perdure-doctor-") as file:
        file.write(b"doctor")
        began = time.perf_counter()
        file.flush()
        os.fsync(file.fileno())
        sync_ms = (time.perf_counter() - began) * 1_000
        held = _is_held(file.fileno(), Path(file.name))
    if not held:
        yield fail(
            f"{directory}: a second process may write a file that one holds for itself",
            "move the storage to a disk of this machine: SQLite loses commits without this",
        )
    elif sync_ms > SYNC_MS_MAX:
        yield warn(f"a sync takes {sync_ms:.0f} ms", "move the storage to a faster disk")
    else:
        yield ok(f"written, held against another process, synced in {sync_ms:.0f} ms, removed")


def _is_held(descriptor: int, path: Path) -> bool:
    try:
        import fcntl  # noqa: PLC0415  # not on every system
    except ImportError:
        return True
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    rival = subprocess.run([sys.executable, "-c", _RIVAL, path], check=False, timeout=5)  # noqa: S603
    return rival.returncode == 3


def _catalog(path: Path) -> Iterator[Finding]:
    try:
        yield from _intact(path)
    except NewerSchema as error:
        yield refused(error, "install the version that wrote it, or a later one")
    except StoreUnavailable as error:
        yield refused(error, "see who holds the file, and whether it may be read")


def _intact(path: Path) -> Iterator[Finding]:
    problem = _damage(path)
    if problem is not None and path.with_name(f"{path.name}-wal").exists():
        # Somebody opened it since: what was read beside their writes proves nothing.
        problem = _damage(path)
    if problem is not None:
        raise Corrupt(expected=f"an intact SQLite database at {path}", found=problem)
    if not has_log(path):
        yield warn(
            f"{path.name} has no write-ahead log: readers and writers wait for each other",
            "open it once with this version: perdure worlds",
        )
        return
    yield ok(f"{path.name}: schema {SCHEMA} or older, write-ahead log, PRAGMA quick_check ok")


def _damage(path: Path) -> str | None:
    """Return what is wrong with the pages of a file. Raises as opening it does."""
    with closing(open_untouched(path, busy_ms=BUSY_MS)) as database:
        try:
            (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error as error:
            raise translated(error, path) from error
    return None if found == "ok" else str(found)


def sqlite_finding(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> Finding | None:
    """Return what is wrong with the SQLite of this Python, None if nothing is."""
    if version >= SQLITE_MIN:
        return None
    found, least = (".".join(map(str, each)) for each in (version, SQLITE_MIN))
    return fail(f"SQLite {found}, older than {least}", "use a Python with a newer SQLite")
