"""A server on loopback that dies after so many bytes of a request, or of its own answer."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Literal

Death = Literal["closes", "resets", "stays"]

_LINGER_NOT = struct.pack("ii", 1, 0)


@dataclass
class Dying:
    """What the server does to each connection, and what it saw of it."""

    answer: bytes | Callable[[bytes], bytes] = b""
    reads: int | None = None
    """Bytes of the request that it takes, then it dies; None for all."""

    answers_early: bool = False
    """It answers what it has not read whole."""

    says: int | None = None
    """Bytes of the answer that it gives; None for all."""

    death: Death = "closes"
    seen: list[bytearray] = field(default_factory=list)
    """What came, by connection."""

    port: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """A request has come as far as it is read."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> int:
        """How many requests came, counted by their beginnings on every connection."""
        return sum(bytes(seen).count(b" HTTP/1.1\r\n") for seen in self.seen)

    async def serve(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                taken, _ = await loop.sock_accept(listener)
                group.create_task(self._served(taken))

    async def _served(self, taken: socket.socket) -> None:
        taken.setblocking(False)  # noqa: FBT003
        seen = bytearray()
        self.seen.append(seen)
        with taken, contextlib.suppress(OSError):
            await self._talk(taken, seen)
            if self.death == "stays":
                await asyncio.Event().wait()
            if self.death == "resets":
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)

    async def _talk(self, taken: socket.socket, seen: bytearray) -> None:
        loop = asyncio.get_running_loop()
        while not self._has_read(seen):
            room = 65_536 if self.reads is None else self.reads - len(seen)
            came = await loop.sock_recv(taken, room)
            if not came:
                return
            seen += came
        self.asked.set()
        if self.reads is None or self.answers_early:
            answer = self.answer if isinstance(self.answer, bytes) else self.answer(bytes(seen))
            await loop.sock_sendall(taken, answer[: self.says])

    def _has_read(self, seen: bytearray) -> bool:
        return is_whole(seen) if self.reads is None else len(seen) >= self.reads


def is_whole(request: bytes | bytearray) -> bool:
    """Tell whether a request has arrived to its last byte."""
    head, gap, body = bytes(request).partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return bool(gap) and len(body) >= length


@contextlib.asynccontextmanager
async def dying(server: Dying) -> AsyncIterator[Dying]:
    """Let the server listen; what still waits at the end is let go."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)  # noqa: FBT003
    server.port = listener.getsockname()[1]
    task = asyncio.ensure_future(server.serve(listener))
    try:
        yield server
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        listener.close()


def answering(status: str, body: bytes = b"", *headers: str, framing: str = "length") -> bytes:
    """Spell a response whose end is told by a length, by chunks or by nothing."""
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", *headers]
    if framing == "length":
        lines.append(f"Content-Length: {len(body)}")
    if framing == "chunks":
        lines.append("Transfer-Encoding: chunked")
        halves = [each for each in (body[: len(body) // 2], body[len(body) // 2 :]) if each]
        body = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in halves) + b"0\r\n\r\n"
    return "\r\n".join([*lines, "", ""]).encode() + body
