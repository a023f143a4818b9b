"""What a machine that asks three stores knows, and how it asks."""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine
from tests.proof.thrice import Thrice, thrice
from tests.support.stores import OpenerOf
from tests.support.told import Told

from perdure.kernel.caller import Allowance, Caller
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Holder, Instant, StorageId, WorldId
from perdure.kernel.places import WorldRef, is_hint_of
from perdure.kernel.records import Head, World, head_key, world_key
from perdure.kernel.view import Request

STORAGE = StorageId("storage")
WORLDS = 6
"""Ids that are asked for; not all of them are worlds."""

LEASE_MS = 60_000
APP = "harbour"

lots = st.integers(0, 99)
few = st.integers(0, 3)
holders = st.sampled_from(["ann", "ann", "bob", "eve"])
callers = st.sampled_from(
    [
        Caller(),
        Caller("ann", "gateway"),
        Caller("ann", "gateway", Allowance(units=6, window_ms=60_000)),
    ]
)


class Agreeing(RuleBasedStateMachine):
    """Base of the rules: worlds by lot, and a way to ask that takes a refusal for an answer."""

    opener: ClassVar[OpenerOf]
    """Of the table in a DynamoDB that is the third store."""

    def __init__(self) -> None:
        super().__init__()
        self.open = thrice(type(self).opener)
        self.three: Thrice = self.open.__enter__()
        self.numbers = count(1)
        self.sent: list[Any] = []
        self.published: list[Any] = []
        self.forks: list[Any] = []

    def teardown(self) -> None:
        """Compare all there is, at the end."""
        try:
            self.three.check()
        finally:
            self.open.__exit__(None, None, None)

    def ask(self, request: Request[Any]) -> Any:
        """Return the answer, None if all three refuse."""
        try:
            return self.three.ask(request)
        except PerdureError:
            return None

    def ref(self, lot: int) -> WorldRef:
        return WorldRef(STORAGE, WorldId(f"w{lot % WORLDS}"))

    def told(self, ref: WorldRef) -> Told:
        """Return a world as the helpers of kernel tests know it, on three stores."""
        paper: Any = self.three
        return Told(paper, ref, self.numbers, ref.world)

    def head(self, ref: WorldRef) -> Head:
        found: Head | None = self.three.held(head_key(ref.partition))
        return Head(partition=ref.partition) if found is None else found

    def record(self, ref: WorldRef) -> World | None:
        found: World | None = self.three.held(world_key(ref))
        return found

    def holder(self, ref: WorldRef) -> Holder | None:
        """Return who alone may change a private world."""
        head = self.head(ref)
        return head.fence.holder if head.writer_mode == "cleanup_only" else None

    def hint(self, ref: WorldRef) -> str:
        """Return a hint of a world, or one that is not there."""
        found = [sort for sort in self.three.keys_under(ref.wake, "") if is_hint_of(sort, ref)]
        return found[0] if found else "0/none"

    def pass_time(self, ms: int) -> None:
        self.three.now = Instant(self.three.now + ms)
