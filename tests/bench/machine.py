"""The machine a run was made on, and how long its disk takes to sync."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("aiosqlite", "boto3", "numpy", "pyarrow", "pydantic", "pyiceberg")
SYNCS = 200
BLOCK = bytes(4_096)


def facts(directory: Path) -> dict[str, Any]:
    """Describe machine and software; ``directory`` lies on the disk that is measured on."""
    return {
        "cpus": os.cpu_count(),
        "cpu": _cpu(),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": [round(each, 2) for each in os.getloadavg()],
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: version(name) for name in PACKAGES},
        "commit": _commit(),
        "sync_ms": sync_ms(directory),
    }


def sync_ms(directory: Path) -> float:
    """Return the median time of a 4 KiB overwrite with fdatasync."""
    path = directory / "sync-probe"
    with path.open("wb", buffering=0) as file:
        file.write(BLOCK)
        times = list(_syncs(file.fileno()))
    path.unlink()
    return round(statistics.median(times), 4)


def _syncs(file: int) -> Iterator[float]:
    for _ in range(SYNCS):
        started = time.perf_counter()
        os.pwrite(file, BLOCK, 0)
        os.fdatasync(file)
        yield (time.perf_counter() - started) * 1e3


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _commit() -> str | None:
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip() or None
