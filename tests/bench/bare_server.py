"""A floor over HTTP: uvicorn and one handler that writes a command row and an outbox row each.

Requests that wait share a commit. Nothing is validated, nobody is asked who they are.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import uvicorn
from tests.bench import floors

OUTBOX = "CREATE TABLE outbox (sequence INTEGER PRIMARY KEY, id TEXT NOT NULL)"
ADMIT = "INSERT INTO command VALUES (?, 'pending', ?) ON CONFLICT DO NOTHING"
TELL = "INSERT INTO outbox VALUES (?, ?)"

Rows = list[tuple[str, str]]


class Shared:
    """Commits of one event loop: all that waits goes into the next."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[tuple[Rows, asyncio.Future[int]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._sequence = 0

    async def admit(self, rows: Rows) -> int:
        """Write down commands, and return the sequence of the first."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, answer))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await answer

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group, self._waiting = self._waiting, []
            rows = [row for each, _ in group for row in each]
            first = self._sequence
            await loop.run_in_executor(self._thread, self._commit, rows)
            for each, answer in group:
                answer.set_result(first)
                first += len(each)
        self._writing = None

    def _commit(self, rows: Rows) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(ADMIT, rows)
        told = [(self._sequence + at, id) for at, (id, _) in enumerate(rows)]
        self._connection.executemany(TELL, told)
        self._connection.execute("COMMIT")
        self._sequence += len(rows)


def handler(shared: Shared) -> Callable[..., Awaitable[None]]:
    """Return the server's one handler: it knows no other route."""

    async def admit(scope: dict[str, Any], receive: Any, send: Any) -> None:
        id = next(value for name, value in scope["headers"] if name == b"idempotency-key").decode()
        commands = json.loads(await _received(receive))["commands"]
        rows = [(f"{id}.{at}", json.dumps(command)) for at, command in enumerate(commands)]
        first = await shared.admit(rows)
        receipts = [{"command_id": row[0], "sequence": first + at} for at, row in enumerate(rows)]
        body = json.dumps({"receipts": receipts}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return admit


async def _received(receive: Callable[[], Awaitable[dict[str, Any]]]) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def main() -> None:
    """Serve on a free port of this machine, and print it."""
    with floors.database(Path(sys.argv[1])) as connection:
        connection.execute(OUTBOX)
        config = uvicorn.Config(
            handler(Shared(connection)), lifespan="off", log_level="warning", access_log=False
        )
        listening = floors.listening()
        sys.stdout.write(f"listening on http://127.0.0.1:{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
