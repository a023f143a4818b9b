"""Requests decided and committed in the very call: what this process wrote last is all they look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.authority.recent import Recent
from perdure.authority.store import Store
from perdure.kernel.commit import Commit
from perdure.kernel.ids import Instant
from perdure.kernel.view import Decision, Reads, Request, View, written

InPlace = Callable[[Commit], bool]
"""Makes a commit in the very call; False if that is not to be: nothing is done. Raises OutcomeUnknown."""


def in_place_of(store: Store) -> InPlace:
    """Return how a store makes a commit in the very call. One that cannot says no to each.

    Asked of the class: who stands before a store and hands everything on may change its commits.
    """
    if not hasattr(type(store), "commit_in_place"):
        return _never
    found: InPlace = store.commit_in_place  # type: ignore[attr-defined]  # it was just looked for
    return found


def _never(_: Commit) -> bool:
    return False


def wants_in_place(request: Request[Any]) -> bool:
    """Say whether whoever asks knows that nobody else of this process is about to ask."""
    return getattr(request, "in_place", False)


def decided_on_guesses(
    request: Request[Any], reads: Reads, recent: Recent, now: Callable[[], Instant]
) -> tuple[View, Decision[Any]] | None:
    """Decide a request that writes, without a load; None if that cannot be: nothing has happened.

    What is refused so is not refused: a guess may be wrong, and it is decided again on what is loaded.
    """
    view, left = recent.guess(reads)
    if left.snapshot or left.keys or left.peeks or left.ranges:
        return None
    view.name(reads.keys)
    try:
        decision = request.decide(view, now())
        if not decision.writes:
            return None
        view.absorb(written(decision.writes))
    except Exception:  # noqa: BLE001  # decided again, and told then
        return None
    return view, decision
