"""What a soak asks of a deployment, and the book of what was acknowledged."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import httpx

ENTITIES = 300
"""Entities of a world: as many end in a round as begin in it. Their rows need a segment each tick."""

BORN = 6
UPDATED = 20
PAGE = 1_000
GRACE = "2s"


@dataclass
class Seen:
    """How long requests took, by kind, and what was not expected."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    unexpected: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    access: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, seconds: float, wrong: str | None) -> None:
        with self.access:
            self.seconds[kind].append(seconds)
            if wrong is not None:
                self.unexpected.append(f"{kind}: {wrong}")


@dataclass
class Client:
    """Asks, and books how long it took."""

    http: httpx.Client
    seen: Seen

    def __call__(self, kind: str, method: str, path: str, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            reply = self.http.request(method, path, **options)
        except httpx.HTTPError as error:
            self.seen.add(kind, time.perf_counter() - started, repr(error))
            raise
        wrong = None if reply.status_code < 300 else f"{reply.status_code} {reply.text[:200]}"
        self.seen.add(kind, time.perf_counter() - started, wrong)
        reply.raise_for_status()
        return reply.json()


@dataclass
class Lane:
    """One world, and everything that one client does to it, one thing after another."""

    name: str
    client: Client
    chance: random.Random
    round: int = 0
    tick: int = -1
    alive: list[int] = field(default_factory=list)
    """Entities that live once all that is open is applied, the oldest first."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    """What must become of each command in the end, by its id."""

    @property
    def path(self) -> str:
        return f"/v1/worlds/{self.name}"

    def create(self) -> None:
        body = {"name": self.name, "world_id": self.name}
        self.client("create", "POST", "/v1/worlds", json=body)
        receipts = self._sent("batch", "first", [_spawn() for _ in range(ENTITIES)])
        self.alive += [each["entity_id"] for each in receipts]

    def turn(self) -> None:
        """Do one round: admissions of every kind, a tick, and readings."""
        self.round += 1
        self.single()
        self.batch()
        self.cancelled()
        self.ticked()
        self.read()

    def single(self) -> None:
        receipt = self._sent("single", f"one-{self.round}", [_spawn()])[0]
        self.alive.append(receipt["entity_id"])

    def batch(self) -> None:
        """Send a batch, and the very same again."""
        ending, self.alive = self.alive[:-ENTITIES], self.alive[-ENTITIES:]
        chosen = self.chance.sample(self.alive, min(UPDATED, len(self.alive)))
        commands = [_spawn() for _ in range(BORN)]
        commands += [{"operation": "despawn", "entity_id": each} for each in ending]
        commands += [_update(each, self.round) for each in chosen]
        receipts = self._sent("batch", f"many-{self.round}", commands)
        again = self._sent("resend", f"many-{self.round}", commands)
        told = [(each["command_id"], each["sequence"]) for each in receipts]
        if told != [(each["command_id"], each["sequence"]) for each in again]:
            self.client.seen.unexpected.append(f"resend: other receipts for many-{self.round}")
        self.alive += [each["entity_id"] for each in receipts[:BORN]]

    def cancelled(self) -> None:
        """Send a command for a later tick, and take it back."""
        batch = f"late-{self.round}"
        later = {**_spawn(), "tick": self.tick + 1_000}
        (receipt,) = self._sent("single", batch, [later])
        told = self.client("cancel", "DELETE", f"{self.path}/commands/{receipt['command_id']}")
        self.acknowledged[told["command_id"]] = "rejected"

    def ticked(self) -> None:
        key = {"Idempotency-Key": f"tick-{self.round}"}
        ran = self.client("tick", "POST", f"{self.path}/tick", json={"ticks": 1}, headers=key)
        self.tick = ran["published_tick"]
        self.client.seen.counted["ticks"] += ran["ticks"]

    def ticked_out(self) -> None:
        """Publish one more tick, with nothing new in it."""
        self.round += 1
        self.ticked()

    def read(self) -> None:
        """Read the state of now, that of an older tick, some history and some log."""
        asked = {"components": "Position", "limit": PAGE}
        self.client("query, now", "GET", f"{self.path}/entities", params=asked)
        old = {**asked, "tick": self.chance.randrange(self.tick + 1)}
        self.client("query, any tick", "GET", f"{self.path}/entities", params=old)
        self.client("history", "GET", f"{self.path}/history", params={"limit": 20})
        first = self.chance.randrange(3 * self.round)
        self.client("log", "GET", f"{self.path}/log", params={"after": first, "limit": 20})
        self.client("describe", "GET", self.path)

    def _sent(self, kind: str, batch: str, commands: list[dict[str, Any]]) -> list[dict[str, Any]]:
        body = {"batch_id": batch, "commands": commands}
        reply = self.client(kind, "POST", f"{self.path}/commands", json=body)
        receipts: list[dict[str, Any]] = reply["receipts"]
        for each in receipts:
            self.acknowledged.setdefault(each["command_id"], "applied")
        if kind != "resend":
            self.client.seen.counted["commands"] += len(receipts)
        return receipts


def kept(client: Client) -> None:
    """Land what was published, with its events, and let go of what landed."""
    client("land", "POST", "/v1/land")
    client("trim", "POST", "/v1/trim", json={"grace": GRACE})


def losses(lane: Lane) -> list[str]:
    """Return what of the acknowledged is not settled as it must be, or not landed."""
    client, found = lane.client, []
    told = {each["command_id"]: each["status"] for each in _pages(lane, "commands")}
    for command, wanted in lane.acknowledged.items():
        if told.get(command) != wanted:
            found.append(f"{lane.name} {command}: {told.get(command)}, not {wanted}")
    if told.keys() != lane.acknowledged.keys():
        found.append(f"{lane.name}: {len(told)} commands, {len(lane.acknowledged)} acknowledged")
    asked = {"components": "Position", "limit": 10 * PAGE}
    rows = client("check", "GET", f"{lane.path}/entities", params=asked)["rows"]
    if sorted(row["entity_id"] for row in rows) != sorted(lane.alive):
        found.append(f"{lane.name}: {len(rows)} entities, {len(lane.alive)} expected")
    applied = _pages(lane, "events", path="history", kind="applied")
    if len(applied) != sum(wanted == "applied" for wanted in lane.acknowledged.values()):
        found.append(f"{lane.name}: {len(applied)} events of applied commands")
    world = client("check", "GET", lane.path)
    behind = {each["name"]: each["lag"] for each in world["consumers"] if each["lag"]}
    if behind or world["pending_commands"]:
        found.append(f"{lane.name}: lag {behind}, {world['pending_commands']} pending")
    return found


def _pages(lane: Lane, members: str, *, path: str = "", **asked: Any) -> list[dict[str, Any]]:
    held: list[dict[str, Any]] = []
    more: dict[str, Any] = {}
    while True:
        params = {"limit": PAGE, **asked, **more}
        page = lane.client("check", "GET", f"{lane.path}/{path or members}", params=params)
        held += page[members]
        if page.get("next") is None:
            return held
        more = {"next": page["next"]}


def _spawn() -> dict[str, Any]:
    return {"operation": "spawn", "components": {"Position": {"x": 0.0, "y": 1.0}}}


def _update(entity: int, value: int) -> dict[str, Any]:
    place = {"Position": {"x": 1.0, "y": float(value)}}
    return {"operation": "update", "entity_id": entity, "components": place}
