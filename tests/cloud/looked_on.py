"""A sandbox as Lambda runs it, and what it has told: log lines, metrics, replies."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.api.rig import Context, bearer, stores_on, worlds_on

from perdure.api import faces
from perdure.api.gateway import http_event
from perdure.api.ports import Api
from perdure.api.sandbox import Sandbox
from perdure.authority.memory import MemoryStore


def forget_logger() -> None:
    """Let the next sandbox open the logger anew, as a new process would."""
    logger = logging.getLogger("perdure")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    for attribute in ("init", "powertools_handler"):
        if hasattr(logger, attribute):
            delattr(logger, attribute)
    logger.setLevel(logging.NOTSET)


async def _pause(_: float) -> None:
    return None


@dataclass
class Looked:
    """A sandbox on a store in memory, with what was printed since the last look."""

    capture: Any
    scheduled: Callable[..., Any] | None = None
    store: Any = field(default_factory=MemoryStore)
    pause: Callable[..., Any] = _pause

    def __post_init__(self) -> None:
        @asynccontextmanager
        async def opening() -> AsyncIterator[Api]:
            worlds = worlds_on(self.store)
            yield Api(worlds, stores_on(self.store), self.pause, worlds._authority.costs)

        self.sandbox = Sandbox(opening, faces.API, self.scheduled)
        self.context = Context()

    def event(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: str = "",
        request_id: str = "gateway-1",
        authorizer: Any = None,
        **headers: str,
    ) -> dict[str, Any]:
        return http_event(
            method,
            path,
            query=query,
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            body=b"" if body is None else json.dumps(body).encode(),
            request_id=request_id,
            authorizer=authorizer or bearer("admin"),
        )

    def asks(self, *asked: Any, **more: Any) -> dict[str, Any]:
        return self.gets(self.event(*asked, **more))

    def gets(self, event: Any) -> dict[str, Any]:
        return self.sandbox.handler(event, self.context)

    def told(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
        """Return log lines, lines of metrics, and everything as it was printed."""
        printed = self.capture.readouterr()
        lines = [json.loads(line) for line in printed.err.splitlines()]
        return lines, [json.loads(line) for line in printed.out.splitlines()], str(printed)

    def line(self) -> dict[str, Any]:
        """Return the one line of the last event."""
        (found,) = [each for each in self.told()[0] if each["message"] == "done"]
        return found
