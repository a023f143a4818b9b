"""A provider of models on a port of this machine: real HTTP, and answers as a plan says."""

from __future__ import annotations

import json
import struct
import threading
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = "application/json"
SSE = "text/event-stream"
EVENTS = "application/vnd.amazon.eventstream"


@dataclass(frozen=True)
class Answer:
    """What is sent back to one request."""

    parts: tuple[bytes, ...] = ()
    status: int = 200
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False
    """The connection closes where the end should come."""
    hangs: bool = False
    """After the parts nothing more comes until the test is over."""
    length: int | None = None
    """A length that is promised, whatever comes; else the answer is sent in chunks."""

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)


NOTHING = Answer(status=0)
"""The connection is closed without an answer."""


@dataclass(frozen=True)
class Heard:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Provider:
    """Where the server is, what it was asked, and what it will answer."""

    url: str = ""
    plan: deque[Answer] = field(default_factory=deque)
    heard: list[Heard] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def will(self, *answers: Answer) -> None:
        """Begin anew with these answers."""
        self.over.set()
        self.over = threading.Event()
        self.heard = []
        self.plan = deque(answers)


class _Leg(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10

    def do_POST(self) -> None:
        provider = self.server.provider
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        provider.heard.append(Heard(self.path, headers, body))
        answer, over = provider.plan.popleft(), provider.over
        self.close_connection = True
        with suppress(OSError):
            if answer.status:
                self._answer(answer, over)

    def _answer(self, answer: Answer, over: threading.Event) -> None:
        self.send_response(answer.status)
        self.send_header("Connection", "close")
        self.send_header("Content-Type", answer.content_type)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        chunked = answer.length is None
        ending = ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", answer.length)
        self.send_header(ending[0], str(ending[1]))
        self.end_headers()
        for part in answer.parts:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
            self.wfile.flush()
        if answer.hangs:
            over.wait(10)
        elif chunked and not answer.is_cut:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    provider: Provider


@contextmanager
def serving() -> Iterator[Provider]:
    """Serve on a free port until the end of the block."""
    server = _Server(("127.0.0.1", 0), _Leg)
    server.provider = Provider(url=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.provider
    finally:
        server.provider.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def framed(event: str, payload: Any, *, kind: str = "event") -> bytes:
    """Frame an event as AWS does: lengths, headers, payload, and two checksums."""
    named = {
        f":{kind}-type": event,
        ":content-type": JSON,
        ":message-type": kind,
    }
    headers = b"".join(
        struct.pack("!B", len(name)) + name.encode() + b"\x07" + struct.pack("!H", len(value))
        + value.encode()
        for name, value in named.items()
    )  # fmt: skip
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(body), len(headers))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + body
    return message + struct.pack("!I", zlib.crc32(message))


def events(*each: tuple[str, Any], **more: Any) -> Answer:
    """Return an answer of ConverseStream."""
    parts = tuple(framed(name, payload) for name, payload in each)
    return Answer(parts=parts, content_type=EVENTS, **more)


def sse(*chunks: Any, done: bool = True, **more: Any) -> Answer:
    """Return a streamed answer of chat completions, an event a part."""
    spelled = [
        chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode() for chunk in chunks
    ]
    if done:
        spelled.append(b"[DONE]")
    parts = tuple(b"data: %s\n\n" % each for each in spelled)
    return Answer(parts=parts, content_type=SSE, **more)


def plain(value: Any, **more: Any) -> Answer:
    """Return an answer in one piece of JSON."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Answer(parts=(body,), **more)
