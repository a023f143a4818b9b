"""What each call may be answered with besides what was asked for: every other code is a violation."""

from __future__ import annotations

from collections.abc import Mapping

NOT_NOW = frozenset({"contended", "store_unavailable"})
UNDECIDED = NOT_NOW | {"outcome_unknown"}
ENDS = frozenset({"world_closing", "world_destroyed"})
"""Held against the status of the world."""

RIVALRY = frozenset({"fence_held", "stale_writer"})
TICKING = UNDECIDED | ENDS | RIVALRY | {"stalled", "tick_failed"}

CODES: Mapping[str, frozenset[str]] = {
    "admission": UNDECIDED | ENDS | {"conflict", "invalid_batch"},
    "cancel": UNDECIDED | ENDS | {"not_found", "not_cancellable"},
    "cancel all": UNDECIDED | ENDS,
    "fork": UNDECIDED | ENDS,
    "destroy": UNDECIDED | RIVALRY,
    "read": NOT_NOW,
    "history": NOT_NOW,
    "run": TICKING,
    "message": TICKING,
    "closing run": TICKING,
    "dispatch": UNDECIDED,
    "dispatch of one": UNDECIDED,
    "landing": UNDECIDED | RIVALRY,
    "projection": UNDECIDED | RIVALRY,
    "trim": UNDECIDED,
    "write": UNDECIDED,
    "twins": UNDECIDED,
    "erase": UNDECIDED,
    "note": NOT_NOW,
}
"""By call, as actors count what they meet."""
