"""Servers that answer as nobody should: always the same, with a wrong clock, or not at all."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = '{{"__type": "com.amazon.coral.service#{code}", "message": "{message}"}}'
QUERY = (
    "<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
)
S3 = "<Error><Code>{code}</Code><Message>{message}</Message></Error>"


class Always(BaseHTTPRequestHandler):
    """Answers everything as the server's ``answer`` says, in the protocol that was spoken."""

    def handle_one_request(self) -> None:
        """Answer whatever the method is."""
        self.raw_requestline = self.rfile.readline(65_537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        self._answer()

    def _answer(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        asked = self.rfile.read(length)
        status, body, skew_seconds = self.server.answer(self, asked)
        self.send_response_only(status)
        self.send_header("Date", formatdate(self.server.now() + skew_seconds, usegmt=True))
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def answering(answer: Any, now: Any) -> Iterator[str]:
    """Run a server whose ``answer(request, body)`` is (status, body, seconds its clock is off)."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Always) as server:
        server.daemon_threads = True
        server.answer, server.now = answer, now
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def refusing(status: int, code: str, message: str) -> Any:
    """Return an ``answer`` of an AWS that refuses everything for one reason."""

    def answer(request: Any, body: bytes) -> tuple[int, bytes, float]:
        spoken = S3
        if request.headers.get("x-amz-target"):
            spoken = JSON
        elif b"Action=" in body:
            spoken = QUERY
        return status, spoken.format(code=code, message=message).encode(), 0

    return answer


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """Listen, and never answer."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
