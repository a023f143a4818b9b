"""A soak on one machine: every kind of request for minutes, and what must not grow meanwhile.

``python -m tests.proof.soak`` runs the emulator in a process of its own, asks it over HTTP for
two minutes, settles and lands everything, and looks for whatever was acknowledged and is not
there. It ends with 1 if anything was lost, refused, or grew; never because of time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from tests.bench import machine, report
from tests.emulator.deployment import ADDRESS, APP, ROOT, START_SECONDS, bearer, environment
from tests.proof import soak_report
from tests.proof.soak_load import Client, Lane, Seen, kept, losses
from tests.proof.soak_report import Moment, Soaked
from tests.support.children import child

from perdure.kernel import limits

PAGE = ROOT / "docs" / "reliability.md"
LANES = 3
ROUNDS_BETWEEN_LANDINGS = 4
SETTLE_ROUNDS = 3
TELL_SECONDS = 120


@dataclass
class Server:
    """The emulator's process, where it keeps things, and who asks it."""

    process: subprocess.Popen[str]
    address: str
    root: Path
    state: Path
    token: dict[str, str]
    started: float = field(default_factory=time.monotonic)

    def client(self, seen: Seen) -> Client:
        http = httpx.Client(
            base_url=self.address, headers=self.token, timeout=START_SECONDS, trust_env=False
        )
        return Client(http, seen)

    def moment(self, ticks: int) -> Moment:
        """Let the server collect its garbage, and see how things stand."""
        self.state.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        until = time.monotonic() + TELL_SECONDS
        while not self.state.exists():
            assert time.monotonic() < until, "the server does not answer its signal"
            time.sleep(0.01)
        told = json.loads(self.state.read_text(encoding="utf-8"))
        files = [path for path in self.root.rglob("*") if path.is_file()]
        sizes = {path: _size(path) for path in files}
        (database,) = (path for path in files if path.name == ".perdure-catalog-sqlite.db")
        kept_here = [path for path in files if path.name.startswith(database.name)]
        return Moment(
            seconds=time.monotonic() - self.started,
            ticks=ticks,
            files=sum(path.suffix != ".arrow" for path in files),
            segments=sum(path.suffix == ".arrow" for path in files),
            lake_bytes=sum(sizes.values()) - sum(sizes[path] for path in kept_here),
            sqlite_bytes=sum(sizes[path] for path in kept_here),
            records=_records(database),
            **told,
        )


@contextlib.contextmanager
def served(directory: Path) -> Iterator[Server]:
    """Run the emulator on a free port over a new storage."""
    root, state, log = directory / "root", directory / "state.json", directory / "log"
    command = [sys.executable, "-m", "tests.proof.soak_server", str(state)]
    options = ["--root", str(root), "--port", "0", "--app", APP]
    with (
        log.open("w") as errors,
        child(
            [*command, *options],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        said = process.stdout.readline() + process.stdout.readline()
        found = ADDRESS.search(said)
        assert found, said + log.read_text()
        token = bearer(root, "admin", seconds=86_400)
        yield Server(process, found[1], root, state, token)


def soaked(
    directory: Path,
    *,
    seconds: float = float("inf"),
    rounds: float = float("inf"),
    lanes: int = LANES,
) -> Soaked:
    """Ask for so long, or so many rounds; then settle, land, and look for what was lost."""
    seen, moments = Seen(), []
    with served(directory) as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(_open(server, seen)) for _ in range(lanes + 1)]
        worlds = [
            Lane(f"world-{number}", client, random.Random(number))
            for number, client in enumerate(clients[1:])
        ]
        for each in worlds:
            each.create()
        pool = stack.enter_context(ThreadPoolExecutor(lanes))
        until = time.monotonic() + seconds
        while time.monotonic() < until and worlds[0].round < rounds:
            turns = [pool.submit(_turns, each, ROUNDS_BETWEEN_LANDINGS) for each in worlds]
            kept(clients[0])
            for each in turns:
                each.result()
            moments.append(server.moment(seen.counted["ticks"]))
        for _ in range(SETTLE_ROUNDS):
            for each in worlds:
                each.ticked_out()
            kept(clients[0])
        lost = [each for world in worlds for each in losses(world)]
        _stop(server, seen)
    # Beside those since a checkpoint, and the checkpoint: ticks that are not landed, or too young.
    segments_max = lanes * (limits.CHECKPOINT_TICKS + 3 * ROUNDS_BETWEEN_LANDINGS)
    commands = seen.counted["commands"]
    return Soaked(moments, seen.seconds, commands, seen.unexpected, lost, segments_max)


@contextlib.contextmanager
def _open(server: Server, seen: Seen) -> Iterator[Client]:
    client = server.client(seen)
    with client.http:
        yield client


def _turns(lane: Lane, rounds: int) -> None:
    for _ in range(rounds):
        lane.turn()


def _stop(server: Server, seen: Seen) -> None:
    server.process.send_signal(signal.SIGTERM)
    code = server.process.wait(timeout=START_SECONDS)
    if code != 0:
        seen.unexpected.append(f"the server ended with {code}")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # trimmed, or a draft, meanwhile
        return 0


def _records(database: Path) -> int:
    uri = f"{database.absolute().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as opened:
        (count,) = opened.execute("SELECT count(*) FROM record").fetchone()
    return int(count)


def main(arguments: list[str] | None = None) -> int:
    """Soak and report. Ends with 1 if anything was lost, refused or grew; with 2 if it was too short."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given)
    at = datetime.now(UTC)
    command = shlex.join(["python", "-m", "tests.proof.soak", *given])
    with tempfile.TemporaryDirectory(dir=options.root, prefix="soak-") as directory:
        facts = machine.facts(Path(directory))
        limit: dict[str, Any] = {"seconds": 60 * options.minutes}
        if options.operations is not None:
            limit = {"rounds": max(1, options.operations // (LANES * REQUESTS_A_ROUND))}
        try:
            found = soaked(Path(directory), **limit)
        except soak_report.TooShort as short:
            sys.stderr.write(f"{short}\n")
            return 2
    sys.stdout.write("\n".join([*soak_report.lines(found), soak_report.told(found), ""]))
    if options.json is not None:
        values = soak_report.spelled(found, facts, command=command, at=at)
        options.json.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    if options.write_docs:
        said = report._machine(facts)
        soak_report.write_docs(PAGE, found, said, command=command, at=at)
    return 1 if found.faults() else 0


REQUESTS_A_ROUND = 11


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long to ask (2)")
    parser.add_argument("--operations", type=int, help="how many requests, instead of minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument("--root", type=Path, metavar="DIR", help="put data on the disk of DIR")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the tables into docs/reliability.md"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
