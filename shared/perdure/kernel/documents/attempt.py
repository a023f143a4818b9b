"""An attempt at a commit, looked for in the log: who lost the answer to it must not make it twice."""

from __future__ import annotations

from typing import Final

from perdure.kernel.documents.errors import FarBehind
from perdure.kernel.documents.records import Logged, StoreHead, logged_key
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Seq, Token
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import View

UNSEEN_MAX: Final = 64
"""Entries of the log that a commit looks through for its own attempt. Source: LOAD_KEYS_MAX."""


def found_attempt(view: View, head: StoreHead, seen: Seq | None, attempt: Token) -> Logged | None:
    """Return an attempt if it is among the commits that its writer has not seen, if it tells.

    Raises: FarBehind, Missing; SeenInPart, at last Corrupt: what does not show may be it.
    """
    if seen is None or seen == head.seq:
        return None
    if head.seq - seen > UNSEEN_MAX:
        raise FarBehind(
            expected=f"a writer who has seen commit {head.seq - UNSEEN_MAX} or a later one",
            found=f"one who has seen {seen}",
        )
    first = max(seen + 1, head.log_from)
    keys = [logged_key(head.partition, Seq(seq)) for seq in range(first, head.seq + 1)]
    view.require(peeks=keys)
    entries = {key: view.peek(key) for key in keys}
    for entry in entries.values():
        if entry is not None and entry.attempt == attempt:
            return entry
    hidden = [key for key, entry in entries.items() if entry is None]
    if hidden:
        lost = Corrupt(
            expected=f"{hidden[0].sort} of {head.partition}, whose head is at {head.seq}",
            found="none",
        )
        raise SeenInPart(hidden, lost)
    return None
