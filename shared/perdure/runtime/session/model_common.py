"""What every adapter of a model shares: messages that are whole, calls that have ids, limits."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.session.messages import AssistantMessage, Message, ToolAnswer, ToolCall
from perdure.kernel.shown import shown
from perdure.runtime.session.ports import ModelRefused, ModelRequest

MESSAGE_BYTES_MAX: Final = 4 * 1_024 * 1_024
"""Bytes of one message, spelled as canonical JSON. Source: choice; fifty times the longest that a
model of 32,000 tokens writes, and far below what one log entry can hold in objects."""

BODY_BYTES_MAX: Final = 8 * MESSAGE_BYTES_MAX
"""Bytes of an answer that are read. Source: choice; a stream wraps every few letters of a message
in some hundred bytes of its own."""

MALFORMED_CHARACTERS_MAX: Final = 2_000
"""Characters that are kept of arguments which are no JSON object. Source: `ToolCall.malformed`."""

DEPTH_MAX: Final = 64
"""Levels of a JSON value of a model's making. Source: choice; Python's own readers and writers
give up near a thousand, and nothing that a tool asks for comes near this."""

TOKENS_MAX: Final = 2**53 - 1
"""Tokens that are believed. Source: integers that every reader of JSON holds."""

NAME_CHARACTERS_MAX: Final = 64
"""Characters of a tool's name, and of a call's id. Source: Bedrock, `ToolUseBlock`."""

ID_CHARACTERS_MAX: Final = 128
"""Characters of a call's id that are kept. Source: choice; providers use some forty."""

CUT_OFF: Final = "(cut off)"
"""What stands for the arguments of a call that broke off before any came."""

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_WORD: Final = re.compile(r"[A-Za-z_]{1,64}")


@dataclass(slots=True)
class Room:
    """What is left for a message that comes in pieces."""

    left: int = MESSAGE_BYTES_MAX

    def take(self, piece: str) -> str:
        """Return ``piece`` if there is room for it. Raises ModelRefused."""
        self.left -= len(piece)
        if self.left < 0:
            raise too_large("more")
        return piece


def whole(message: AssistantMessage) -> AssistantMessage:
    """Return ``message`` as a session takes it: ids that are there and differ, text that is text.

    Raises: ModelRefused for one that is too large, or that no JSON can hold.
    """
    made = replace(message, text=mended(message.text), calls=distinct(message.calls))
    try:
        spelled = sum(len(canonical(part)) for part in _parts(made))
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelRefused(
            expected="a message that JSON can hold", found=type(error).__name__
        ) from error
    if spelled > MESSAGE_BYTES_MAX:
        raise too_large(f"{spelled} bytes")
    return made


def too_large(found: str) -> ModelRefused:
    """Return the refusal of a message that is too large."""
    return ModelRefused(expected=f"a message of at most {MESSAGE_BYTES_MAX} bytes", found=found)


def _parts(message: AssistantMessage) -> Iterable[Any]:
    yield message.text
    yield message.extra
    for call in message.calls:
        yield [call.tool_call_id, call.name, call.args, call.malformed]


def distinct(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """Give ids to calls that have none (``call_0``), and to those whose id is taken (``id#2``).

    What is too long for an id, or cannot be printed, is none.
    """
    asked = tuple(calls)
    given = {call.tool_call_id for call in asked if _is_id(call.tool_call_id)}
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    made = []
    for index, call in enumerate(asked):
        has_id = _is_id(call.tool_call_id)
        wanted = id = call.tool_call_id if has_id else f"call_{index}"
        while id in taken or (id in given and not (has_id and id == wanted)):
            numbers[wanted] = numbers.get(wanted, 1) + 1
            id = f"{wanted}#{numbers[wanted]}"
        taken.add(id)
        made.append(replace(call, tool_call_id=id))
    return tuple(made)


def _is_id(text: str) -> bool:
    return 1 <= len(text) <= ID_CHARACTERS_MAX and text.isprintable()


def asked_call(tool_call_id: str, name: str, spelled: str, *, is_whole: bool) -> ToolCall:
    """Read a call whose arguments came as text. What is no JSON object is kept as it came.

    A call without arguments often comes with no text at all; so does one that broke off before
    its arguments, and that must not be made.
    """
    text = spelled.strip() or ("{}" if is_whole else CUT_OFF)
    try:
        args, malformed = plain_object(strict(text.encode())), None
    except ValueError:
        args, malformed = {}, mended(text)[:MALFORMED_CHARACTERS_MAX]
    return ToolCall(
        tool_call_id=mended(tool_call_id), name=mended(name), args=args, malformed=malformed
    )


def plain_object(value: Any) -> dict[str, Any]:
    """Return ``value`` if it is a JSON object that can be spelled anywhere. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} is no object")  # noqa: TRY004  # of what JSON says
    if depth_of(value) > DEPTH_MAX:
        raise ValueError("nested too deep")
    # Half a surrogate pair can be spelled as an escape only; the rest of the world cannot say it.
    if "\\ud" in canonical(value).decode():
        for text in _texts(value):
            text.encode()
    return value


def depth_of(value: Any) -> int:
    """Return how many levels of lists and objects ``value`` has, up to one beyond the bound."""
    level, depth = [value], 0
    while level := [each for each in level if isinstance(each, dict | list)]:
        depth += 1
        if depth > DEPTH_MAX:
            break
        level = [
            inner for each in level for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return depth


def _texts(value: Any) -> Iterable[str]:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as found:
                waiting += [*found.keys(), *found.values()]
            case list() as found:
                waiting += found
            case _:
                pass


def mended(text: str) -> str:
    """Join surrogate halves that came apart, and replace those that stayed alone."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def tokens(found: object) -> int:
    """Return a count of tokens as a provider says it, 0 for what is none."""
    if isinstance(found, bool) or not isinstance(found, int):
        return 0
    return found if 0 <= found <= TOKENS_MAX else 0


def word(found: object) -> str:
    """Return a provider's word for an error, empty for what may be anything else.

    What a provider says in sentences may repeat a key, an account or what a user wrote.
    """
    return found if isinstance(found, str) and _WORD.fullmatch(found) else ""


def sent_name(name: str) -> str:
    """Spell a tool's name as every provider takes it: a model may have made it up."""
    return _NO_NAME.sub("_", name)[:NAME_CHARACTERS_MAX] or "_"


def sent_id(tool_call_id: str) -> str:
    """Spell a call's id as every provider takes it: another one may have made it up."""
    if 1 <= len(tool_call_id) <= NAME_CHARACTERS_MAX and not _NO_NAME.search(tool_call_id):
        return tool_call_id
    return f"call_{hashlib.sha256(tool_call_id.encode()).hexdigest()[:32]}"


def sent_output(answer: ToolAnswer) -> str:
    """Spell what a tool answered: text as it is, all else as JSON. It is never blank."""
    output = answer.output
    if isinstance(output, str) and output.strip():
        return output
    return canonical(output).decode()


def named_tools(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the names of tools that were called, as they are sent, in a stable order."""
    calls = (
        call
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    )
    return tuple(sorted({sent_name(call.name) for call in calls}))


def checked_options(
    request: ModelRequest, known: Mapping[str, type | tuple[type, ...]]
) -> dict[str, Any]:
    """Return the options of a request, if the adapter knows them all. Raises ModelRefused."""
    strange = sorted(map(str, {*request.options} - {*known}))
    if strange:
        raise ModelRefused(
            expected=f"options of a model: {', '.join(sorted(known))}", found=shown(strange[0])
        )
    for name, value in request.options.items():
        is_flag = isinstance(value, bool)
        if not isinstance(value, known[name]) or (is_flag and known[name] is not bool):
            raise ModelRefused(
                expected=f"the option {name} of another type", found=type(value).__name__
            )
        try:
            canonical(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise ModelRefused(
                expected=f"the option {name} as JSON", found=type(error).__name__
            ) from error
    return dict(request.options)
