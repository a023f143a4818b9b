"""A wire to the local stand-in for AWS that loses and falsifies answers, as a plan says."""

from __future__ import annotations

import http.client
import threading
import urllib.parse
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}
"""Headers that are of one leg of the way and not of the message."""


@dataclass(frozen=True)
class Fault:
    """What is answered to one request, and whether it arrives all the same."""

    status: int | None = None
    """None: the connection is closed without an answer."""

    body: bytes = b""
    arrives: bool = True


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    target: str
    """The operation, where a protocol names it in a header: ``AWSGlue.UpdateTable``."""

    body: bytes


@dataclass
class Wire:
    """Carries requests; what ``concerns`` picks is counted, and done to as ``plan`` says."""

    address: str = ""
    concerns: Callable[[Asked], bool] = lambda asked: True
    plan: deque[Fault | None] = field(default_factory=deque)
    seen: list[Asked] = field(default_factory=list)

    def planned(self, asked: Asked) -> Fault | None:
        if not self.concerns(asked):
            return None
        self.seen.append(asked)
        return self.plan.popleft() if self.plan else None


class Exchange(ThreadingHTTPServer):
    """Where a wire begins."""

    daemon_threads = True

    def __init__(self, wire: Wire, there: str) -> None:
        super().__init__(("127.0.0.1", 0), Leg)
        self.wire = wire
        self.there = there


class Leg(BaseHTTPRequestHandler):
    """Carries the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server: Exchange

    def carried(self) -> None:
        body = self._body()
        asked = Asked(self.command, self.path, self.headers.get("X-Amz-Target", ""), body)
        fault = self.server.wire.planned(asked)
        try:
            answer = self._asked(body) if fault is None or fault.arrives else None
        except OSError:  # nobody is there
            self.close_connection = True
            return
        if fault is None:
            assert answer is not None
            self._answered(*answer)
        elif fault.status is None:
            self.close_connection = True
        else:
            self._answered(fault.status, [("Content-Type", "application/json")], fault.body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = carried  # noqa: N815  # http.server's

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _asked(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        onward = http.client.HTTPConnection(self.server.there, timeout=120)
        try:
            headers = {key: value for key, value in self.headers.items() if key.lower() not in HOP}
            onward.request(self.command, self.path, body or None, headers)
            answer = onward.getresponse()
            hop = HOP - {"content-length"} if self.command == "HEAD" else HOP
            kept = [(key, value) for key, value in answer.getheaders() if key.lower() not in hop]
            return answer.status, kept, answer.read()
        finally:
            onward.close()

    def _answered(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for key, value in headers:
            self.send_header(key, value)
        if self.command != "HEAD":  # that is told how long a GET would be
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def wire_to(address: str) -> Iterator[Wire]:
    """Open a wire to ``address`` and yield it with an address of its own."""
    wire = Wire()
    server = Exchange(wire, urllib.parse.urlsplit(address).netloc)
    wire.address = f"http://127.0.0.1:{server.server_port}"
    carrier = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    carrier.start()
    try:
        yield wire
    finally:
        server.shutdown()
        carrier.join()
        server.server_close()
