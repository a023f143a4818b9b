"""Chat completions: a step as OpenAI and those like it take it, and its answer as a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.session.messages import (
    AssistantMessage,
    Message,
    Stop,
    ToolAnswer,
    ToolAnswers,
    ToolCall,
    Usage,
    UserMessage,
)
from perdure.runtime.session.model_attempts import Again
from perdure.runtime.session.model_common import (
    Room,
    asked_call,
    checked_options,
    sent_id,
    sent_name,
    sent_output,
    tokens,
    whole,
    word,
)
from perdure.runtime.session.ports import ModelReply, ModelRequest

OPTIONS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "max_tokens": int,
    "max_completion_tokens": int,  # what newer models of OpenAI call it
    "temperature": (int, float),
    "top_p": (int, float),
    "stop": list,
    "seed": int,
    "reasoning_effort": str,
    "parallel_tool_calls": bool,
    "stream": bool,
    "additional": dict,  # into the body: what one provider knows and no other
}

_STOPS: Final[Mapping[str, Stop]] = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refused",
}


def body(model_name: str, request: ModelRequest) -> bytes:
    """Spell a step as the body of a request. Raises ModelRefused."""
    options = checked_options(request, OPTIONS)
    additional = options.pop("additional", {})
    is_streamed = options.pop("stream", True)
    said: dict[str, Any] = {
        **additional,
        **options,
        "model": model_name,
        "messages": _messages(request),
        "stream": is_streamed,
    }
    if is_streamed:
        said["stream_options"] = {"include_usage": True}
    if request.tools:
        said["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.schema),
                },
            }
            for tool in request.tools
        ]
    return canonical(said)


def _messages(request: ModelRequest) -> list[dict[str, Any]]:
    system = [{"role": "system", "content": request.system}] if request.system.strip() else []
    return [*system, *(said for message in request.messages for said in _said(message))]


def _said(message: Message) -> Iterator[dict[str, Any]]:
    match message:
        case UserMessage(text=text):
            yield {"role": "user", "content": text}
        case ToolAnswers(answers=answers):
            for answer in answers:
                yield {
                    "role": "tool",
                    "tool_call_id": sent_id(answer.tool_call_id),
                    "content": _content(answer),
                }
        case AssistantMessage(text=text, calls=calls):
            if not text and not calls:
                return
            spoken: dict[str, Any] = {"role": "assistant", "content": text or None}
            if calls:
                spoken["tool_calls"] = [_call(call) for call in calls]
            yield spoken


def _content(answer: ToolAnswer) -> str:
    """Spell what a tool answered. No field says that it failed, so the content does."""
    if answer.is_error:
        return canonical({"error": answer.output}).decode()
    return sent_output(answer)


def _call(call: ToolCall) -> dict[str, Any]:
    """Spell a call. What was no JSON object is left out: many a server reads it again."""
    return {
        "id": sent_id(call.tool_call_id),
        "type": "function",
        "function": {"name": sent_name(call.name), "arguments": canonical(call.args).decode()},
    }


@dataclass(slots=True)
class _Call:
    """A call while it comes."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Draft:
    """A message while it comes in chunks."""

    def __init__(self) -> None:
        self._room = Room()
        self._text: list[str] = []
        self._calls: list[_Call] = []
        self._places: dict[int, _Call] = {}
        self._stop: str | None = None
        self._has_refused = False
        self._usage = Usage()

    @property
    def is_whole(self) -> bool:
        """Say whether the provider said why the model stopped."""
        return self._stop is not None

    def hear(self, spelled: bytes) -> str:
        """Take a chunk, or an answer that is whole; return the text that it adds.

        Raises: Again for what is no answer, ModelRefused for a message that is too large.
        """
        try:
            return self._hear(strict(spelled))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise Again("an answer that cannot be read") from error

    def _hear(self, chunk: Mapping[str, Any]) -> str:
        if chunk.get("error"):
            error = chunk["error"]
            said = word(error.get("type")) if isinstance(error, dict) else ""
            raise Again(f"an answer that the provider ended ({said or 'no type'})")
        if usage := chunk.get("usage"):
            self._usage = Usage(
                input_tokens=tokens(usage.get("prompt_tokens")),
                output_tokens=tokens(usage.get("completion_tokens")),
            )
        said_now = ""
        for choice in chunk.get("choices") or []:
            if choice.get("index", 0) != 0:
                continue
            delta, message = choice.get("delta"), choice.get("message")
            said_now += self._add(delta or message or {}, is_whole=not delta)
            # Some servers spell "not yet" as empty text, in every chunk.
            if reason := choice.get("finish_reason"):
                self._stop = str(reason)
        return said_now

    def _add(self, delta: Mapping[str, Any], *, is_whole: bool) -> str:
        refusal = _text(delta.get("refusal"))
        self._has_refused |= bool(refusal)
        text = self._room.take(_text(delta.get("content")) + refusal)
        self._text.append(text)
        for part in delta.get("tool_calls") or []:
            self._add_call(part, is_whole=is_whole)
        return text

    def _add_call(self, part: Mapping[str, Any], *, is_whole: bool) -> None:
        function = part.get("function") or {}
        if is_whole:
            self._calls.append(_Call())
            call = self._calls[-1]
            call.id = self._room.take(_text(part.get("id")))
        else:
            call = self._call_of(part.get("index"), _text(part.get("id")))
        call.name = call.name or self._room.take(_text(function.get("name")))
        arguments = function.get("arguments")
        if arguments is None:
            return
        spelled = arguments if isinstance(arguments, str) else canonical(arguments).decode()
        call.arguments.append(self._room.take(spelled))

    def _call_of(self, index: int | None, id: str) -> _Call:
        """Return the call that a part belongs to.

        Some servers name no index, or the same for every call: then another id begins another.
        """
        last = self._calls[-1] if self._calls else None
        held = last if index is None else self._places.get(index)
        if held is None or (id and held.id and id != held.id):
            held = _Call()
            self._calls.append(held)
            if index is not None:
                self._places[index] = held
        held.id = held.id or self._room.take(id)
        return held

    def reply(self) -> ModelReply:
        """Return the message. Raises ModelRefused."""
        assert self._stop is not None, "asked for before the model stopped"
        stop = _STOPS.get(self._stop, "end")
        is_whole = stop in {"end", "tool_calls"}
        calls = tuple(_asked(self._calls, is_whole=is_whole))
        if is_whole:
            stop = "tool_calls" if calls else "end"
        if self._has_refused:
            stop = "refused"
        message = AssistantMessage(text="".join(self._text), calls=calls, stop=stop)
        return ModelReply(message=whole(message), usage=self._usage)


def _text(found: object) -> str:
    """Return text that may be missing. Raises TypeError for anything else."""
    if found is None or isinstance(found, str):
        return found or ""
    raise TypeError(type(found).__name__)


def _asked(calls: Iterable[_Call], *, is_whole: bool) -> Iterator[ToolCall]:
    for call in calls:
        yield asked_call(call.id, call.name, "".join(call.arguments), is_whole=is_whole)


class Lines:
    """Server-sent events as they come, cut into the data of each."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []

    def take(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the data of the events that end in ``chunk``."""
        searched = len(self._rest)
        self._rest += chunk
        begin = 0
        while (end := self._rest.find(b"\n", max(begin, searched))) >= 0:
            line = bytes(self._rest[begin:end]).removesuffix(b"\r")
            begin = end + 1
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                yield b"\n".join(self._data)
                self._data = []
        del self._rest[:begin]
