"""Ports of keeping: what verification and trimming ask of the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from perdure.kernel.caller import Caller
from perdure.kernel.ids import Tick


class Finding(Protocol):
    """One thing that is not as it should be."""

    @property
    def kind(self) -> str: ...
    @property
    def where(self) -> str: ...
    @property
    def expected(self) -> str: ...
    @property
    def found(self) -> str: ...


class Verified(Protocol):
    """What a verification looked at and found."""

    @property
    def checked_ticks(self) -> int: ...
    @property
    def next_tick(self) -> Tick | None: ...
    @property
    def findings(self) -> Sequence[Finding]: ...


class VerifyPorts(Protocol):
    """What verification needs."""

    async def verify(
        self, world: str, *, from_tick: int | None, to_tick: int | None, ms: int
    ) -> Verified:
        """Verify as many ticks of a world as there is time for in ``ms``, at least one."""
        ...


class Trimmed(Protocol):
    """What a trim let go of."""

    @property
    def segments(self) -> int: ...
    @property
    def checkpoints(self) -> int: ...
    @property
    def orphans(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def undecided(self) -> int: ...
    @property
    def archived(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a trim of many worlds came to, and the world behind which to go on."""

    trimmed: Trimmed
    worlds: int
    next: str | None


class TrimPorts(Protocol):
    """What trimming needs."""

    async def trim_all(
        self, *, grace_ms: int, dry_run: bool, after: str | None, ms: int, by: Caller
    ) -> Pruned:
        """Trim the worlds behind ``after``, for about ``ms``, at least one."""
        ...
