"""Ports of this machine for servers that must be told theirs before they start."""

from __future__ import annotations

import contextlib
import socket


def free_port() -> int:
    """Return a port that nobody uses right now."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses right now; all at once, so that none comes twice."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in held]
