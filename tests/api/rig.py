"""A warm process on a store in memory, and a caller that speaks in API Gateway events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from tests.support.documents import means

from perdure.api import faces
from perdure.api.gateway import http_event
from perdure.api.ports import Api
from perdure.api.sandbox import Sandbox
from perdure.authority.engine import Authority
from perdure.authority.memory import MemoryStore
from perdure.kernel.component import Component, Registry
from perdure.kernel.ids import Instant, RunId, StorageId, Token
from perdure.runtime.documents.stores import DocumentStores
from perdure.runtime.worlds import Worlds

SCHEDULED = {
    "version": "0",
    "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa",
    "detail-type": "Scheduled Event",
    "source": "aws.scheduler",
    "account": "123456789012",
    "time": "2015-10-08T16:53:06Z",
    "region": "us-east-1",
    "resources": ["arn:aws:scheduler:us-east-1:123456789012:schedule/default/tick"],
    "detail": "{}",
}
"""What EventBridge Scheduler sends to a function, without an input of its own."""


class Position(Component):
    x: float
    y: float


class Crew(Component):
    size: int
    captain: str


@dataclass
class Context:
    """Lambda's context, as far as it is used."""

    aws_request_id: str = "request-1"
    remaining_ms: int = 15_000

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_ms


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: Any


@dataclass
class Caller:
    """Calls a sandbox as API Gateway would, one event after another."""

    sandbox: Sandbox[Any]
    context: Context = field(default_factory=Context)
    authorizer: dict[str, Any] | None = field(default_factory=lambda: bearer("admin"))
    """What API Gateway's authorizer found out."""

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: str = "",
        text: str | bytes | None = None,
        **headers: str,
    ) -> Reply:
        raw = json.dumps(body) if text is None and body is not None else text or b""
        event = http_event(
            method,
            path,
            query=query,
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            body=raw.encode() if isinstance(raw, str) else raw,
            request_id="request-1",
            authorizer=self.authorizer,
        )
        reply = self.sandbox.handler(json.loads(json.dumps(event)), self.context)
        assert set(reply) == {"statusCode", "headers", "body", "isBase64Encoded"}
        is_json = reply["headers"]["content-type"].endswith("json")
        plain = reply["isBase64Encoded"] or not is_json
        decoded = reply["body"] if plain else json.loads(reply["body"])
        return Reply(reply["statusCode"], reply["headers"], decoded)


def bearer(role: str, actor: str = "ann", **claims: str) -> dict[str, Any]:
    """What API Gateway makes of a good token: all claims are text."""
    spelled = {"sub": actor, "role": role, "iss": "https://issuer", "exp": "1893456000", **claims}
    return {"jwt": {"claims": spelled, "scopes": None}}


@dataclass
class Rig:
    """Everything a test may look at."""

    store: MemoryStore
    caller: Caller
    pauses: list[float]

    def as_(self, role: str, actor: str = "ann", **claims: str) -> Caller:
        """Return a caller with a token of another role."""
        return replace(self.caller, authorizer=bearer(role, actor, **claims))

    def snapshot(self) -> dict[Any, Any]:
        """Return every record with its version."""
        return dict(self.store._records)


def worlds_on(store: MemoryStore) -> Worlds:
    tokens = count(1)
    clock = count(1_700_000_000_000, 1_000)
    authority = Authority(
        store,
        lambda: Instant(next(clock)),
        lambda: Token(f"t{next(tokens)}"),
        chance=lambda: 0.0,
    )
    return Worlds(
        authority,
        StorageId("memory"),
        Registry([Position, Crew]),
        new_token=lambda: Token(f"drawn-{next(tokens)}"),
        new_run=lambda: RunId(f"run-{next(tokens)}"),
    )


def stores_on(store: MemoryStore) -> DocumentStores:
    return DocumentStores(means(store, prefix="stores"), StorageId("memory"))


def sandbox_on(store: MemoryStore, pauses: list[float]) -> Sandbox[Api]:
    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    @asynccontextmanager
    async def opening() -> AsyncIterator[Api]:
        yield Api(worlds_on(store), stores_on(store), pause)

    return Sandbox(opening, faces.API)


def spawn(**fields: Any) -> dict[str, Any]:
    return {"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 2.0}}, **fields}
