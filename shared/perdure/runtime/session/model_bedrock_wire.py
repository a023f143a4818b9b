"""Bedrock's words: a step as Converse takes it, and its answer, whole or in events, as a message."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from perdure.kernel.canonical import canonical
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
    MALFORMED_CHARACTERS_MAX,
    Room,
    asked_call,
    checked_options,
    mended,
    named_tools,
    plain_object,
    sent_id,
    sent_name,
    sent_output,
    tokens,
    whole,
)
from perdure.runtime.session.ports import ModelReply, ModelRequest

ADAPTER: Final = "bedrock"
"""Where a message keeps what Bedrock wants to see again."""

OPTIONS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "max_tokens": int,
    "temperature": (int, float),
    "top_p": (int, float),
    "stop": list,
    "stream": bool,
    "additional": dict,  # to `additionalModelRequestFields`: what one model knows and no other
}

_INFERENCE: Final = {
    "max_tokens": "maxTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "stop": "stopSequences",
}

_STOPS: Final[Mapping[str, Stop]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "refused",
    "content_filtered": "refused",
}
_MALFORMED: Final = frozenset({"malformed_model_output", "malformed_tool_use"})
_NO_TEXT: Final = "(no text)"

Block = dict[str, Any]


def parameters(model_id: str, request: ModelRequest) -> dict[str, Any]:
    """Spell a step as the parameters of Converse. Raises ModelRefused."""
    options = checked_options(request, OPTIONS)
    said: dict[str, Any] = {
        "modelId": model_id,
        "messages": _turns(model_id, request.messages),
    }
    if request.system.strip():
        said["system"] = [{"text": request.system}]
    inference = {name: options[option] for option, name in _INFERENCE.items() if option in options}
    if inference:
        said["inferenceConfig"] = inference
    if "additional" in options:
        said["additionalModelRequestFields"] = options["additional"]
    tools = _tools(request)
    if tools:
        said["toolConfig"] = {"tools": [{"toolSpec": tool} for tool in tools]}
    return said


def _tools(request: ModelRequest) -> list[dict[str, Any]]:
    """Spell the tools that are offered.

    Messages that bear calls are refused where no tool is defined: then those are that were called.
    """
    if not request.tools:
        anything = {"json": {"type": "object"}}
        return [
            {"name": name, "description": "No longer offered.", "inputSchema": anything}
            for name in named_tools(request.messages)
        ]
    return [
        {
            "name": tool.name,
            "description": tool.description.strip() or tool.name,
            "inputSchema": {"json": dict(tool.schema)},
        }
        for tool in request.tools
    ]


def _turns(model_id: str, messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Spell messages as turns that alternate, none of them empty: Bedrock takes no others."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        content = _content(model_id, message)
        if not content:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += content
        else:
            turns.append({"role": role, "content": content})
    return turns


def _content(model_id: str, message: Message) -> list[Block]:
    match message:
        case UserMessage(text=text):
            return [{"text": text if text.strip() else _NO_TEXT}]
        case ToolAnswers(answers=answers):
            return [_answer(answer) for answer in answers]
        case AssistantMessage():
            return _as_it_came(model_id, message) or [
                *_text(message.text),
                *(_call(call) for call in message.calls),
            ]


def _answer(answer: ToolAnswer) -> Block:
    return {
        "toolResult": {
            "toolUseId": sent_id(answer.tool_call_id),
            "content": [{"text": sent_output(answer)}],
            "status": "error" if answer.is_error else "success",
        }
    }


def _text(text: str) -> list[Block]:
    return [{"text": text}] if text.strip() else []


def _call(call: ToolCall) -> Block:
    return {
        "toolUse": {
            "toolUseId": sent_id(call.tool_call_id),
            "name": sent_name(call.name),
            "input": call.args,
        }
    }


def _as_it_came(model_id: str, message: AssistantMessage) -> list[Block]:
    """Spell a message that bears reasoning in the order in which it came.

    What is signed is signed for one model; any other is told the message without it.
    """
    kept = message.extra.get(ADAPTER)
    if not isinstance(kept, dict) or kept.get("model") != model_id:
        return []
    try:
        return _laid_out(message, kept["blocks"])
    except (LookupError, TypeError, ValueError):  # somebody changed the message
        return []


def _laid_out(message: AssistantMessage, blocks: Iterable[Mapping[str, Any]]) -> list[Block]:
    content: list[Block] = []
    begin = 0
    calls = iter(message.calls)
    for block in blocks:
        if "text" in block:
            content += _text(message.text[begin : begin + block["text"]])
            begin += block["text"]
        elif "call" in block:
            content.append(_call(message.calls[block["call"]]))
            next(calls)
        elif "redacted" in block:
            redacted = base64.b64decode(block["redacted"])
            content.append({"reasoningContent": {"redactedContent": redacted}})
        else:
            content.append({"reasoningContent": {"reasoningText": dict(block["reasoning"])}})
    if begin != len(message.text) or next(calls, None) is not None:
        raise ValueError("the blocks are of another message")
    return content


@dataclass(slots=True)
class _Piece:
    """One block of content while it comes."""

    text: str = ""
    reasoning: str = ""
    signature: str = ""
    redacted: bytes = b""
    tool: dict[str, Any] | None = None
    arguments: list[str] = field(default_factory=list)
    input: Any = None
    """Arguments that came whole, as JSON."""


class Draft:
    """A message while it comes in events."""

    def __init__(self, model_id: str) -> None:
        self._model_id = model_id
        self._room = Room()
        self._pieces: dict[int, _Piece] = {}
        self._stop: str | None = None
        self._usage = Usage()

    @property
    def is_whole(self) -> bool:
        """Say whether the model said why it stopped: nothing of the message follows that."""
        return self._stop is not None

    def hear(self, event: Mapping[str, Any]) -> str:
        """Take an event of the stream; return the text that it adds.

        Raises: ModelRefused; LookupError for one that lacks what it is for.
        """
        if "contentBlockStart" in event:
            begun = event["contentBlockStart"]
            tool = begun.get("start", {}).get("toolUse")
            if tool is not None:
                self._piece(begun).tool = tool
        elif "contentBlockDelta" in event:
            return self._add(event["contentBlockDelta"])
        elif "messageStop" in event:
            self._stop = str(event["messageStop"]["stopReason"])
        elif "metadata" in event:
            self._usage = _usage(event["metadata"])
        return ""

    def _piece(self, event: Mapping[str, Any]) -> _Piece:
        return self._pieces.setdefault(event.get("contentBlockIndex", 0), _Piece())

    def _add(self, event: Mapping[str, Any]) -> str:
        piece, delta = self._piece(event), event["delta"]
        text = self._room.take(delta.get("text") or "")
        piece.text += text
        if "toolUse" in delta:
            piece.arguments.append(self._room.take(delta["toolUse"].get("input") or ""))
        reasoning = delta.get("reasoningContent") or {}
        piece.reasoning += self._room.take(reasoning.get("text") or "")
        piece.signature += self._room.take(reasoning.get("signature") or "")
        piece.redacted += reasoning.get("redactedContent") or b""
        return text

    def hear_whole(self, answer: Mapping[str, Any]) -> str:
        """Take the answer of Converse; return its text.

        Raises: Again; LookupError for one that does not say why the model stopped.
        """
        output = answer.get("output", {}).get("message")
        if output is None:
            raise Again("an answer without a message")
        for index, block in enumerate(output.get("content", [])):
            reasoning = block.get("reasoningContent") or {}
            signed = reasoning.get("reasoningText") or {}
            tool = block.get("toolUse")
            self._pieces[index] = _Piece(
                text=block.get("text") or "",
                reasoning=signed.get("text") or "",
                signature=signed.get("signature") or "",
                redacted=reasoning.get("redactedContent") or b"",
                tool=tool,
                input=None if tool is None else tool.get("input"),
            )
        self._stop = str(answer["stopReason"])
        self._usage = _usage(answer)
        return "".join(piece.text for _, piece in sorted(self._pieces.items()))

    def reply(self) -> ModelReply:
        """Return the message. Raises Again, ModelRefused."""
        assert self._stop is not None, "asked for before the model stopped"
        if self._stop in _MALFORMED:
            raise Again("an answer that Bedrock calls malformed")
        pieces = [piece for _, piece in sorted(self._pieces.items())]
        for piece in pieces:
            piece.text = mended(piece.text)
        stop = _STOPS.get(self._stop, "end")
        is_whole = stop in {"end", "tool_calls"}
        calls = tuple(_asked(piece, is_whole) for piece in pieces if piece.tool is not None)
        if stop in {"end", "tool_calls"}:
            stop = "tool_calls" if calls else "end"
        message = AssistantMessage(
            text="".join(piece.text for piece in pieces),
            calls=calls,
            stop=stop,
            extra=self._extra(pieces),
        )
        return ModelReply(message=whole(message), usage=self._usage)

    def _extra(self, pieces: list[_Piece]) -> dict[str, Any]:
        if not any(piece.reasoning or piece.signature or piece.redacted for piece in pieces):
            return {}
        calls = 0
        blocks: list[Block] = []
        for piece in pieces:
            if piece.tool is not None:
                blocks.append({"call": calls})
                calls += 1
            elif piece.redacted:
                blocks.append({"redacted": base64.b64encode(piece.redacted).decode()})
            elif piece.reasoning or piece.signature:
                signed = {"text": piece.reasoning}
                if piece.signature:
                    signed["signature"] = piece.signature
                blocks.append({"reasoning": signed})
            elif piece.text:
                blocks.append({"text": len(piece.text)})
        return {ADAPTER: {"model": self._model_id, "blocks": blocks}}


def _asked(piece: _Piece, is_whole: bool) -> ToolCall:  # noqa: FBT001  # private, and read at once
    tool = piece.tool or {}
    id, name = str(tool.get("toolUseId") or ""), str(tool.get("name") or "")
    if piece.input is None:
        return asked_call(id, name, "".join(piece.arguments), is_whole=is_whole)
    try:
        return ToolCall(tool_call_id=id, name=name, args=plain_object(piece.input))
    except (TypeError, ValueError, RecursionError):
        return ToolCall(tool_call_id=id, name=name, args={}, malformed=_shown(piece.input))


def _shown(value: Any) -> str:
    try:
        return canonical(value).decode()[:MALFORMED_CHARACTERS_MAX]
    except (TypeError, ValueError, RecursionError):
        return "(no JSON)"


def _usage(answer: Mapping[str, Any]) -> Usage:
    usage = answer.get("usage") or {}
    return Usage(
        input_tokens=tokens(usage.get("inputTokens")),
        output_tokens=tokens(usage.get("outputTokens")),
    )
