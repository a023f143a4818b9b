"""Cursors of scans: opaque text that holds in which history, order and question it was given."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.documents.errors import InvalidCursor, OtherOrder, StaleCursor
from perdure.kernel.documents.places import Part
from perdure.kernel.documents.read import Order
from perdure.kernel.documents.records import StoreHead
from perdure.kernel.errors import InvalidValue
from perdure.kernel.ids import short_hash
from perdure.kernel.shown import shown


@dataclass(frozen=True, slots=True)
class Question:
    """What a scan asks for, and in which order if that is said."""

    about: Sequence[Any]
    order: str | None = None

    @property
    def digest(self) -> str:
        """Spell what is asked for in 22 characters."""
        return short_hash(canonical(list(self.about)).decode("ascii"))


def spelled(head: StoreHead, question: Question, order: Order, behind: Sequence[Part]) -> str:
    """Return a cursor that goes on behind a key."""
    told = [head.lineage, head.seq, question.digest, order, list(behind)]
    return base64.urlsafe_b64encode(canonical(told)).decode().rstrip("=")


def resumed(
    text: str | None, head: StoreHead, question: Question
) -> tuple[Order, tuple[Part, ...] | None]:
    """Return the order of a scan and behind which key it goes on.

    Raises: InvalidValue for an order that is none; InvalidCursor, StaleCursor, OtherOrder.
    """
    asked = question.order
    if asked not in (None, "ascending", "descending"):
        raise InvalidValue(expected="an order, ascending or descending", found=shown(asked))
    if text is None:
        return ("descending" if asked == "descending" else "ascending"), None
    match _read(text):
        case [str(lineage), int(seq), str(about), "ascending" | "descending" as order, list(key)]:
            pass
        case _:
            raise _invalid(text)
    if lineage != head.lineage or seq > head.seq:
        raise StaleCursor(
            expected=f"a cursor of the history {head.lineage} up to commit {head.seq}",
            found=f"one of {shown(lineage)} at commit {seq}",
        )
    if about != question.digest:
        raise _invalid(text)
    if asked not in (None, order):
        raise OtherOrder(expected=f"the order of the cursor, {order}", found=shown(asked))
    if not key or not all(isinstance(part, int | str) for part in key):
        raise _invalid(text)
    return order, tuple(key)


def _read(text: str) -> Any:
    try:
        return strict(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
    except (binascii.Error, ValueError):
        return None


def _invalid(text: str) -> InvalidCursor:
    return InvalidCursor(
        expected="the `next` of an earlier reply to the same question", found=shown(text)
    )
