"""Private worlds: evidence of one workflow, which nobody but its first holder ever writes.

Whoever creates one holds its fence from the very commit that makes it. It is retired when
the workflow ends, and by the sweeper when its holder has died; it is never resumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.destroy import end_facts, ended
from perdure.kernel.errors import Contended
from perdure.kernel.ids import Instant, Partition, RunId
from perdure.kernel.places import WorldRef
from perdure.kernel.records import Head, World, head_key, world_key
from perdure.kernel.view import Decision, Reads, View
from perdure.kernel.wake import UNREAD_MS, appended, woken
from perdure.kernel.writers import is_private

Retired = Literal["tombstone", "destroyed", "untouched"]
"""What became of an id: nothing was there, it was ours, or it is somebody else's."""


def is_abandoned(head: Head, now: Instant) -> bool:
    """Say whether a private world has outlived its holder, and must be retired by others."""
    if not is_private(head) or head.status not in {"active", "closing"}:
        return False
    return not head.fence.is_held(now)


def is_tombstone(head: Head) -> bool:
    """Say whether a world was destroyed before it was created: it has its id, and no name."""
    return head.status == "destroyed" and head.seq == 1


def retirement_due(head: Head, now: Instant) -> Instant | None:
    """Return when a private world must be looked at: at the end of its holder's lease."""
    if not is_private(head) or head.status not in {"active", "closing"}:
        return None
    if is_abandoned(head, now):
        return Instant(now + UNREAD_MS)
    return head.fence.until


@dataclass(frozen=True, slots=True)
class Retire:
    """Make sure that a private world whose creation had no answer is destroyed, in one commit.

    Nothing there: a tombstone, so that the creation is refused if it still arrives; it claims
    no name. The same world: destroyed, and its open commands rejected with it. Another world
    of that id is not touched.
    """

    ref: WorldRef
    name: str
    run: RunId
    kind: str = ""
    app: str = ""
    by: Caller = LOCAL

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.ref.catalog

    def reads(self) -> Reads:
        return Reads(keys=(world_key(self.ref), head_key(self.ref.partition)))

    def decide(self, view: View, now: Instant) -> Decision[Retired]:
        known = view.get(world_key(self.ref))
        head = view.get(head_key(self.ref.partition))
        if known is None and head is None:
            return self._tombstone(view, now)
        if known is None or head is None:
            raise Contended(
                expected=f"all of world {self.ref.world!r} or nothing",
                found="a part: its creation is running",
            )
        if known != self._identity(known.created_at):
            return Decision("untouched")
        if head.status == "destroyed":
            return Decision("destroyed")
        return self._ended(view, head, "destroyed", now)

    def _identity(self, at: Instant) -> World:
        return World(
            partition=self.ref.catalog,
            storage=self.ref.storage,
            world=self.ref.world,
            name=self.name,
            kind=self.kind,
            run=self.run,
            writer_mode="cleanup_only",
            created_at=at,
            app=self.app,
        )

    def _tombstone(self, view: View, now: Instant) -> Decision[Retired]:
        head = Head(partition=self.ref.partition, writer_mode="cleanup_only")
        ending = self._ended(view, head, "tombstone", now)
        return Decision("tombstone", (self._identity(now), *ending.writes))

    def _ended(self, view: View, head: Head, what: Retired, now: Instant) -> Decision[Retired]:
        facts = {**end_facts(head, self.by), "retired": what}
        after, entry = appended(ended(head), "destroyed", facts, now)
        after, hints = woken(view, after, self.ref, Instant(now + UNREAD_MS))
        return Decision(what, (after, entry, *hints))
