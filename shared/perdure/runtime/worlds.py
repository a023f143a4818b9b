"""Worlds without their rows: create, describe, admit, cancel, and ask what became of it."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perdure.kernel import limits
from perdure.kernel.admit import Admit, Admitted, KnownAdmitted, Receipt
from perdure.kernel.batch import prepared, split
from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.component import Registry
from perdure.kernel.errors import Invalid, OutcomeUnknown, TooLarge, Unavailable
from perdure.kernel.ids import (
    BatchId,
    CommandId,
    Holder,
    RunId,
    Seq,
    StorageId,
    Tick,
    Token,
    WorldId,
    checked_id,
)
from perdure.kernel.kept import kept
from perdure.kernel.later import Later
from perdure.kernel.log import LogEntry
from perdure.kernel.operations import Command
from perdure.kernel.pace import MissedTicks
from perdure.kernel.places import WorldRef
from perdure.kernel.records import WriterMode
from perdure.kernel.shown import shown
from perdure.kernel.view import Request
from perdure.runtime.ports import Executes
from perdure.runtime.steady import steadily

if TYPE_CHECKING:
    from perdure.kernel import cancel, create, ledger, listing, logfeed, status
    from perdure.kernel.cancel import CancelledAll
    from perdure.kernel.create import CreateWorld, WorldInfo
    from perdure.kernel.fork_source import Pending
    from perdure.kernel.listing import Show
    from perdure.kernel.status import CommandState, CommandStatus
    from perdure.runtime import consumers, fork
    from perdure.runtime.consumers import Consumers
    from perdure.runtime.fork import Wish
else:  # what an admission does not need
    cancel = Later("perdure.kernel.cancel")
    create = Later("perdure.kernel.create")
    ledger = Later("perdure.kernel.ledger")
    listing = Later("perdure.kernel.listing")
    logfeed = Later("perdure.kernel.logfeed")
    status = Later("perdure.kernel.status")
    consumers = Later("perdure.runtime.consumers")
    fork = Later("perdure.runtime.fork")

T = TypeVar("T")

_LEDGER_PLACE: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,5})")

LIST_MAX: Final = 1_000
"""Worlds, commands or log entries of one answer."""

TORN_TRIES: Final = 8
"""Times a reading that met a running commit is taken again before it is Contended."""


@dataclass(frozen=True)
class Submitted:
    """What an admission answers."""

    batch_id: BatchId
    answer: Admitted | KnownAdmitted
    statuses: tuple[CommandState, ...]
    """Where each command stands now: no part of what was promised."""

    @property
    def replayed(self) -> bool:
        return self.answer.replayed

    @kept
    def receipts(self) -> tuple[Receipt, ...]:
        """One for each command, in their order. Spelled when first asked for."""
        return tuple(self.answer.receipts())


class Worlds:
    """The worlds of one storage, for callers that need no rows (and so no Arrow)."""

    def __init__(
        self,
        authority: Executes,
        storage: StorageId,
        registry: Registry,
        *,
        new_token: Callable[[], Token],
        new_run: Callable[[], RunId],
        app: str = "",
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._authority = authority
        self._storage = storage
        self._registry = registry
        self._new_token = new_token
        self._new_run = new_run
        self._app = app
        self._pause = pause

    @property
    def consumers(self) -> Consumers:
        """Who reads the logs of these worlds."""
        return consumers.Consumers(self._authority, self._storage)

    def of_app(self, registry: Registry, app: str = "") -> Worlds:
        """Return the worlds of the same storage, as another application knows them."""
        drawn: Any = {"new_token": self._new_token, "new_run": self._new_run, "pause": self._pause}
        return Worlds(self._authority, self._storage, registry, app=app, **drawn)

    def ref(self, world: str) -> WorldRef:
        """Name a world of this storage. Raises InvalidId."""
        return WorldRef(self._storage, WorldId(checked_id(world, what="a world id")))

    async def create(
        self,
        name: str,
        *,
        world_id: str | None = None,
        kind: str = "",
        every_ms: int | None = None,
        missed: MissedTicks = "coalesce",
        by: Caller = LOCAL,
    ) -> WorldInfo:
        """Create a world, or return it if the same was created before under this id.

        Raises: Invalid kinds, NameTaken, Conflict, WorldDestroyed.
        """
        request = self.creation(
            name, world_id=world_id, kind=kind, every_ms=every_ms, missed=missed
        )
        return await self._authority.execute(replace(request, by=by))

    def creation(  # noqa: PLR0913  # what a creation can say
        self,
        name: str,
        *,
        world_id: str | None = None,
        kind: str = "",
        every_ms: int | None = None,
        missed: MissedTicks = "coalesce",
        writer_mode: WriterMode = "resumable",
        holder: Holder | None = None,
        lease_ms: int = 0,
    ) -> CreateWorld:
        """Return the request that creates a world, with its ids drawn. Raises Invalid kinds."""
        run = self._new_run()
        request = create.CreateWorld(
            ref=self.ref(run if world_id is None else world_id),
            name=name,
            run=run,
            kind=kind,
            writer_mode=writer_mode,
            every_ms=every_ms,
            missed=missed,
            app=self._app,
            holder=holder,
            lease_ms=lease_ms,
        )
        return request.checked()

    async def fork(  # noqa: PLR0913  # what a wish can say
        self,
        world: str,
        name: str,
        *,
        world_id: str | None = None,
        pending: Pending = "copy",
        at_tick: int | None = None,
        every_ms: int | None = None,
        missed: MissedTicks = "coalesce",
        by: Caller = LOCAL,
    ) -> WorldInfo:
        """Fork a world at its published tick, or return the fork made before under this id.

        ``pending`` says whether the fork takes over the commands that are open. It ticks by
        itself only if told how often.
        Raises: Invalid kinds, NotFound, NameTaken, Conflict, NotPublished, TooManyPending,
        NotResumable, CorruptLineage, WorldClosing, WorldDestroyed, WorldMoving, Contended.
        """
        wish = self.wish(
            self.ref(world),
            name,
            world_id,
            pending=pending,
            at_tick=at_tick,
            every_ms=every_ms,
            missed=missed,
            by=by,
        )
        return await fork.fork(self._authority, wish, pause=self._pause)

    def wish(
        self, source: WorldRef, name: str, world_id: str | None, *, at_tick: int | None, **more: Any
    ) -> Wish:
        """Spell that a fork of ``source`` is wanted in this storage. Raises InvalidId."""
        run = self._new_run()
        ref = self.ref(run if world_id is None else world_id)
        tick = None if at_tick is None else Tick(at_tick)
        return fork.Wish(source, ref, name, run, at_tick=tick, **more)

    async def describe(self, world: str) -> WorldInfo:
        """Tell what is known of a world. Raises NotFound."""
        return await self._authority.execute(create.Describe(self.ref(world), with_consumers=True))

    async def discover(
        self, after: str | None = None, limit: int = 100, *, show: Show = "public"
    ) -> tuple[list[WorldInfo], str | None]:
        """List worlds by id, and where to go on if there are more.

        What ``show`` leaves out is looked at all the same: a page may have fewer than
        ``limit``, or none, though more follow.
        """
        limit = _limited(limit)
        if after is not None:
            checked_id(after, what="a world id to go on behind")
        if show not in listing.SHOWS:
            raise Invalid(expected=f"one of {', '.join(listing.SHOWS)} to show", found=shown(show))
        found = await self._steady(
            create.Discover(self._storage, None if after is None else WorldId(after), limit + 1)
        )
        more = len(found) > limit
        shown_here = [info for info in found[:limit] if listing.is_shown(info, show)]
        return shown_here, found[limit - 1].world_id if more else None

    async def every(self, *, show: Show, after: str | None = None) -> list[WorldInfo]:
        """List worlds by id, all behind ``after``, however many."""
        found: list[WorldInfo] = []
        while True:
            page, after = await self.discover(after, LIST_MAX, show=show)
            found += page
            if after is None:
                return found

    def drawn_batch_id(self) -> str:
        """Draw an id for a batch that came without one."""
        return self._new_token()

    async def submit(
        self,
        world: str,
        commands: Sequence[Command],
        *,
        batch_id: str | None = None,
        holder: Holder | None = None,
        by: Caller = LOCAL,
    ) -> Submitted:
        """Admit commands: all or none, and the same batch id at most once.

        A batch id that is not given is drawn before the first attempt; it comes back even
        when the outcome stays unknown, so that the caller can ask again. ``holder`` is who
        holds the fence of a private world: nobody else may submit to it.
        Raises: Invalid kinds, Conflict, NotFound, WorldClosing, WorldDestroyed, Unavailable
        kinds with ``batch_id`` set.
        """
        ref = self.ref(world)
        chosen = BatchId(self._new_token() if batch_id is None else batch_id)
        batch = prepared(
            ref.world, chosen, commands, self._registry, principal=by.actor, origin=by.origin
        )
        try:
            answer: Admitted | KnownAdmitted = await self._authority.execute(
                Admit(ref, batch, holder, by)
            )
            states = await _afterwards(self._states(ref, answer))
        except Unavailable as error:
            error.batch_id = chosen
            raise
        return Submitted(chosen, answer, states)

    async def _states(
        self, ref: WorldRef, answer: Admitted | KnownAdmitted
    ) -> tuple[CommandState, ...]:
        """Tell where the commands of an admission stand: only a replay's may have moved."""
        if not answer.replayed:
            pending: CommandState = "pending"
            return (pending,) * answer.size
        if isinstance(answer, Admitted):
            page = await self._steady(ledger.Ledger(ref, (answer.seq, 0), answer.size))
            return tuple(command.status for command in page.commands)
        ids = [receipt.command_id for receipt in answer.receipts()]
        found = [await self._steady(status.StatusOf(ref, command)) for command in ids]
        return tuple(command.status for command in found)

    async def submit_many(
        self,
        world: str,
        commands: Sequence[Command],
        *,
        batch_prefix: str | None = None,
        holder: Holder | None = None,
    ) -> list[Submitted]:
        """Admit a list of any length as atomic batches within the limits, in order.

        Batches are named ``<prefix>-<number>``: the same call again answers the same.
        """
        prefix = self._new_token() if batch_prefix is None else batch_prefix
        admitted: list[Submitted] = []
        waiting = deque(split(commands))
        while waiting:
            part = waiting.popleft()
            name = f"{prefix}-{len(admitted):06d}"
            try:
                admitted.append(await self.submit(world, part, batch_id=name, holder=holder))
            except TooLarge:
                if len(part) == 1:
                    raise
                middle = len(part) // 2
                waiting.extendleft((part[middle:], part[:middle]))
        return admitted

    async def command(self, world: str, command: str) -> CommandStatus:
        """Tell what became of a command. Raises NotFound."""
        return await self._steady(status.StatusOf(self.ref(world), _command_id(command)))

    async def commands(
        self, world: str, after: str | None = None, limit: int = 100
    ) -> tuple[list[CommandStatus], str | None]:
        """List commands in order of admission, and where to go on if there may be more."""
        page = await self._steady(
            ledger.Ledger(self.ref(world), _ledger_place(after), _limited(limit))
        )
        return list(page.commands), None if page.after is None else "{}.{}".format(*page.after)

    async def cancel(
        self, world: str, command: str, *, holder: Holder | None = None, by: Caller = LOCAL
    ) -> CommandStatus:
        """Cancel one open command. Raises NotFound, NotCancellable, NotPermitted."""
        ref = self.ref(world)
        await self._steady(cancel.Cancel(ref, _command_id(command), by, holder))
        return await _afterwards(self._steady(status.StatusOf(ref, _command_id(command))))

    async def cancel_all(
        self, world: str, request: str, *, holder: Holder | None = None, by: Caller = LOCAL
    ) -> CancelledAll:
        """Cancel everything open now; the same ``request`` again changes nothing."""
        asked = cancel.CancelAll(self.ref(world), request, by, holder)
        return await self._authority.execute(asked.checked())

    async def log(self, world: str, after: int = 0, limit: int = 100) -> list[LogEntry]:
        """Return the entries of the log behind ``after``, up to the first gap."""
        if not 0 <= after <= limits.INTEGER_MAX:
            raise Invalid(expected="a seq of the log, or 0", found=shown(after))
        return await self._authority.execute(
            logfeed.LogFeed(self.ref(world), Seq(after), _limited(limit))
        )

    async def _steady(self, request: Request[T]) -> T:
        """Execute a reading that may meet a half-visible commit: look again, a few times."""
        return await steadily(self._authority, request, tries=TORN_TRIES, pause=self._pause)


def _limited(limit: int) -> int:
    if not 1 <= limit <= LIST_MAX:
        raise Invalid(expected=f"a limit of 1 to {LIST_MAX}", found=str(limit))
    return limit


def _command_id(text: str) -> CommandId:
    most = limits.ID_BYTES_MAX
    return CommandId(checked_id(text, what="a command id", bytes_max=most))


def _ledger_place(after: str | None) -> tuple[int, int]:
    if after is None:
        return (1, 0)
    found = _LEDGER_PLACE.fullmatch(after)
    if found is None:
        raise Invalid(expected="a cursor from an earlier answer", found=shown(after))
    seq, index = found.groups()
    return (int(seq), int(index))


async def _afterwards(reading: Awaitable[T]) -> T:
    """Read what a change is answered with: no answer to this is no proof that nothing was done."""
    try:
        return await reading
    except Unavailable as error:
        raise OutcomeUnknown(
            expected="what a change came to", found=f"{error.code}: {error}"
        ) from error
