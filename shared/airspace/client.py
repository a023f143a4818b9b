"""What the replay asks of a running Perdure, and how it is asked over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import httpx

from airspace.replay import Command

Json: TypeAlias = dict[str, Any]

NOTHING_PUBLISHED: Final = -1
"""The published tick of a world that has published none."""

PATIENCE_SECONDS: Final = 90.0
"""How long a request is repeated that may succeed later: longer than a dead writer's lease."""

PAUSE_SECONDS: Final = 0.5
"""Pause before a request is repeated, if the answer names none."""

ASK_AGAIN: Final = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Receipt:
    """What admission promised for one command; all but ``status`` stay the same for ever."""

    command_id: str
    sequence: int
    entity_id: int | None
    status: str


@dataclass(frozen=True, slots=True)
class Landed:
    """What one call of landing appended to the Iceberg tables."""

    rows: int
    files: int


class Problem(Exception):
    """The server said no: its ``code`` and detail, and whether asking again may help."""

    def __init__(self, code: str, detail: str, *, may_pass: bool = False) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.may_pass = may_pass


class Client(Protocol):
    """A running Perdure. Every method may be called again after any failure, with the same result."""

    def create_world(self, world_id: str, name: str) -> None:
        """Make sure that the world exists."""

    def published_tick(self, world_id: str) -> int:
        """Return the last published tick, or NOTHING_PUBLISHED."""

    def submit(self, world_id: str, batch_id: str, commands: Sequence[Command]) -> list[Receipt]:
        """Admit a batch; one that is known already is answered with its receipts."""

    def tick(self, world_id: str, to_tick: int) -> int:
        """Run ticks towards ``to_tick`` and return the last published one."""

    def land(self) -> Landed:
        """Land some of what is published; no rows means that all of it is landed."""


class HttpClient:
    """A Perdure behind its HTTP routes."""

    def __init__(self, http: httpx.Client, *, pause: Callable[[float], None]) -> None:
        self._http = http
        self._pause = pause

    def create_world(self, world_id: str, name: str) -> None:
        self._ask("POST", "/v1/worlds", {"world_id": world_id, "name": name})

    def published_tick(self, world_id: str) -> int:
        published = self._ask("GET", f"/v1/worlds/{world_id}")["published_tick"]
        return NOTHING_PUBLISHED if published is None else int(published)

    def submit(self, world_id: str, batch_id: str, commands: Sequence[Command]) -> list[Receipt]:
        answer = self._ask(
            "POST",
            f"/v1/worlds/{world_id}/commands",
            {"commands": list(commands)},
            idempotency_key=batch_id,
        )
        return [
            Receipt(each["command_id"], each["sequence"], each.get("entity_id"), each["status"])
            for each in answer["receipts"]
        ]

    def tick(self, world_id: str, to_tick: int) -> int:
        answer = self._ask("POST", f"/v1/worlds/{world_id}/tick", {"to_tick": to_tick})
        return int(answer["published_tick"])

    def land(self) -> Landed:
        answer = self._ask("POST", "/v1/land", {})
        return Landed(int(answer["rows"]), int(answer["files"]))

    def _ask(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Json:
        """Send a request until it is decided. Raises Problem, or httpx.TransportError."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        waited = 0.0
        while True:
            answer = self._http.request(method, path, json=body, headers=headers)
            pause = pause_of(answer)
            if not passes(answer) or waited + pause > PATIENCE_SECONDS:
                return decided(answer)
            self._pause(pause)
            waited += pause


def passes(answer: httpx.Response) -> bool:
    """Tell whether asking again may help: the answer says when, or has a status that says so."""
    return answer.status_code in ASK_AGAIN or "Retry-After" in answer.headers


def pause_of(answer: httpx.Response) -> float:
    """Return the seconds after which an answer says to ask again."""
    named = answer.headers.get("Retry-After", "")
    return float(named) if named.isdecimal() and int(named) > 0 else PAUSE_SECONDS


def decided(answer: httpx.Response) -> Json:
    """Return the body of a good answer. Raises Problem for any other."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Problem("unreadable_answer", f"{answer.status_code} without a JSON object")
    if answer.is_success:
        return body
    code = str(body.get("code", answer.status_code))
    detail = str(body.get("detail", body.get("title", answer.reason_phrase)))
    raise Problem(code, detail, may_pass=passes(answer))
