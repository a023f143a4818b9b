"""Who else used the machine while a case ran: figures of a busy machine are told as such."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

STAT = Path("/proc/stat")
IDLE = (3, 4)
"""Columns of idle and of waiting for a disk. Source: proc_stat(5)."""

GUEST = (8, 9)
"""Columns that are counted in others as well. Source: proc_stat(5)."""

BUSY_CPUS = 0.2
"""What others may take of one CPU before figures are marked."""


@dataclass(frozen=True)
class Use:
    """The load before and after, and how many CPUs others took meanwhile, None if nobody tells."""

    seconds: float
    load_before: float
    load_after: float
    others_cpus: float | None

    @property
    def is_busy(self) -> bool:
        return self.others_cpus is not None and self.others_cpus > BUSY_CPUS

    def spelled(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 1),
            "load_before": round(self.load_before, 2),
            "load_after": round(self.load_after, 2),
            "others_cpus": None if self.others_cpus is None else round(self.others_cpus, 2),
            "is_busy": self.is_busy,
        }

    def __str__(self) -> str:
        told = (
            f"took {self.seconds:,.0f} s, load {self.load_before:.2f} before"
            f" and {self.load_after:.2f} after"
        )
        if self.others_cpus is not None:
            told += f", other processes took {self.others_cpus:.2f} CPUs"
        return f"{told}: a busy machine, measure again" if self.is_busy else told


class Meter:
    """Meters a ``with`` block. Children are counted as ours once they have been waited for."""

    def __enter__(self) -> Self:
        self._load = os.getloadavg()[0]
        self._started, self._ours, self._all = time.monotonic(), _ours(), _busy()
        return self

    def __exit__(self, *_: object) -> None:
        seconds = time.monotonic() - self._started
        busy = _busy()
        others = None
        if busy is not None and self._all is not None and seconds > 0:
            others = max(0.0, busy - self._all - (_ours() - self._ours)) / seconds
        self.use = Use(seconds, self._load, os.getloadavg()[0], others)


def _ours() -> float:
    return sum(os.times()[:4])


def _busy() -> float | None:
    """Return the seconds that all CPUs have worked, and those that a hypervisor kept for others."""
    if not STAT.exists():
        return None
    columns = STAT.read_text(encoding="ascii").splitlines()[0].split()[1:]
    ticks = sum(int(each) for at, each in enumerate(columns) if at not in (*IDLE, *GUEST))
    return ticks / os.sysconf("SC_CLK_TCK")
