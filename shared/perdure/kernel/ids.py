"""Ids and numbers that must not be mixed up, and the rules an id from outside obeys."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from typing import Final, NewType

from perdure.kernel import limits
from perdure.kernel.errors import InvalidId

StorageId = NewType("StorageId", str)
WorldId = NewType("WorldId", str)
RunId = NewType("RunId", str)
BatchId = NewType("BatchId", str)
CommandId = NewType("CommandId", str)
TableId = NewType("TableId", str)
Token = NewType("Token", str)
Holder = NewType("Holder", str)
Partition = NewType("Partition", str)
SessionId = NewType("SessionId", str)
AgentRunId = NewType("AgentRunId", str)
"""One run of an agent: from the input that starts it to its one terminal."""

SendId = NewType("SendId", str)
"""What a sender calls what it delivers: the same id is delivered once."""

StepId = NewType("StepId", str)
CallBatchId = NewType("CallBatchId", str)
"""The tool calls that one step of a model asks for."""

CallKey = NewType("CallKey", str)
"""Stands for one tool call everywhere and for ever: 1 to 256 bytes of visible ASCII."""

Lineage = NewType("Lineage", str)
"""Identity of a journal's history: 22 characters drawn when it begins."""

DocumentStoreId = NewType("DocumentStoreId", str)
DocumentId = NewType("DocumentId", int)
"""One life of a document; the same number space as every id that its store gives."""

JobId = NewType("JobId", str)
"""What a caller calls one run of a job: the same id of the same job is started once."""

CommitId = NewType("CommitId", str)
"""What a caller calls a commit to a document store: the same id is committed once."""

Instant = NewType("Instant", int)
"""Milliseconds since 1970, as the wiring's clock said."""

Tick = NewType("Tick", int)
Epoch = NewType("Epoch", int)
Seq = NewType("Seq", int)
"""Place of an entry in a stream's log; the first is 1."""

Sequence = NewType("Sequence", int)
"""Place of a command in its world's order of admission; the first is 1."""

EntityId = NewType("EntityId", int)

NO_TICK: Final = Tick(-1)
"""The published tick of a world that has published none."""

IN_TICK_ENTITY_FIRST: Final = EntityId(2**52)
"""First id of the range for entities that processors make inside a tick."""

_INDEX_SUFFIX: Final = re.compile(r"\.\d+\Z")
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f/\ud800-\udfff]")


def checked_id(text: str, *, what: str, bytes_max: int = limits.ID_BYTES_MAX) -> str:
    """Return ``text`` if it may name something. Raises InvalidId."""
    found = _FORBIDDEN.search(text)
    if found is not None:
        raise InvalidId(
            expected=f"{what} without '/' and control characters",
            found=f"{found.group()!r} at position {found.start()}",
        )
    if text in {".", ".."}:  # no path of a URL or of a directory leads there
        raise InvalidId(expected=f"{what} other than '.' and '..'", found=repr(text))
    size = len(text.encode())
    if not 1 <= size <= bytes_max:
        raise InvalidId(expected=f"{what} of 1 to {bytes_max} bytes", found=f"{size} bytes")
    return text


def checked_command_id(text: str) -> CommandId:
    """Return ``text`` if a caller may name a command so. Raises InvalidId."""
    if _INDEX_SUFFIX.search(text):
        raise InvalidId(
            expected="a command id that does not end in a dot and digits (the form of an id"
            " that the batch gives)",
            found=repr(text[-40:]),
        )
    return CommandId(checked_id(text, what="a command id"))


def indexed_command_id(batch: BatchId, index: int) -> CommandId:
    """Name the command at ``index`` of ``batch`` that brought no id of its own."""
    return CommandId(f"{batch}.{index}")


def parsed_command_id(command: CommandId) -> tuple[BatchId, int] | None:
    """Return batch and index of an id made by :func:`indexed_command_id`, else None."""
    if not _INDEX_SUFFIX.search(command):
        return None
    batch, _, index = command.rpartition(".")
    return (BatchId(batch), int(index)) if batch and str(int(index)) == index else None


@lru_cache(maxsize=4_096)
def short_hash(*parts: str) -> str:
    """Return 22 URL-safe characters (128 bits) that stand for ``parts``."""
    state = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        state.update(b"%d\0" % len(encoded))
        state.update(encoded)
    return base64.urlsafe_b64encode(state.digest()[:16]).rstrip(b"=").decode()
