"""Sessions: what is asked of the agents' conversations of one storage, from wherever it is asked.

Who may ask for what is the face's matter, but for one rule that holds everywhere: only its owner
sends to a session, cancels its runs and takes its sends back (and whoever has the storage in hand).
Everybody who may read the storage reads every session of it, as they read every world.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast, get_args

from perdure.kernel import limits
from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.errors import Invalid, InvalidValue, TooLarge, Unavailable, UnknownAgent
from perdure.kernel.ids import (
    AgentRunId,
    CallKey,
    Holder,
    Instant,
    Lineage,
    SendId,
    Seq,
    SessionId,
    StorageId,
    Token,
    checked_id,
    short_hash,
)
from perdure.kernel.session.control import (
    ApprovalReply,
    CancelRun,
    ResolveApproval,
    Retract,
)
from perdure.kernel.session.create import (
    CreateSession,
    DescribeSession,
    DiscoverSessions,
    SessionInfo,
)
from perdure.kernel.session.facts import CancelAt, Decided
from perdure.kernel.session.records import SessionRef
from perdure.kernel.session.send import Send, SendReply, Wish, check_owned
from perdure.kernel.shown import shown
from perdure.kernel.view import Request
from perdure.runtime.app import App
from perdure.runtime.session import payloads, transcript
from perdure.runtime.session.agent import Agent
from perdure.runtime.session.evidence_world import WorldEvidence
from perdure.runtime.session.journal import READ_TRIES, Means
from perdure.runtime.session.ports import Model
from perdure.runtime.session.runner import Driven, drive
from perdure.runtime.session.tool_world import Reach, bound
from perdure.runtime.session.transcript import TranscriptPage, Transcripts, Wanted
from perdure.runtime.session.work import Crew, Evidence, Told, unheard
from perdure.runtime.steady import steadily

T = TypeVar("T")

LIST_MAX: Final = 1_000
"""Sessions of one answer."""

LEASE_MS: Final = 20_000
"""Lease of who goes on with a session, if nobody says: renewed while it works."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of one storage."""

    means: Means
    storage: StorageId
    app: App
    """Its agents are known once it was loaded."""

    model: Callable[[str], Model]
    """Open a model by its address. Raises Invalid kinds."""

    lease_ms: int = LEASE_MS
    reach: Reach | None = None
    """The worlds that agents act on; without it their world tools are not there."""

    def ref(self, session: str) -> SessionRef:
        """Name a session of this storage. Raises InvalidId."""
        return SessionRef(self.storage, SessionId(checked_id(session, what="a session id")))

    async def create(
        self,
        agent: str,
        *,
        session_id: str | None = None,
        ceiling_bytes: int = limits.JOURNAL_BYTES_MAX,
        retained: bool = False,
        evidence: bool = False,
        by: Caller = LOCAL,
    ) -> SessionInfo:
        """Begin a session, or return it if the same was begun before under this id.

        Raises: Invalid kinds, UnknownAgent, Conflict.
        """
        self.app.agent_named(agent)
        request = CreateSession(
            self.ref(self.means.new_token() if session_id is None else session_id),
            agent,
            lineage_of(self.means.new_token()),
            self.means.new_token(),
            ceiling_bytes=ceiling_bytes,
            retained=retained,
            evidence=evidence,
            app=self.app.name,
            by=by,
        )
        return await self._steady(request.checked())

    async def discover(
        self, after: str | None = None, limit: int = 100, *, owner: str | None = None
    ) -> tuple[list[SessionInfo], str | None]:
        """List sessions by id, or those of one owner, and where to go on if there may be more.

        Those of others are looked at all the same: a page may be short though more follow.
        """
        if not 1 <= limit <= LIST_MAX:
            raise Invalid(expected=f"a limit of 1 to {LIST_MAX}", found=str(limit))
        if after is not None:
            checked_id(after, what="a session id to go on behind")
        beyond = None if after is None else SessionId(after)
        found, more = await self._steady(DiscoverSessions(self.storage, beyond, limit, owner))
        return list(found), more

    async def describe(self, session: str) -> SessionInfo:
        """Tell what is known of a session, and which of its calls wait. Raises NotFound."""
        return await self._steady(DescribeSession(self.ref(session)))

    def drawn_send_id(self) -> str:
        """Draw an id for a send that came without one."""
        return self.means.new_token()

    async def send(  # noqa: PLR0913  # what a send can say
        self,
        session: str,
        input: str,
        *,
        delivery: str = "queue",
        send_id: str | None = None,
        run_id: str | None = None,
        overrides: Mapping[str, Any] | None = None,
        title: str | None = None,
        by: Caller = LOCAL,
    ) -> SendReply:
        """Deliver something to a session, at most once for its send id.

        A send id that is not given is drawn before the first attempt; it comes back even when
        the outcome stays unknown, so that the caller can ask again.
        Raises: Invalid kinds, NotFound, NotOwner, SendIdReuse, Conflict, RunPaused, QueueFull,
        SessionTooLarge kinds, UnknownAgent, NewerWriter; Unavailable kinds with ``send_id`` set.
        """
        _check_length(title, limits.TITLE_CHARACTERS_MAX, what="a title")
        chosen = SendId(self.drawn_send_id() if send_id is None else send_id)
        wish = Wish(
            send=chosen,
            input=input,
            delivery=delivery,
            run=None if run_id is None else AgentRunId(run_id),
            overrides=None if overrides is None else dict(overrides),
            title=title,
        ).checked()
        try:
            return await self._sent(self.ref(session), wish, by)
        except Unavailable as error:
            error.send_id = chosen
            raise

    async def _sent(self, ref: SessionRef, wish: Wish, by: Caller) -> SendReply:
        info = await self._steady(DescribeSession(ref))
        check_owned(info.session_id, info.owner, by)
        try:
            config = self.app.agent_named(info.agent).config(wish.overrides)
        except UnknownAgent:
            config = None  # what was sent while it was there is answered all the same
        request = Send(ref, wish, config, self.means.new_token(), by)
        large = tuple(request.large(info.owner))
        if large:
            # First without: what is refused, or was sent before, leaves no object behind.
            with contextlib.suppress(UnknownAgent):
                return await self._steady(replace(request, config=None))
            await payloads.put(self.means.objects, ref, large)
        return await self._steady(request)

    async def cancel(
        self, session: str, run: str, at: str = "boundary", *, by: Caller = LOCAL
    ) -> SendReply:
        """Ask for the end of a run, after its batch (``boundary``) or ``now``.

        Raises: InvalidValue, NotFound, NotOwner, NewerWriter.
        """
        named = AgentRunId(checked_id(run, what="a run id"))
        chosen = cast("CancelAt", _one_of(at, CancelAt, what="at"))
        request = CancelRun(self.ref(session), named, chosen, self.means.new_token(), by)
        return await self._steady(request)

    async def retract(self, session: str, send: str, *, by: Caller = LOCAL) -> SendReply:
        """Take back a send that still waits. Raises NotFound, NotOwner, NotRetractable."""
        named = SendId(checked_id(send, what="a send id"))
        return await self._steady(Retract(self.ref(session), named, self.means.new_token(), by))

    async def resolve(
        self,
        session: str,
        call: str,
        decision: str,
        *,
        detail: str | None = None,
        by: Caller = LOCAL,
    ) -> ApprovalReply:
        """Say whether a call that waits may be made: ``approved`` or ``denied``.

        Raises: InvalidValue, TooLarge, NotFound, AlreadyDecided, NewerWriter.
        """
        _check_length(detail, limits.DETAIL_CHARACTERS_MAX, what="a detail")
        named = CallKey(checked_id(call, what="a call key", bytes_max=256))
        chosen = cast("Decided", _one_of(decision, Decided, what="decision"))
        return await self._steady(
            ResolveApproval(self.ref(session), named, chosen, self.means.new_token(), detail, by)
        )

    async def transcript(
        self,
        session: str,
        *,
        after: int = 0,
        limit: int = transcript.FRAMES_DEFAULT,
        bytes_max: int = transcript.BYTES_DEFAULT,
        lineage: str | None = None,
    ) -> TranscriptPage:
        """Return frames behind a seq, payloads included; one larger than a page comes alone.

        ``lineage`` is that of the journal which the reader has read before, if any.
        Raises: Invalid, NotFound, LineageChanged, Corrupt, PayloadMissing.
        """
        if not 0 <= after <= limits.INTEGER_MAX:
            raise Invalid(expected="a seq of the journal, or 0", found=shown(after))
        if not 1 <= limit <= transcript.FRAMES_MAX:
            raise Invalid(expected=f"a limit of 1 to {transcript.FRAMES_MAX}", found=str(limit))
        if not 1 <= bytes_max <= transcript.BYTES_MAX:
            raise Invalid(expected=f"1 to {transcript.BYTES_MAX} bytes", found=str(bytes_max))
        known = None if lineage is None else Lineage(lineage)
        wanted = Wanted(Seq(after), limit, bytes_max, known)
        return await Transcripts(self.means).read(self.ref(session), wanted)

    async def drive(self, session: str, *, deadline: Instant, told: Told = unheard) -> Driven:
        """Go on with a session until nothing is to be done, somebody must be asked, or time is over.

        Each call is a holder of its own: two of one process never share a fence.
        Raises as :func:`perdure.runtime.session.runner.drive` does.
        """
        crew = Crew(
            self.means,
            self._agent,
            self.model,
            Holder(self.means.new_token()),
            self.lease_ms,
            self._evidence(),
        )
        return await drive(crew, self.ref(session), deadline=deadline, told=told)

    def _evidence(self) -> Evidence | None:
        reach = self.reach
        if reach is None or reach.lakeside is None:
            return None
        return WorldEvidence(reach.worlds, reach.lakeside)

    def _agent(self, name: str) -> Agent:
        return bound(self.app.agent_named(name), self.reach)

    async def _steady(self, request: Request[T]) -> T:
        """Execute a request that may meet a half-visible commit: ask again, a few times."""
        authority, pause = self.means.authority, self.means.pause
        return await steadily(authority, request, tries=READ_TRIES, pause=pause)


def lineage_of(token: Token) -> Lineage:
    """Make the 22 characters of a lineage of a token drawn for it."""
    return Lineage(short_hash("lineage", token))


def _check_length(text: str | None, most: int, *, what: str) -> None:
    """Hold text that goes into a frame to its length, whoever says it. Raises TooLarge."""
    if text is not None and len(text) > most:
        raise TooLarge(expected=f"{what} of at most {most} characters", found=str(len(text)))


def _one_of(given: str, words: Any, *, what: str) -> str:
    """Return one of the words of a literal type. Raises InvalidValue."""
    allowed = get_args(words)
    if given not in allowed:
        raise InvalidValue(expected=f"{what} to be one of {', '.join(allowed)}", found=shown(given))
    return given


def no_model(address: str) -> Model:
    """Open no model: for whoever only reads sessions, or sends to them. Raises Invalid."""
    raise Invalid(expected="a process that can open models", found=f"none for {shown(address)}")
