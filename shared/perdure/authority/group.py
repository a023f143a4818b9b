"""Groups: requests to one stream, decided one after another on one view."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from perdure.authority.bodies import Placed
from perdure.kernel import limits
from perdure.kernel.errors import OutcomeUnknown, PerdureError, TooLarge
from perdure.kernel.ids import Instant
from perdure.kernel.refusals import NO_VERDICT
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import Decision, Key, Missing, Reads, Request, View, written


class Overtaken(Exception):
    """A request that is decided ``once`` lost a race: look again before you ask again.

    ``view`` holds what the decision looked at, loaded after the rival's commit. Nothing
    happened, unless an answer had been lost before: then the view shows that too.
    """

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.view = view


@dataclass(slots=True, eq=False)
class Asked:
    """One request on its way to an answer."""

    request: Request[Any]
    reads: Reads
    answer: asyncio.Future[Any]
    alone: bool
    """Decided in no group: a range does not show what others of a group wrote."""

    tries: int = 0
    unsure: bool = False
    """A commit with this request went without an answer, and may have happened."""

    fresh: bool = False
    """Decided on nothing but what was just loaded: a guess was no help."""

    placed: Placed = field(default_factory=dict)

    def reply(self, value: object) -> None:
        if not self.answer.done():
            self.answer.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Answer with ``error``; with OutcomeUnknown if "not done" could be untrue."""
        if self.answer.done():
            return
        if isinstance(error, asyncio.CancelledError):
            self.answer.cancel()
        elif self.unsure and _is_no_verdict(error):
            then = error.code if isinstance(error, PerdureError) else type(error).__name__
            unknown = OutcomeUnknown(
                expected="an answer to a commit", found=f"none, then {then}: {error}"
            )
            unknown.__cause__ = error
            self.answer.set_exception(unknown)
        else:
            self.answer.set_exception(error)


def _is_no_verdict(error: BaseException) -> bool:
    return isinstance(error, NO_VERDICT) or not isinstance(error, PerdureError | Overtaken)


def asked(request: Request[Any], reads: Reads) -> Asked:
    """Return ``request``, and what it is sure to look at, with an answer to wait for."""
    alone = bool(reads.ranges) or reads.snapshot or request.once
    return Asked(request, reads, asyncio.get_running_loop().create_future(), alone)


@dataclass(frozen=True, slots=True)
class Decided:
    """What a group comes to: answers to be given after what it wrote on ``view`` is committed."""

    view: View
    verdicts: tuple[tuple[Asked, Decision[Any] | Exception], ...]
    rest: tuple[Asked, ...]
    """Requests that did not fit in."""

    @property
    def members(self) -> list[Asked]:
        return [member for member, _ in self.verdicts]

    @property
    def writers(self) -> list[Asked]:
        return [
            member
            for member, verdict in self.verdicts
            if isinstance(verdict, Decision) and verdict.writes
        ]

    def release(self) -> None:
        """Give everyone the answer."""
        for member, verdict in self.verdicts:
            if isinstance(verdict, Decision):
                member.reply(verdict.reply)
            else:
                member.fail(verdict)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a request stands in its group."""

    is_first: bool
    is_only: bool


Fetch = Callable[[View, Reads], Awaitable[View]]
"""Returns the view with more loaded into it; for a snapshot a new view."""


async def decided(
    members: Sequence[Asked], view: View, now: Callable[[], Instant], fetch: Fetch
) -> Decided:
    """Decide ``members`` in turn on ``view``, each seeing what those before it wrote.

    Stops before a commit would outgrow COMMIT_ACTIONS_MAX. Raises StoreUnavailable, Corrupt.
    """
    verdicts: list[tuple[Asked, Decision[Any] | Exception]] = []
    touched = set(view.named)
    for place, member in enumerate(members):
        named = len(view.named)
        view.name(member.reads.keys)
        place_in = _Place(is_first=not verdicts, is_only=len(members) == 1)
        outcome = await _outcome(member, view, now, fetch, place_in)
        if outcome is None:
            view.forget_names(named)
            return Decided(view, tuple(verdicts), tuple(members[place:]))
        view, verdict = outcome
        writes = written(verdict.writes) if isinstance(verdict, Decision) else {}
        touched.update(islice(view.named, named, None), writes)
        if verdicts and len(touched) > limits.COMMIT_ACTIONS_MAX:
            view.forget_names(named)
            return Decided(view, tuple(verdicts), tuple(members[place:]))
        view.absorb(writes)
        verdicts.append((member, verdict))
    return Decided(view, tuple(verdicts), ())


async def _outcome(
    member: Asked, view: View, now: Callable[[], Instant], fetch: Fetch, place: _Place
) -> tuple[View, Decision[Any] | Exception] | None:
    """Return the view and what was decided on it, or None if that must be done alone."""
    proven: set[Key[Any]] = set()
    for _ in range(limits.ROUNDS_MAX):
        try:
            return view, member.request.decide(view, now())
        except Missing as missing:
            lacking = missing
        except Exception as error:  # noqa: BLE001  # it is this caller's answer, no one else's
            return view, error
        if isinstance(lacking, SeenInPart) and (
            view.is_snapshot or proven.issuperset(lacking.reads.peeks)
        ):
            return view, lacking.error
        more = _more(member, lacking, proven, place)
        if more is None:
            return None
        if more.snapshot:
            proven = {*more.keys, *more.peeks}  # a new view: what was proven before is not in it
        view = await fetch(view, more)
    return view, TooLarge(
        expected=f"a decision within {limits.ROUNDS_MAX} loads", found="one that asks for more"
    )


def _more(
    member: Asked, lacking: Missing, proven: Collection[Key[Any]], place: _Place
) -> Reads | None:
    """Return what to load before ``member`` is decided again, or None if that must be alone."""
    more, was_alone = lacking.reads, member.alone
    is_proof = isinstance(lacking, SeenInPart)
    member.alone = was_alone or is_proof or bool(more.ranges)
    # What is of one moment holds nothing that others of a group wrote.
    leaves = is_proof and not was_alone and not place.is_only
    if leaves or (member.alone and not place.is_first):
        return None
    if is_proof:
        more = _at_once(member, more, proven)
    if member.reads.snapshot:  # two snapshots are not one: load everything again
        member.reads = more = Reads.union(member.reads, more)
    return more


def _at_once(member: Asked, part: Reads, proven: Collection[Key[Any]]) -> Reads:
    """Return what proves that something lacks, with what was proven before and what is named."""
    named = dict.fromkeys(member.reads.keys)
    peeks = [key for key in dict.fromkeys((*part.peeks, *sorted(proven))) if key not in named]
    if len(named) + len(peeks) > limits.LOAD_KEYS_MAX:
        return part
    return Reads(tuple(named), peeks=tuple(peeks), snapshot=True)


def unproven_of(group: list[Asked], view: View) -> list[Asked]:
    """Return ``group`` to be decided again on snapshots, if its answers may mix two moments.

    A commit proves that what was named held all at once. An answer that writes nothing has no
    such proof: a key found absent, then a head found closing, may be an admission and an end
    that came in between.
    """
    names = tuple(view.named)
    if len(names) < 2 or view.is_snapshot:
        return []
    if max(len(member.reads.peeks) for member in group) + len(names) > limits.LOAD_KEYS_MAX:
        return []
    if any(member.reads.snapshot or member.reads.ranges for member in group):
        return []
    for member in group:
        named = names if len(group) == 1 else ()
        member.reads = Reads.union(member.reads, Reads(keys=named, snapshot=True))
        member.alone = True
    return group
