"""Processes that tests begin: each has ended, and is let go of, when its block is left in any way."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def child(command: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run a command while the block runs; then it is killed, if it has not ended by itself.

    ``options`` are those of :class:`subprocess.Popen`.
    """
    with subprocess.Popen([str(word) for word in command], **options) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def children(
    commands: Sequence[Sequence[object]], **options: Any
) -> Iterator[list[subprocess.Popen[Any]]]:
    """Run several commands at once while the block runs, as :func:`child` does one."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(child(command, **options)) for command in commands]


def let_go(ready: Sequence[subprocess.Popen[str]]) -> None:
    """Let processes go on, all at once, when each has said "ready"."""
    for each in ready:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in ready:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
