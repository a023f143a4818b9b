"""A whole deployment in this process: the gateway, the deployed handlers, a storage on disk.

Requests go in as bytes, as a server would have read them; what is stored can be looked at as a
whole, and put back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tests.fuzz.prepared import GOOD

from perdure.api.settings import local
from perdure.api.wiring import catalog_path, made
from perdure.api.wiring_jobs import jobs
from perdure.api.wiring_sessions import sessions
from perdure.kernel.documents.jobs.take import TakeJob
from perdure.kernel.ids import Holder, Instant
from perdure_emulator import template
from perdure_emulator.dev import _here
from perdure_emulator.gateway import Gateway
from perdure_emulator.issuer import Issuer, issuer
from perdure_emulator.sandboxes import InLoop

APP = "tests.fuzz.fleet:app"
TEMPLATE = Path(__file__).parents[2] / "template.yaml"
ADDRESS = "http://127.0.0.1:8337"
HOST = (b"host", b"127.0.0.1:8337")
SECONDS_MAX = 120.0
"""No request takes longer. It is far more than any needs: only a hang is to be seen."""


@dataclass(frozen=True)
class Answered:
    """A reply as it went out."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @cached_property
    def body(self) -> Any:
        return json.loads(self.content) if self.content else None

    @property
    def code(self) -> str | None:
        found = self.body.get("code") if isinstance(self.body, dict) else None
        return found if isinstance(found, str) else None


@dataclass
class Hull:
    """A deployment over a directory, and what was kept of it."""

    root: Path
    kept: Path
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    gateway: Gateway | None = None
    sandboxes: dict[str, InLoop] = field(default_factory=dict)

    def open(self) -> None:
        """Open the deployment over what is there."""
        chosen = local(self.root, app=APP, namespace="default")
        made(chosen)
        reading = partial(
            template.read, TEMPLATE, parameters={}, assumed={"App": APP, "Namespace": "default"}
        )
        declared, waiting = _here(reading, ADDRESS, chosen)
        served = {route.function for route in declared.routes}
        self.sandboxes = {name: InLoop(declared.functions[name]) for name in served}
        self.gateway = Gateway(
            replace(declared, throttle=None), self.sandboxes, self.issuer, waiting.sqs
        )

    def close(self) -> None:
        for each in self.sandboxes.values():
            self._run(each.close())

    def keep(self) -> None:
        """Keep what is stored now, for :meth:`restore`."""
        self.close()
        shutil.copytree(self.root, self.kept)

    def restore(self) -> None:
        """Put back what was kept; functions open it anew."""
        self.close()
        shutil.rmtree(self.root)
        shutil.copytree(self.kept, self.root)

    def stored(self) -> dict[str, Any]:
        """Return every row of every database and every other file by its size."""
        found: dict[str, Any] = {}
        for path in sorted(self.root.rglob("*")):
            if path.suffix in {".sqlite", ".db"} or path.name.endswith(".sqlite3"):
                found[str(path)] = _rows(path)
            elif path.is_file() and not path.name.endswith(("-wal", "-shm")):
                found[str(path)] = path.stat().st_size
        return found

    @cached_property
    def issuer(self) -> Issuer:
        return issuer(catalog_path(made(local(self.root, app=APP, namespace="default"))).parent)

    def token(self, role: str = "admin", **changed: Any) -> str:
        given = {"tenant": "default", "now_seconds": int(time.time()), "seconds": 86_400}
        return self.issuer.token(**{"actor": "ann", "role": role, **given, **changed})

    def bearer(self, role: str = "admin", **changed: Any) -> tuple[bytes, bytes]:
        return b"authorization", b"Bearer " + self.token(role, **changed).encode()

    def ask(
        self,
        method: str,
        target: bytes,
        headers: list[tuple[bytes, bytes]],
        body: list[bytes] | bytes = b"",
    ) -> Answered:
        """Answer a request whose target and headers are bytes, and whose body may come in parts."""
        path, _, query = target.partition(b"?")
        scope = {
            "type": "http",
            "method": method,
            "raw_path": path,
            "query_string": query,
            "headers": [HOST, *headers],
        }
        return self._run(self._answered(scope, body if isinstance(body, list) else [body]))

    def call(self, method: str, path: str, body: Any = None, role: str = "admin") -> Answered:
        """Ask for something plain."""
        text = b"" if body is None else json.dumps(body).encode()
        content = [(b"content-type", b"application/json")] if text else []
        return self.ask(method, path.encode(), [self.bearer(role), *content], text)

    async def _answered(self, scope: dict[str, Any], parts: list[bytes]) -> Answered:
        messages = [
            {"type": "http.request", "body": part, "more_body": number < len(parts)}
            for number, part in enumerate(parts or [b""], 1)
        ]
        coming = iter(messages)
        sent: list[Any] = []

        async def receive() -> Any:
            return next(coming)

        async def send(message: Any) -> None:
            sent.append(message)

        async with asyncio.timeout(SECONDS_MAX):
            await self.gateway(scope, receive, send)
        start, content = sent
        headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        return Answered(start["status"], headers, content["body"])

    def _run(self, work: Any) -> Any:
        # Not Runner.run, which sets the handler of Ctrl-C anew for each.
        return self.runner.get_loop().run_until_complete(work)


class Traced:
    """Asks, and sees to it that a refusal, or a reading, has left everything as it was."""

    def __init__(self, hull: Hull) -> None:
        self.hull = hull
        self.before = hull.stored()

    def ask(self, method: str, *request: Any) -> Answered:
        answered = self.hull.ask(method, *request)
        after = self.hull.stored()
        if answered.status >= 400 or method == "GET":
            assert after == self.before, (method, request, answered)
        self.before = after
        return answered


def _rows(path: Path) -> dict[str, list[Any]]:
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as opened:
        names = [name for (name,) in opened.execute("SELECT name FROM sqlite_master")]
        tables = [name for name in names if not name.startswith("sqlite_")]
        return {name: sorted(opened.execute(f'SELECT * FROM "{name}"')) for name in tables}


def seed(hull: Hull) -> None:
    """Make worlds of every kind: with rows and commands, forked, bare, ended."""

    def done(method: str, path: str, body: Any = None) -> None:
        reply = hull.call(method, path, body)
        assert reply.status < 300, reply.content

    fleet = "/v1/worlds/fleet"
    place = {"Position": {"x": 1.0, "y": 2.0}}
    load = {"Cargo": {"tons": 3, "note": None, "sealed": True}}
    spawn = {"operation": "spawn", "components": {**place, **load}}
    done("POST", "/v1/worlds", {"name": "fleet", "world_id": "fleet", "kind": "sea"})
    done("POST", "/v1/worlds", {"name": "bare", "world_id": "bare", "every": "1m"})
    done("POST", "/v1/worlds", {"name": "gone", "world_id": "gone"})
    done("POST", f"{fleet}/commands", {"batch_id": "first", "commands": [spawn] * 300})
    done("POST", f"{fleet}/tick", {"to_tick": 2})
    done("POST", "/v1/land")
    later = {"operation": "update", "entity_id": 1, "tick": 9, "components": place}
    done("POST", f"{fleet}/commands", {"batch_id": "later", "commands": [later, later]})
    done("POST", f"{fleet}/tick", {"to_tick": 4})
    done("PUT", f"{fleet}/consumers/hook", {"required": False})
    done("POST", f"{fleet}/fork", {"name": "quay", "world_id": "quay"})
    done("DELETE", "/v1/worlds/gone")
    papers(done)
    hull.runner.run(stuck(hull.root))
    talk = "/v1/sessions/talk"
    done("POST", "/v1/sessions", {"agent": "mate", "session_id": "talk"})
    done("POST", f"{talk}/send", {"input": "ahoy", "send_id": "first"})
    done("POST", f"{talk}/send", {"input": "and?", "send_id": "second"})
    GOOD["resolve_approval"].names["call"] = hull.runner.run(asked_for_a_word(hull.root))


def papers(done: Callable[..., None]) -> None:
    """Make a document store with documents and a table."""
    notes = "/v1/stores/notes"
    columns = {"tag": "str", "n": "int", "who": "str", "at": "int"}
    tags = {"columns": columns, "key": ["tag", "n"], "indexes": {"by_who": ["who"]}}
    note = {"write": "document.create", "owner": "notes", "namespace": "desk", "kind": "note"}
    rows = [{"tag": tag, "n": n, "who": "ann", "at": 0} for tag in "ab" for n in (1, 2)]
    writes = [
        *({**note, "key": key, "value": {"said": key}} for key in ("second", "third", "fourth")),
        *({"write": "row.insert", "table": "notes:tags", "row": row} for row in rows),
    ]
    first = {**note, "key": "first", "history": "rewindable", "value": {"said": "first"}}
    done("POST", "/v1/stores", {"store_id": "notes"})
    done("PUT", f"{notes}/tables/notes:tags", tags)
    done("POST", f"{notes}/commits", {"writes": [first, *writes]})
    sound = {"name": "sound", "args": {"depth": 3}, "job_id": "first"}
    done("POST", f"{notes}/jobs", sound)


async def stuck(root: Path) -> None:
    """Let a job be blocked, as other code than it was started with does it."""
    async with jobs(local(root, app=APP, namespace="default")) as ports:
        board, means = ports.jobs, ports.jobs.means
        await board.start("notes", "sound", {"depth": 3}, job_id="stuck")
        due = board.due("notes", "sound", "stuck")
        other = {"version": 99, "fingerprint": "other", "resume": "rerun", "lease_ms": 1_000}
        token = means.new_token()
        taken = TakeJob(due.ref, due.job, token, holder=Holder("other"), **other)
        await means.authority.execute(taken.checked())


async def asked_for_a_word(root: Path) -> str:
    """Let a session come to a call that waits for a word, and return the call's key."""
    async with sessions(local(root, app=APP, namespace="default")) as ports:
        held = ports.sessions
        await held.create("mate", session_id="asking")
        await held.send("asking", "ahoy")
        await held.drive("asking", deadline=Instant(held.means.now() + 60_000))
        return (await held.describe("asking")).waiting_calls[0].call_key


def seeded(directory: Path) -> Iterator[Hull]:
    """Yield a deployment with worlds in it, that can be put back."""
    hull = Hull(directory / "root", directory / "kept")
    try:
        hull.open()
        seed(hull)
        hull.keep()
        yield hull
    finally:
        hull.close()
        hull.runner.close()
