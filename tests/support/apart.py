"""The processes of functions that an emulator runs apart, and how to kill them."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import httpx

SECONDS_MAX = 0.1
"""How long a killer waits at most."""


def processes_of(emulator: int, folder: str) -> list[int]:
    """Return the processes of a function whose handler file lies in a folder of that name."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == emulator and (entry / "cwd").readlink().name == folder:
                found.append(int(entry.name))
    return sorted(found)


def folder_of(path: str) -> str:
    """Return the folder of the function behind a path."""
    last = path.rpartition("/")[2]
    return last if last in {"tick", "land"} else "api"


class Murderous(httpx.HTTPTransport):
    """A transport that kills processes of the functions it asks, at random: before and amid."""

    def __init__(
        self, emulator: int, seed: int, *, amid: Mapping[str, float], before: Mapping[str, float]
    ) -> None:
        """``amid`` and ``before`` are chances by folder, for each of its requests."""
        super().__init__()
        self._emulator = emulator
        self._seed = seed
        self._lots: dict[str, random.Random] = {}
        self._amid, self._before = amid, before
        self.kills: Counter[str] = Counter()
        """Processes that were killed, by folder."""
        self.lost: Counter[str] = Counter()
        """Requests whose outcome stayed unknown, by folder."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        folder = folder_of(request.url.path)
        lots = self._lots.setdefault(folder, random.Random(f"{self._seed} {folder}"))
        first, second, delay = (lots.random() for _ in range(3))
        before, amid = self._before.get(folder, 0.0), self._amid.get(folder, 0.0)
        # Until one has hit somebody, everyone gets a killer.
        if first < before or (before and not self.kills[folder]):
            self._kill(folder)
        if second < amid or (amid and not self.lost[folder]):
            threading.Timer(delay * SECONDS_MAX, self._kill, [folder]).start()
        reply = super().handle_request(request)
        if reply.status_code == 503 and b"outcome_unknown" in reply.read():
            self.lost[folder] += 1
        return reply

    def _kill(self, folder: str) -> None:
        processes = processes_of(self._emulator, folder)
        if processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._lots[folder].choice(processes), signal.SIGKILL)
            self.kills[folder] += 1
