"""Bedrock: Converse and ConverseStream through a client of boto3 that is handed in.

Nothing of boto3 is imported here. The client must not try again by itself: an attempt that this
adapter does not see could not be told of. Each attempt has a thread of its own, for boto3 blocks;
one that is given up is left alone, reads no further than its next bytes, and tells nobody.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from perdure.runtime.session.model_attempts import Again, Attempts, Cut, Means, persistent
from perdure.runtime.session.model_bedrock_wire import Draft, parameters
from perdure.runtime.session.model_common import BODY_BYTES_MAX, mended, too_large, word
from perdure.runtime.session.ports import ModelCall, ModelRefused, ModelReply, ModelRequest

TRY_AGAIN: Final = frozenset({408, 409, 424, 425, 429})
"""Status codes below 500 that another attempt may not meet. Source: Converse, errors; 424 says
that the model failed while it worked on the request."""

STREAM_REFUSES: Final = frozenset({"validationException", "ValidationException"})
"""Exceptions in a stream that another attempt would meet as well. Source: ConverseStream."""

_UNREADABLE: Final = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
_UNREADABLE_NAMES: Final = frozenset(
    {
        "ChecksumMismatch",
        "DuplicateHeader",
        "InvalidHeadersLength",
        "InvalidPayloadLength",
        "ResponseParserError",
    }
)
"""Errors of botocore's readers. Source: botocore.eventstream, botocore.parsers."""

_EVENTS: Final = "bedrock-runtime"


@dataclass(frozen=True, slots=True)
class BedrockModel:
    """One model of Bedrock, by its id or ARN."""

    client: Any
    """Of boto3, for ``bedrock-runtime``, with ``retries={"total_max_attempts": 1}``."""

    model_id: str
    means: Means

    def __post_init__(self) -> None:
        retries = self.client.meta.config.retries or {}
        if retries.get("total_max_attempts") != 1:
            raise ValueError("Expected a client that does not try again; found one that does.")
        events = self.client.meta.events
        events.register(f"before-send.{_EVENTS}", _sending, unique_id="perdure-sending")
        events.register(f"before-parse.{_EVENTS}", _answered, unique_id="perdure-answered")

    async def step(self, request: ModelRequest, call: ModelCall) -> ModelReply:
        """Return one whole message. Raises ModelRefused, ModelUnavailable.

        Text that was told before an attempt broke off is told again by the next.
        The option ``stream`` set to false asks for the answer in one piece.
        """
        asked = parameters(self.model_id, request)
        is_streamed = request.options.get("stream", True)

        async def attempt(attempts: Attempts) -> ModelReply:
            wire = _Wire(self.client, asked, Draft(self.model_id), attempts, is_streamed)
            return await wire.answer()

        return await persistent(self.means, call, attempt)


@dataclass(slots=True, eq=False)
class _Wire:
    """One attempt: a thread that blocks, and a coroutine that hears what it reads."""

    client: Any
    asked: dict[str, Any]
    draft: Draft
    attempts: Attempts
    is_streamed: bool
    given_up: bool = False
    heard: asyncio.Queue[str | ModelReply | Exception] = field(default_factory=asyncio.Queue)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    async def answer(self) -> ModelReply:
        """Return the message. Raises Again, ModelRefused."""
        loop = asyncio.get_running_loop()
        # A daemon, and no pool's: what is given up must not hold up the end of the process.
        threading.Thread(
            target=self._run, args=(loop,), name="perdure-bedrock", daemon=True
        ).start()
        try:
            while True:
                match await self.heard.get():
                    case str() as piece:
                        self.attempts.call.said(mended(piece))
                    case Exception() as error:
                        raise error
                    case reply:
                        return reply
        finally:
            with self._one_at_a_time:
                self.given_up = True

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        _UNDER_WAY.wire = self
        try:
            found: ModelReply | Exception = self._read(loop)
        except Exception as error:  # noqa: BLE001  # raised again where somebody waits for it
            found = error if isinstance(error, Again | ModelRefused) else self._judged(error)
        self._tell(loop, found)

    def _tell(self, loop: asyncio.AbstractEventLoop, found: str | ModelReply | Exception) -> None:
        with self._one_at_a_time:  # who waits has a loop that runs
            if not self.given_up:
                loop.call_soon_threadsafe(self.heard.put_nowait, found)

    def _read(self, loop: asyncio.AbstractEventLoop) -> ModelReply:
        if not self.is_streamed:
            text = self.draft.hear_whole(self.client.converse(**self.asked))
            if text:
                self._tell(loop, text)
            return self.draft.reply()
        stream = self.client.converse_stream(**self.asked)["stream"]
        try:
            for event in stream:
                if piece := self.draft.hear(event):
                    self._tell(loop, piece)
        except Exception:
            if not self.draft.is_whole:
                raise
        finally:
            stream.close()
        if not self.draft.is_whole:
            raise Cut("an answer that broke off")
        return self.draft.reply()

    def _judged(self, error: Exception) -> Exception:
        """Return what an error of boto3's means for the step, without a word of its text."""
        said = getattr(error, "response", None)
        name = type(error).__name__
        if isinstance(said, Mapping):
            return self._judged_answer(said)
        if name == "ParamValidationError":
            return ModelRefused(expected="a request that Converse can spell", found=name)
        if isinstance(error, _UNREADABLE) or name in _UNREADABLE_NAMES:
            return Again(f"an answer that cannot be read ({name})")
        exchange = self.attempts.current
        if exchange is not None and not exchange.ended and exchange.http_status is not None:
            return Cut(f"an answer that broke off ({name})")
        return Again(f"no answer ({name})")

    def _judged_answer(self, said: Mapping[str, Any]) -> Exception:
        error, meta = said.get("Error") or {}, said.get("ResponseMetadata") or {}
        code, status = word(error.get("Code")), meta.get("HTTPStatusCode")
        if not isinstance(status, int) or status < 300:  # it came in the stream
            if code in STREAM_REFUSES:
                return ModelRefused(expected="a request that Bedrock takes", found=code)
            return Again(f"an answer that Bedrock ended ({code or 'no code'})")
        found = f"status {status} {code}".rstrip()
        if status >= 500 or status in TRY_AGAIN:
            return Again(found)
        return ModelRefused(expected="a request that Bedrock takes", found=found)

    def send(self, body: bytes) -> None:
        """Note that the request is about to leave. Raises Again if nobody waits for it now."""
        with self._one_at_a_time:
            if self.given_up:
                raise Again("a step that was given up")
            self.attempts.begin(body)

    def take(self, chunk: bytes) -> None:
        """Note bytes of the answer. Raises Again, ModelRefused."""
        with self._one_at_a_time:
            exchange = self.attempts.current
            if self.given_up or exchange is None:
                raise Again("a step that was given up")
            exchange.take(chunk)
            if exchange.received > BODY_BYTES_MAX:
                exchange.cap = exchange.received
                raise too_large("a longer answer")

    def receive(self, status: int, headers: Mapping[str, str]) -> None:
        with self._one_at_a_time:
            exchange = self.attempts.current
            if not self.given_up and exchange is not None:
                exchange.http_status = status
                exchange.content_type = headers.get("content-type")


class _UnderWay(threading.local):
    """The attempt of this thread: handlers of events are told the client's name, and no more."""

    wire: _Wire | None = None


_UNDER_WAY: Final = _UnderWay()


@dataclass(slots=True)
class _Body:
    """The body of a stream, whose bytes are counted as they are read."""

    raw: Any
    wire: _Wire

    def stream(self) -> Iterator[bytes]:
        for chunk in self.raw.stream():
            self.wire.take(chunk)
            yield chunk

    def close(self) -> None:
        self.raw.close()


def _sending(request: Any, **_: Any) -> None:
    if _UNDER_WAY.wire is not None:
        body = request.body or b""
        _UNDER_WAY.wire.send(body if isinstance(body, bytes) else str(body).encode())


def _answered(response_dict: dict[str, Any], **_: Any) -> None:
    wire = _UNDER_WAY.wire
    if wire is None:
        return
    headers, body = response_dict["headers"], response_dict["body"]
    wire.receive(response_dict["status_code"], headers)
    if not isinstance(body, bytes):
        response_dict["body"] = _Body(body, wire)
        return
    wire.take(body)
    # The client does not compare the two: half an answer would be read as no JSON.
    promised = headers.get("content-length", "")
    if promised.isdecimal() and int(promised) > len(body):
        raise Cut("an answer that broke off")
