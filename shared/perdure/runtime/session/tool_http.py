"""Tools behind HTTP: one POST for each call, and what each answer proves.

A tool is sent ``{"call_key", "name", "args"}`` with the header ``Idempotency-Key: <call key>``.

| observed | outcome |
|---|---|
| anything that fails before the first byte of the request | not sent |
| anything that fails after it, and an answer that breaks off, whatever its status | unknown |
| 2xx with JSON, or with no body | completed |
| 2xx with something else, or with more than is kept | completed, an error: the tool did answer |
| 202 of a tool that can be asked | unknown: it says "not yet", and is asked |
| 401, 403, 425, 429, 307, 308 | not sent: refused before a handler took it |
| 408; 409 with ``Retry-After`` | unknown: a gateway or the tool may still be at work |
| any other 4xx | completed, an error: the tool's own refusal |
| other 3xx, 5xx, anything else | unknown |

A body without a length ends with the connection, as a death would: it counts only if it is JSON
that cannot be the beginning of longer JSON.

A tool that can be asked answers ``GET <ask>/<call key>`` with 200 and ``{"call_key", "output",
"is_error"}``, or with 404 and ``{"call_key"}`` if no such call has arrived and none that is still
under way will be let in. The key is repeated so that no gateway's own 404 passes for that word.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from httpcore import URL

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.errors import Invalid
from perdure.kernel.shown import shown
from perdure.runtime.session.http_once import Answer, Ask, checked_url, once
from perdure.runtime.session.ports import (
    CallOutcome,
    CallRequest,
    Completed,
    NotSent,
    OutcomeNotKnown,
    ToolSpec,
)
from perdure.runtime.session.tool_answers import OUTPUT_BYTES_MAX, answered, failed, too_large
from perdure.runtime.session.toolbox import checked_spec

REFUSED_UNSENT: Final[Mapping[int, str]] = {
    HTTPStatus.TEMPORARY_REDIRECT: "redirected",
    HTTPStatus.PERMANENT_REDIRECT: "redirected",
    HTTPStatus.UNAUTHORIZED: "unauthenticated",
    HTTPStatus.FORBIDDEN: "access_denied",
    HTTPStatus.TOO_EARLY: "too_early",
    HTTPStatus.TOO_MANY_REQUESTS: "throttled",
}
"""Statuses that say that nobody took the call, and the codes under which that is known."""

OWN_HEADERS: Final = frozenset(
    {"connection", "content-length", "content-type", "expect", "host", "idempotency-key"}
    | {"accept-encoding", "transfer-encoding"}
)
"""Headers that the cut depends on, or the call's identity."""


class HttpTool:
    """A tool that takes its calls as POSTs."""

    can_be_asked = False

    def __init__(
        self,
        spec: ToolSpec,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Describe a tool. ``headers`` are sent with every request. Raises Invalid."""
        self._url = checked_url(url)
        taken = sorted(OWN_HEADERS & {name.lower() for name in headers or {}})
        if taken:
            raise Invalid(expected=f"headers of a tool without {taken[0]!r}", found="it")
        self._headers = dict(headers or {})
        self._ssl_context = ssl_context
        host = self._url.host.decode("ascii")
        self.spec = checked_spec(replace(spec, module=f"http:{host}"))

    async def call(self, request: CallRequest) -> CallOutcome:
        said = {"call_key": request.call_key, "name": request.name, "args": request.args}
        answer = await self._once(
            "POST",
            self._url,
            {"content-type": "application/json", "idempotency-key": request.call_key},
            canonical(said),
        )
        if isinstance(answer, NotSent | OutcomeNotKnown):
            return answer
        return outcome_of(answer, can_be_asked=self.can_be_asked)

    async def _once(
        self, method: str, url: URL, headers: Mapping[str, str], content: bytes = b""
    ) -> Answer | NotSent | OutcomeNotKnown:
        return await once(
            Ask(
                method=method,
                url=url,
                headers={**self._headers, **headers},
                content=content,
                timeout_seconds=self.spec.timeout_ms / 1_000,
                ssl_context=self._ssl_context,
            )
        )


class AskableHttpTool(HttpTool):
    """And that can be asked what became of a call."""

    can_be_asked = True

    def __init__(self, spec: ToolSpec, url: str, ask: str, **more: Any) -> None:
        """Describe a tool that is asked at ``<ask>/<call key>``. Raises Invalid."""
        super().__init__(spec, url, **more)
        checked_url(ask)
        if "?" in ask:
            raise Invalid(expected="an address to ask at without a query", found=shown(ask))
        self._ask = ask.rstrip("/")

    async def ask(self, request: CallRequest) -> CallOutcome | None:
        url = checked_url(f"{self._ask}/{quote(request.call_key, safe='')}")
        answer = await self._once("GET", url, {})
        if not isinstance(answer, Answer) or not _is_whole(answer):
            return None
        return _told(answer, request)


def outcome_of(answer: Answer, *, can_be_asked: bool = False) -> CallOutcome:
    """Return what an answer proves that came to its end."""
    status = answer.status
    if not _is_whole(answer):
        return OutcomeNotKnown("answer_broken", "The answer has no length, and may lack its end.")
    if status in REFUSED_UNSENT:
        return NotSent(REFUSED_UNSENT[status], f"The tool answered {_named(status)}.")
    if status == HTTPStatus.ACCEPTED and can_be_asked:
        return OutcomeNotKnown("accepted", "The tool has begun, and can be asked later.")
    if 200 <= status < 300:
        return _done(answer)
    if 400 <= status < 500 and not _may_be_at_work(answer):
        return _refused(answer)
    return OutcomeNotKnown(f"http_{status}", f"The tool answered {_named(status)}.")


def _done(answer: Answer) -> Completed:
    if answer.size > OUTPUT_BYTES_MAX:
        return too_large(answer.size)
    return answered(answer.body) if answer.body else Completed(None)


def _refused(answer: Answer) -> Completed:
    """Return a refusal in the tool's own words, if they are JSON."""
    own = _done(answer)
    if own.output is None or own.is_error:
        return failed(f"http_{answer.status}", f"The tool answered {_named(answer.status)}.")
    return Completed(own.output, is_error=True)


def _may_be_at_work(answer: Answer) -> bool:
    return answer.status == HTTPStatus.REQUEST_TIMEOUT or (
        answer.status == HTTPStatus.CONFLICT and "retry-after" in answer.headers
    )


def _is_whole(answer: Answer) -> bool:
    """Say whether the end of a connection can not have cut an answer short."""
    if answer.is_framed:
        return True
    try:
        value = strict(answer.body)
    except ValueError:
        return False
    return isinstance(value, bool) or not isinstance(value, int | float)


def _told(answer: Answer, request: CallRequest) -> CallOutcome | None:
    """Return what a tool says of a call, if it is of this one that it says something."""
    try:
        said = strict(answer.body)
    except ValueError:
        return None
    if not isinstance(said, dict) or said.get("call_key") != request.call_key:
        return None
    if answer.status == HTTPStatus.NOT_FOUND:
        return NotSent("never_arrived", "The tool says that the call has not arrived.")
    is_error = said.get("is_error", False)
    if answer.status != HTTPStatus.OK or "output" not in said or not isinstance(is_error, bool):
        return None
    return answered(canonical(said["output"]), is_error=is_error)


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
