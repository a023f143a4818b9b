"""Cancelling: an open command leaves its page, or all that is open stands below a line."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.kernel import ranges
from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.canonical import digest
from perdure.kernel.errors import Conflict, NotCancellable
from perdure.kernel.ids import CommandId, Holder, Instant, Sequence, checked_id
from perdure.kernel.pages import Page, PageEntry, page_key
from perdure.kernel.records import Cancelled, RequestKey, cancelled_key, head_key, request_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.status import Place, entry_of, placed, standing
from perdure.kernel.view import Decision, Reads, Removed, View, Write
from perdure.kernel.wake import UNREAD_MS, active_head, appended, woken
from perdure.kernel.writers import check_holder


@dataclass(frozen=True, slots=True)
class Cancel(WorldRequest):
    """Take one open command out of its page. Cancelling it again changes nothing."""

    command: CommandId
    by: Caller = LOCAL
    holder: Holder | None = None
    """Who asks, as the fence of a private world knows it."""

    def reads(self) -> Reads:
        return Reads(keys=(head_key(self.ref.partition),))

    def decide(self, view: View, now: Instant) -> Decision[Sequence]:
        world = self.ref.partition
        place = placed(view, self.ref, self.command)
        if view.get(cancelled_key(world, place.sequence)) is not None:
            return Decision(place.sequence)
        head = active_head(view, self.ref)
        check_holder(head, self.holder)
        state = standing(view, self.ref, head, place)
        if state.page is None:
            raise NotCancellable(
                expected=f"command {self.command!r} to be open",
                found=f"it is {state.status}" + (f" ({state.code})" if state.code else ""),
            )
        page = view.get(page_key(world, state.page))
        found = None if page is None else entry_of(view, page, place)
        assert page is not None, "an open command has its page"
        assert found is not None, "an open command has its entry"
        facts = {"command": self.command, "sequence": place.sequence, **self.by.facts}
        after, entry = appended(
            replace(head, open_commands=head.open_commands - 1), "cancelled", facts, now
        )
        after, hints = woken(view, after, self.ref, Instant(now + UNREAD_MS))
        mark = Cancelled(partition=world, sequence=place.sequence, at=now)
        rest = _without(page, *found, place)
        return Decision(place.sequence, (after, entry, mark, rest, *hints))


def _without(page: Page, entry: PageEntry, held: ranges.Ranges, place: Place) -> Write:
    rest = ranges.difference(held, ((place.sequence, place.sequence),))
    entries = tuple(
        replace(each, open=rest) if each is entry else each
        for each in page.entries
        if each is not entry or rest
    )
    return Page.of(page.partition, page.name, entries) if entries else Removed(page.key)


@dataclass(frozen=True, slots=True)
class CancelledAll:
    """The answer to :class:`CancelAll`: every command below this sequence is done with."""

    cancelled_below: Sequence


@dataclass(frozen=True, slots=True)
class CancelAll(WorldRequest):
    """Cancel everything that is open now. ``request`` makes a repeat do nothing."""

    request: str
    by: Caller = LOCAL
    holder: Holder | None = None
    """Who asks, as the fence of a private world knows it."""

    def checked(self) -> CancelAll:
        """Return self if the request id is well formed. Raises InvalidId."""
        checked_id(self.request, what="an idempotency key")
        return self

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(keys=(head_key(world), request_key(world, self.request)))

    def decide(self, view: View, now: Instant) -> Decision[CancelledAll]:
        world = self.ref.partition
        content = digest("perdure.cancel_all.v1", self.ref.world.encode())
        known = view.get(request_key(world, self.request))
        if known is not None:
            if known.digest != content:
                raise Conflict(
                    expected=f"request {self.request!r} to cancel all, as before",
                    found="another request of that key",
                )
            return Decision(CancelledAll(Sequence(known.reply["cancelled_below"])))
        head = active_head(view, self.ref)
        check_holder(head, self.holder)
        below = head.next_sequence
        after, entry = appended(
            replace(head, cancelled_below=below, open_commands=0),
            "cancelled_all",
            {"cancelled_below": below, "request": self.request, **self.by.facts},
            now,
        )
        after, hints = woken(view, after, self.ref, Instant(now + UNREAD_MS))
        key = RequestKey(
            partition=world, request=self.request, digest=content, reply={"cancelled_below": below}
        )
        return Decision(CancelledAll(below), (after, entry, key, *hints))
