"""Chat completions over HTTP, as OpenAI and many others serve them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

import httpx

from perdure.kernel.ids import Instant
from perdure.runtime.session.model_attempts import (
    Again,
    Attempts,
    Cut,
    Exchange,
    Means,
    persistent,
)
from perdure.runtime.session.model_common import BODY_BYTES_MAX, mended, too_large
from perdure.runtime.session.model_openai_wire import Draft, Lines, body
from perdure.runtime.session.ports import ModelCall, ModelRefused, ModelReply, ModelRequest

TRY_AGAIN: Final = frozenset({408, 409, 425, 429})
"""Status codes below 500 that another attempt may not meet. Source: RFC 9110, RFC 8470, RFC 6585."""

TIMES_OUT: Final = httpx.Timeout(300.0, connect=10.0)
"""Seconds without a byte. Source: choice; a model that reasons may be silent for minutes, and the
deadline of the step bounds all of it."""

ERROR_BYTES_MAX: Final = 65_536
"""Bytes that are read of an answer which is no message. Source: choice; they are measured only."""

RETRY_AFTER_MS_MAX: Final = 86_400_000
"""Longest pause that is believed. Source: choice; no deadline lies beyond it."""

_DONE: Final = b"[DONE]"
_EVENTS: Final = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiModel:
    """One model, by its name, at one base URL (``https://api.openai.com/v1``)."""

    url: str
    model_name: str
    key: Callable[[], Awaitable[str | None]]
    """Asked for every step; None sends none."""

    clients: Callable[[], httpx.AsyncClient]
    """Makes the client of one step: no event loop outlives it, and nothing need be closed."""

    means: Means

    async def step(self, request: ModelRequest, call: ModelCall) -> ModelReply:
        """Return one whole message. Raises ModelRefused, ModelUnavailable.

        Text that was told before an attempt broke off is told again by the next.
        The option ``stream`` set to false asks for the answer in one piece.
        """
        spelled = body(self.model_name, request)
        async with self.clients() as http:

            async def attempt(attempts: Attempts) -> ModelReply:
                sent = http.build_request(
                    "POST",
                    f"{self.url}/chat/completions",
                    content=spelled,
                    headers=_headers(await self.key()),
                )
                exchange = attempts.begin(spelled)
                return await _asked(http, sent, exchange, attempts)

            return await persistent(self.means, call, attempt)


def _headers(key: str | None) -> dict[str, str]:
    """Return what is sent beside the body. Raises ModelRefused for a key that no header holds."""
    headers = {
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",  # what is measured is what is read
    }
    if key:
        if not (key.isascii() and key.isprintable()):
            raise ModelRefused(expected="a key of visible ASCII", found="another")
        headers["Authorization"] = f"Bearer {key}"
    return headers


async def _asked(
    http: httpx.AsyncClient, sent: httpx.Request, exchange: Exchange, attempts: Attempts
) -> ModelReply:
    """Send the request once. Raises Again, ModelRefused."""
    try:
        answer = await http.send(sent, stream=True, follow_redirects=False)
        try:
            exchange.http_status = answer.status_code
            exchange.content_type = answer.headers.get("content-type")
            return await _read(answer, exchange, attempts)
        finally:
            await answer.aclose()
    except httpx.HTTPError as error:  # its text may hold what was sent
        name = type(error).__name__
        if exchange.http_status is None:
            raise Again(f"no answer ({name})") from None
        raise Cut(f"an answer that broke off ({name})") from None


async def _read(answer: httpx.Response, exchange: Exchange, attempts: Attempts) -> ModelReply:
    if answer.status_code != httpx.codes.OK:
        await _drained(answer, exchange)
        raise _judged(answer, attempts.now())
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise ModelRefused(expected="an answer that is not compressed", found="one that is")
    draft, chunks = Draft(), _measured(answer, exchange)
    if (exchange.content_type or "").partition(";")[0].strip().lower() == _EVENTS:
        if not await _heard(chunks, draft, attempts.call):
            raise Cut("an answer that broke off")
    else:
        spelled = bytearray()
        async for chunk in chunks:
            spelled += chunk
        if piece := draft.hear(bytes(spelled)):
            attempts.call.said(mended(piece))
        if not draft.is_whole:
            raise Again("an answer that does not say why it ended")
    return draft.reply()


async def _heard(chunks: AsyncIterator[bytes], draft: Draft, call: ModelCall) -> bool:
    """Read events until the stream says that it is done, or ends; say whether that is all."""
    lines = Lines()
    try:
        async for chunk in chunks:
            for data in lines.take(chunk):
                if data.strip() == _DONE:
                    return draft.is_whole
                if piece := draft.hear(data):
                    call.said(mended(piece))
    except httpx.HTTPError:
        if not draft.is_whole:
            raise
    return draft.is_whole


async def _measured(answer: httpx.Response, exchange: Exchange) -> AsyncIterator[bytes]:
    async for chunk in answer.aiter_raw():
        exchange.take(chunk)
        if exchange.received > BODY_BYTES_MAX:
            exchange.cap = exchange.received
            raise too_large("a longer answer")
        yield chunk


async def _drained(answer: httpx.Response, exchange: Exchange) -> None:
    """Read what comes with an error, as far as it is worth it."""
    async for chunk in answer.aiter_raw():
        exchange.take(chunk)
        if exchange.received > ERROR_BYTES_MAX:
            exchange.cap = exchange.received
            return


def _judged(answer: httpx.Response, now: Instant) -> Exception:
    """Return what a status other than 200 means for the step, without a word of the answer."""
    status = answer.status_code
    if status >= 500 or status in TRY_AGAIN or status < 300:
        after_ms = retry_after_ms(answer.headers.get("retry-after", ""), now)
        return Again(f"status {status}", after_ms=after_ms)
    return ModelRefused(expected="a request that the provider takes", found=f"status {status}")


def retry_after_ms(said: str, now: Instant) -> int:
    """Return how long a provider asks to wait, in seconds or until a date; 0 for anything else."""
    try:
        if said.strip().isdecimal():
            wait_ms = int(said) * 1_000
        else:
            wait_ms = int(parsedate_to_datetime(said).timestamp() * 1_000) - now
    except (OverflowError, TypeError, ValueError):
        return 0
    return max(0, min(wait_ms, RETRY_AFTER_MS_MAX))
