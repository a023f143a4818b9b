"""The processes beside the demo: the emulator that runs the world, the reader that comes to it cold."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import numpy as np

from airspace.client import Problem
from airspace.flights import TICKS
from airspace.picture import Sightings

PERDURE: Final = (sys.executable, "-m", "perdure.cli.main")
LOG_FILE: Final = "emulator.log"
STOP_SECONDS: Final = 10.0
"""How long the emulator may take to finish what it is doing before it is killed; it loses nothing."""

ADDRESS: Final = re.compile(r"https?://127\.0\.0\.1:\d+")


@contextmanager
def emulator(root: Path, *, command: tuple[str, ...] = PERDURE) -> Iterator[str]:
    """Run an emulator over ``root`` on a free loopback port and yield its address.

    Raises: Problem if it does not start.
    """
    log_path = root / LOG_FILE
    with (
        log_path.open("w", encoding="utf-8") as log,
        subprocess.Popen(  # noqa: S603 (our own command, no shell)
            [*command, "dev", "--root", str(root), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            address = announced(process.stdout, log)
            if address is None:
                raise Problem("emulator_failed", last_line(log_path.read_text(encoding="utf-8")))
            # A full pipe would halt the emulator: what it prints later goes to its log as well.
            rest = threading.Thread(target=shutil.copyfileobj, args=(process.stdout, log))
            rest.start()
            try:
                yield address
            finally:
                stop(process)
                rest.join()
        finally:
            stop(process)


def token(root: Path, *, command: tuple[str, ...] = PERDURE) -> str:
    """Return a token that the emulator over ``root`` accepts for a day. Raises Problem."""
    made = subprocess.run(  # noqa: S603 (our own command, no shell)
        [
            *command,
            "token",
            "--role",
            "admin",
            "--actor",
            "demo",
            "--ttl",
            "1d",
            "--root",
            str(root),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise Problem("no_token", last_line(made.stderr or made.stdout))
    return made.stdout.strip()


def announced(output: IO[str], log: IO[str]) -> str | None:
    """Return the address that the emulator prints when it listens; None if it ends before."""
    for line in output:
        log.write(line)
        log.flush()
        found = ADDRESS.search(line)
        if found is not None:
            return found.group()
    return None


def stop(process: subprocess.Popen[str]) -> None:
    """End a process: politely, then at once."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def read_back(root: Path, world_id: str, *, command: tuple[str, ...] = PERDURE) -> Sightings:
    """Query all positions of the day from the lake, in a new process. Raises Problem."""
    asked = subprocess.run(  # noqa: S603 (our own command, no shell)
        [
            *command,
            "query",
            world_id,
            *("--components", "Position"),
            *("--from-tick", "0", "--to-tick", str(TICKS - 1)),
            *("--root", str(root), "--json"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        raise Problem("query_failed", last_line(asked.stderr or asked.stdout))
    try:
        sightings = parsed(asked.stdout)
    except (ValueError, KeyError, TypeError) as error:
        raise Problem("unreadable_answer", f"the query printed no rows ({error!r})") from error
    if len(sightings.ticks) == 0:
        raise Problem("nothing_read", "the query found no position")
    return sightings


def parsed(text: str) -> Sightings:
    """Return the live rows of a query's JSON."""
    rows = [row for row in json.loads(text)["rows"] if row.get("is_active", True)]
    return Sightings(
        entity_ids=np.array([row["entity_id"] for row in rows], dtype=np.int64),
        ticks=np.array([row["tick"] for row in rows], dtype=np.int64),
        latitudes=np.array([row["position__latitude"] for row in rows], dtype=np.float64),
        longitudes=np.array([row["position__longitude"] for row in rows], dtype=np.float64),
    )


def last_line(text: str) -> str:
    """Return the line that says most about a failure."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
