"""Embedded: the functions' own routes in this process, on a storage in a local directory."""

from __future__ import annotations

import json
import logging
import sys
import time
import urllib.parse
import uuid
from functools import partial
from pathlib import Path
from typing import Any, Final

from perdure.api import faces, models
from perdure.api.gateway import http_event
from perdure.api.ports_sessions import SessionPorts
from perdure.api.sandbox import Sandbox
from perdure.api.settings import local
from perdure.api.wiring import api, existing, made
from perdure.cli.client import Answered, Query, patiently
from perdure.cli.lazy import loaded
from perdure.cli.talk import Heard
from perdure.kernel.ids import Instant
from perdure.runtime.app import load_app
from perdure.runtime.session.runner import Driven
from perdure.runtime.session.session import RUN_MS
from perdure.runtime.session.work import Happened, Said

SLICE_SECONDS: Final = 5.0
"""What one call of a run of ticks may take, so that progress is seen."""


class Context:
    """Lambda's context object, for an event that nobody waits for over a network."""

    aws_request_id = "embedded"

    def __init__(self) -> None:
        self._until = time.monotonic() + SLICE_SECONDS

    def get_remaining_time_in_millis(self) -> int:
        return max(0, round((self._until - time.monotonic()) * 1_000))


class Embedded:
    """Asks the routes of the functions without a server between."""

    rows_per_page = models.ROWS_MAX

    def __init__(self, root: Path, *, app: str | None = None, make: bool = False) -> None:
        # What the log would say of a hook that failed, the answer says.
        logging.getLogger("perdure.runtime").addHandler(logging.NullHandler())
        chosen = local(root, app=app)
        # At once, so that a name misspelled makes no directory.
        load_app(chosen.app)
        self._settings = made(chosen) if make else existing(chosen)
        self._thin: Sandbox[Any] | None = None
        self._lake: Sandbox[Any] | None = None
        self._talks: Sandbox[Any] | None = None
        self._jobs: Sandbox[Any] | None = None

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        key: str | None = None,
    ) -> Any:
        event = http_event(
            method,
            path,
            query=spelled(query),
            headers={} if key is None else {"idempotency-key": key},
            body=b"" if body is None else json.dumps(body).encode(),
            request_id=str(uuid.uuid4()),
        )
        sandbox = self._side_of(method, path)
        reply = patiently(
            lambda: sandbox.interruptible(event, Context()),
            lambda answered: answered["headers"].get("retry-after"),
        )
        answer = json.loads(reply["body"])
        if reply["statusCode"] >= 400:
            raise Answered(answer, status=reply["statusCode"])
        return answer

    def drive(self, session: str, heard: Heard) -> str:
        """Go on with a session in this process, and return how it was left.

        Raises: FenceHeld while another process does; what keeps this one from it.
        """

        def told(event: Said | Happened) -> None:
            if isinstance(event, Said):
                heard.text(event.text)
                return
            for fact in event.facts:
                heard.fact(fact.type, fact.payload(), is_spoken=True)

        async def work(ports: SessionPorts) -> Driven:
            deadline = Instant(ports.sessions.means.now() + RUN_MS)
            return await ports.sessions.drive(session, deadline=deadline, told=told)

        return self._talking_side().work(work).state

    def work_off(self, seconds: float) -> list[dict[str, Any]]:
        """Go on with every job that is due in this process, and return how each was left."""
        work = partial(loaded("perdure.api.working:worked_off"), ms=round(seconds * 1_000))
        found: list[dict[str, Any]] = self._working_side().work(work)
        return found

    def close(self) -> None:
        for sandbox in (self._thin, self._lake, self._talks, self._jobs):
            if sandbox is not None:
                sandbox.close()

    def _side_of(self, method: str, path: str) -> Sandbox[Any]:
        if faces.is_of(faces.SESSIONS, method, path):
            return self._talking_side()
        if faces.is_of(faces.JOBS, method, path):
            return self._working_side()
        needs_arrow = faces.is_of(faces.LAKE, method, path)
        return self._lake_side() if needs_arrow else self._thin_side()

    def _talking_side(self) -> Sandbox[Any]:
        if self._talks is None:
            # By name: only who talks needs agents, their tools and their models.
            self._talks = loaded("perdure.api.wiring_sessions:everything")(self._settings)
        return self._talks

    def _working_side(self) -> Sandbox[Any]:
        if self._jobs is None:
            # By name: only who starts jobs needs those of the application.
            self._jobs = loaded("perdure.api.wiring_jobs:everything")(self._settings)
        return self._jobs

    def _thin_side(self) -> Sandbox[Any]:
        if self._thin is None:
            opening = partial(api, self._settings)
            self._thin = Sandbox(opening, faces.API, reply_bytes_max=sys.maxsize, trusted=True)
        return self._thin

    def _lake_side(self) -> Sandbox[Any]:
        if self._lake is None:
            # By name: Arrow takes as long to import as everything else together.
            self._lake = loaded("perdure.api.wiring_lake:everything")(self._settings)
        return self._lake


def spelled(query: Query | None) -> str:
    """Percent-encode a query; what is None is left out."""
    given = {name: value for name, value in (query or {}).items() if value is not None}
    return urllib.parse.urlencode(given, quote_via=urllib.parse.quote)
