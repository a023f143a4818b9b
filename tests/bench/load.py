"""A load generator in a process of its own: callers on connections that stay open, and little else.

It reads one JSON line for each round from its standard input, a :class:`Load`, and prints one, a
:class:`Told`. Requests are spelled before the clock starts, so that what is measured is the server.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import uvloop

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"
CHUNKED = b"transfer-encoding: chunked"
CHUNKS_END = b"0\r\n\r\n"
SLICE_SECONDS = 120.0
"""What one request may take."""


@dataclass(frozen=True)
class Load:
    """One round: ``count`` requests from number ``first`` on, by ``callers`` at once.

    ``{world}`` and ``{number}`` are filled in, in the path, the headers and the body. A world of
    the list is taken in turn.
    """

    port: int
    path: str
    body: str
    worlds: Sequence[str]
    callers: int
    count: int
    first: int
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    accepted: Sequence[int] = (200, 202)


@dataclass(frozen=True)
class Told:
    """What a round came to."""

    seconds: float
    cpu_seconds: float
    """What the generator itself needed of one CPU."""
    p50_ms: float
    p99_ms: float
    statuses: Mapping[str, int]

    @property
    def rate(self) -> float:
        return sum(self.statuses.values()) / self.seconds


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self._held = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(
            "asyncio.WriteTransport", transport
        )  # of uvloop, which derives nothing

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and return the status and body of its answer."""
        answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self.transport.write(request)
        return await answer

    def data_received(self, data: bytes) -> None:
        self._held += data
        answered = parsed(self._held)
        if answered is not None and self._answer is not None:
            self._held = b""
            self._answer.set_result(answered)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the server closed the connection"))


def parsed(held: bytes) -> tuple[int, bytes] | None:
    """Return the status and body of an answer, or None as long as there is not all of it."""
    end = held.find(HEAD_END)
    if end < 0:
        return None
    head, body = held[:end].lower(), held[end + len(HEAD_END) :]
    status = int(head[9:12])
    if CHUNKED in head:
        return (status, b"".join(chunks(body))) if body.endswith(CHUNKS_END) else None
    at = head.find(LENGTH)
    length = int(head[at + len(LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0
    return (status, body) if len(body) >= length else None


def chunks(body: bytes) -> Iterator[bytes]:
    """Yield the chunks of a body that is whole."""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        yield rest[:length]
        body = rest[length + 2 :] if length else b""


def spelled(load: Load, number: int) -> bytes:
    """Return the request of one number."""
    world = load.worlds[number % len(load.worlds)]

    def filled(text: str) -> str:
        return text.replace("{world}", world).replace("{number}", str(number))

    body = filled(load.body).encode()
    headers = {"host": f"127.0.0.1:{load.port}", **load.headers}
    if body:
        headers |= {"content-type": "application/json", "content-length": str(len(body))}
    lines = [f"{load.method} {filled(load.path)} HTTP/1.1"]
    lines += [f"{name}: {filled(value)}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + HEAD_END + body


async def connected(port: int) -> Connection:
    """Open a connection to a server of this machine."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
    return connection


async def put(load: Load) -> Told:
    """Put a load on a server. Raises ValueError for an answer that is not accepted."""
    requests = iter([spelled(load, load.first + at) for at in range(load.count)])
    connections = [await connected(load.port) for _ in range(load.callers)]
    times: list[float] = []
    statuses: Counter[str] = Counter()

    async def caller(connection: Connection) -> None:
        for request in requests:  # one for all: each takes the next
            began = time.perf_counter()
            async with asyncio.timeout(SLICE_SECONDS):
                status, body = await connection.ask(request)
            times.append(time.perf_counter() - began)
            statuses[str(status)] += 1
            if status not in load.accepted:
                raise ValueError(
                    f"Expected one of {load.accepted}; found {status}: {body[:500]!r}."
                )

    began, cpu = time.perf_counter(), time.process_time()
    try:
        await asyncio.gather(*map(caller, connections))
    finally:
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        for connection in connections:
            connection.transport.close()
    ordered = sorted(times)
    p50, p99 = statistics.median(ordered), percentile_99(ordered)
    return Told(seconds, cpu, p50 * 1e3, p99 * 1e3, dict(statuses))


def percentile_99(ordered: Sequence[float]) -> float:
    """Return what one in a hundred reaches; of a hundred or fewer, the last."""
    return ordered[int(len(ordered) * 0.99)]


class Generator:
    """A generator seen from whoever measures: a process that is told its rounds."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, environment: Mapping[str, str]) -> Generator:
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "tests.bench.load"),
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        )

    async def put(self, load: Load) -> Told:
        """Raises RuntimeError if the generator gave up; it said why on its standard error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(load)).encode() + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Expected figures of {load.path}; found a generator that gave up.")
        return Told(**json.loads(line))

    async def stop(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


def main() -> None:
    """Put every load that standard input names."""
    for line in sys.stdin:
        values: dict[str, Any] = json.loads(line)
        told = asdict(uvloop.run(put(Load(**values))))
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
