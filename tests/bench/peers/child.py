"""Peers in processes of their own: told in a line of JSON what to do, they answer with a figure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LINE_BYTES_MAX = 1 << 20


class Child:
    """A peer's process, in its own Python: what it imports is no part of this project."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    async def ask(self, what: str, **values: Any) -> Any:
        """Return what comes of it. Raises RuntimeError with the last that the peer said."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": what, **values}).encode() + b"\n")
        async for line in self._process.stdout:
            if line.startswith(b"{"):  # the rest is its log
                return json.loads(line)["done"]
        await self._process.wait()
        told = self._log.read_text(encoding="utf-8", errors="replace").strip()
        raise RuntimeError(f"Expected the peer to {what}; found {told[-800:] or 'nothing'}.")


@asynccontextmanager
async def started(python: Path, script: str, place: Path, *arguments: str) -> AsyncIterator[Child]:
    """Run a script of this directory over a directory for its data, until the block ends."""
    log = place.with_suffix(".log")
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            str(python),
            *(str(HERE / script), str(place), *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=LINE_BYTES_MAX,
        )
        try:
            yield Child(process, log)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
