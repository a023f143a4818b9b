"""Floors: the least code that does the like of a case, with none of the promises."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_COMMAND = "CREATE TABLE command (id TEXT PRIMARY KEY, status TEXT, body BLOB NOT NULL)"
_ENTITY = "CREATE TABLE entity (id INTEGER PRIMARY KEY, body BLOB NOT NULL)"
_ADMIT = "INSERT INTO command VALUES (?, 'pending', ?) ON CONFLICT DO NOTHING"


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a bare database: WAL, every commit synced."""
    with closing(
        sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    ) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(_COMMAND)
        connection.execute(_ENTITY)
        yield connection


def admit(connection: sqlite3.Connection, id: str, body: bytes) -> None:
    """Write down one command if its id is new, in a commit of its own."""
    connection.execute(_ADMIT, (id, body))


def admit_batch(connection: sqlite3.Connection, id: str, commands: Sequence[Any]) -> None:
    """Spell commands as JSON and write down each, all in one commit."""
    rows = [
        (f"{id}.{index}", json.dumps(command).encode()) for index, command in enumerate(commands)
    ]
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_ADMIT, rows)
    connection.execute("COMMIT")


def settle(connection: sqlite3.Connection) -> int:
    """Apply every pending command: decode it, write its entity, and mark it, in one commit."""
    connection.execute("BEGIN IMMEDIATE")
    pending = connection.execute(
        "SELECT id, body FROM command WHERE status = 'pending' ORDER BY rowid"
    ).fetchall()
    entities, done = [], []
    for number, (id, body) in enumerate(pending):
        command = json.loads(body)
        entity = command.get("entity_id", number + 1)
        entities.append((entity, json.dumps(command["components"]).encode()))
        done.append((id,))
    connection.executemany("INSERT OR REPLACE INTO entity VALUES (?, ?)", entities)
    connection.executemany("UPDATE command SET status = 'applied' WHERE id = ?", done)
    connection.execute("COMMIT")
    return len(done)


class GroupCommit:
    """Callers of one event loop share commits: all that waits goes into the next."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[tuple[str, bytes, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def admit(self, id: str, body: bytes) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((id, body, answer))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await answer

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group, self._waiting = self._waiting, []
            rows = [(id, body) for id, body, _ in group]
            await loop.run_in_executor(self._thread, self._commit, rows)
            for _, _, answer in group:
                answer.set_result(None)
        self._writing = None

    def _commit(self, rows: list[tuple[str, bytes]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_ADMIT, rows)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._thread.shutdown()


class BareTick:
    """Columns held in numpy: move, compare, and write what changed as one synced Arrow file."""

    def __init__(self, entities: int, path: Path) -> None:
        random = np.random.default_rng(1)
        self._path = path
        self._columns = {"entity_id": np.arange(1, entities + 1)}
        for name in ("position__x", "position__y", "velocity__dx", "velocity__dy"):
            self._columns[name] = random.normal(size=entities) + 10.0

    def changed(self) -> pa.Table:
        """Make the next state, and return the rows in which it differs."""
        columns = self._columns
        moved = {
            f"position__{axis}": columns[f"position__{axis}"] + columns[f"velocity__d{axis}"]
            for axis in ("x", "y")
        }
        after = {**columns, **moved}
        mask = np.zeros(len(columns["entity_id"]), np.bool_)
        for name in ("position__x", "position__y", "velocity__dx", "velocity__dy"):
            mask |= after[name] != columns[name]
        self._columns = after
        table = pa.table(after)
        return table if mask.all() else table.filter(pa.array(mask))

    def __call__(self) -> None:
        put(self.changed(), self._path)


Floats = npt.NDArray[np.float64]


def between(start: Floats, end: Floats, part: Floats) -> tuple[Floats, Floats]:
    """Return latitudes and longitudes on great circles between places that differ.

    Units: degrees; shape of both ends (2, n).
    """
    (phi, theta), (phi_end, theta_end) = np.radians(start), np.radians(end)
    half = np.sin((phi_end - phi) / 2) ** 2
    half += np.cos(phi) * np.cos(phi_end) * np.sin((theta_end - theta) / 2) ** 2
    angle = 2 * np.arcsin(np.sqrt(half))
    near, far = np.sin((1 - part) * angle) / np.sin(angle), np.sin(part * angle) / np.sin(angle)
    x = near * np.cos(phi) * np.cos(theta) + far * np.cos(phi_end) * np.cos(theta_end)
    y = near * np.cos(phi) * np.sin(theta) + far * np.cos(phi_end) * np.sin(theta_end)
    z = near * np.sin(phi) + far * np.sin(phi_end)
    return np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))


def put(table: pa.Table, path: Path) -> None:
    """Write a table as a raw Arrow file and sync it."""
    with path.open("wb") as file:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        file.flush()
        os.fsync(file.fileno())


def listening() -> socket.socket:
    """Listen on a free port of this machine."""
    # The protocol is named, or asyncio leaves Nagle's algorithm on: 40 ms more for each answer.
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.bind(("127.0.0.1", 0))
    return found
