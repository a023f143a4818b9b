"""Landing: one at a time, each world's ticks in order, nothing opened or finished twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perdure.kernel import limits
from perdure.kernel.errors import Conflict, FenceHeld, Invalid, StaleWriter, TooLarge
from perdure.kernel.ids import (
    Epoch,
    Holder,
    Instant,
    RunId,
    Seq,
    StorageId,
    TableId,
    Tick,
    Token,
    WorldId,
)
from perdure.kernel.landing import (
    AUDIT,
    CONSUMER,
    INTENT_RECORDS_MAX,
    FinishIntent,
    Intent,
    IntentPart,
    IntentTable,
    LandingHead,
    LandingTable,
    OpenIntent,
    ReleaseLandingFence,
    TakeLandingFence,
)
from perdure.kernel.places import WorldRef, landing_partition
from perdure.kernel.records import Ancestor, Fence, World
from perdure.kernel.upkeep import Consumer
from perdure.kernel.view import Key, Removed, Stored, Version, View

S = StorageId("s")
LANDING = landing_partition(S)
NOW = Instant(10_000_000)
LEASE = 60_000
W, V = WorldId("w"), WorldId("v")
ANN, BOB = Holder("ann"), Holder("bob")
B1, B2 = Token("b1"), Token("b2")


def view_of(*records) -> View:
    """Return a view of exactly these records; everything else is absent."""

    class Whole(dict):
        def __contains__(self, key: object) -> bool:
            return True

        def __missing__(self, key: Key) -> None:
            return None

    view = View({})
    view.stored = Whole({each.key: Stored(Version(1, Token("t")), each.body()) for each in records})
    return view


def head(
    epoch: int = 1,
    holder: Holder | None = ANN,
    until: int = NOW + LEASE,
    intent: Token | None = None,
    finished: Token | None = None,
) -> LandingHead:
    fence = Fence(epoch=Epoch(epoch), holder=holder, until=Instant(until))
    return LandingHead(partition=LANDING, fence=fence, intent=intent, finished=finished)


def mark(world: WorldId, tick: int, seq: int = 1) -> Consumer:
    partition = WorldRef(S, world).partition
    return Consumer(partition=partition, name=CONSUMER, seq=Seq(seq), tick=Tick(tick))


def part(world: WorldId, first: int, last: int, seq: int = 9) -> IntentPart:
    return IntentPart(world=world, first=Tick(first), last=Tick(last), seq=Seq(seq))


def world(id: WorldId, *, forked_at: int | None = None) -> World:
    ref = WorldRef(S, id)
    lineage = (
        () if forked_at is None else (Ancestor(world=W, run=RunId("r"), up_to=Tick(forked_at)),)
    )
    return World(
        partition=ref.catalog,
        storage=S,
        world=id,
        name=id,
        kind="",
        run=RunId("r"),
        lineage=lineage,
        created_at=NOW,
    )


TABLES = (IntentTable(table=TableId("a"), parent=5, rows=7),)


@pytest.mark.parametrize(
    ("known", "verdict"),
    [
        (None, 1),
        (head(4, None, 0), 5),
        (head(4, BOB, NOW), 5),
        (head(4, BOB, NOW + 1), FenceHeld),
        (head(4, BOB, NOW + limits.LEASE_MS_MAX), FenceHeld),
        (head(4, BOB, NOW + limits.LEASE_MS_MAX + 1), 5),
        (head(4, ANN, NOW - 1), 4),
        (head(4, ANN, NOW + LEASE), 4),
    ],
)
def test_the_landing_fence_is_taken_when_it_is_free_expired_or_ones_own(known, verdict):
    view = view_of(*([] if known is None else [known]))

    if isinstance(verdict, int):
        reply = TakeLandingFence(S, ANN, LEASE).decide(view, NOW).reply
        assert (reply.epoch, reply.until, reply.intent) == (verdict, NOW + LEASE, None)
    else:
        with pytest.raises(verdict):
            TakeLandingFence(S, ANN, LEASE).decide(view, NOW)


@pytest.mark.parametrize(("left_ms", "writes"), [(LEASE, 0), (LEASE // 2, 0), (LEASE // 2 - 1, 1)])
def test_the_holder_writes_nothing_while_half_its_lease_remains(left_ms, writes):
    view = view_of(head(4, ANN, NOW + left_ms))

    decision = TakeLandingFence(S, ANN, LEASE).decide(view, NOW)

    assert len(decision.writes) == writes


@pytest.mark.parametrize(
    "request_", [TakeLandingFence(S, Holder("x" * 37), 1), TakeLandingFence(S, ANN, 0)]
)
def test_a_holder_or_lease_beyond_the_limits_is_invalid(request_):
    with pytest.raises(Invalid):
        request_.reads()


def test_a_successor_is_handed_the_open_intent():
    intent = Intent(partition=LANDING, batch=B1, parts=(part(W, 0, 3),), tables=TABLES)
    view = view_of(head(4, BOB, NOW, intent=B1), intent)

    grip = TakeLandingFence(S, ANN, LEASE).decide(view, NOW).reply

    assert grip.intent == intent


@pytest.mark.parametrize(
    ("known", "epoch", "writes"),
    [
        (head(1, ANN), 1, 1),
        (head(2, BOB), 1, 0),
        (head(1, None, 0), 1, 0),
    ],
)
def test_a_release_lets_only_ones_own_fence_go(known, epoch, writes):
    decision = ReleaseLandingFence(S, Epoch(epoch)).decide(view_of(known), NOW)

    assert len(decision.writes) == writes
    assert all(each.fence == Fence(epoch=Epoch(1)) for each in decision.writes)


OPEN = Intent(partition=LANDING, batch=B1, parts=(part(W, 4, 6),), tables=TABLES)


@pytest.mark.parametrize(
    ("known", "request_parts", "verdict"),
    [
        ([head(), mark(W, 3)], (part(W, 4, 6),), "opened"),
        ([head()], (part(W, 0, 6),), "opened"),
        ([head(), mark(W, 3), world(V, forked_at=9)], (part(W, 4, 4), part(V, 10, 12)), "opened"),
        # order is priority: the epoch is judged before the intent, the intent before the ticks
        ([head(2), mark(W, 3)], (part(W, 4, 6),), StaleWriter),
        ([head(intent=B1), OPEN, mark(W, 3)], (part(W, 4, 6),), "unchanged"),
        ([head(intent=B1), OPEN, mark(W, 3)], (part(W, 4, 7),), Conflict),
        ([head(intent=B2), replace(OPEN, batch=B2), mark(W, 3)], (part(W, 4, 6),), Conflict),
        ([head(), mark(W, 4)], (part(W, 4, 6),), StaleWriter),
        ([head(), mark(W, 2)], (part(W, 4, 6),), StaleWriter),
        ([head()], (part(W, 1, 6),), StaleWriter),
        ([head(), world(V, forked_at=9)], (part(V, 0, 12),), StaleWriter),
        ([head(), mark(W, 6)], (part(W, 7, 6),), StaleWriter),
        ([head(), mark(W, 3), mark(V, 3)], (part(W, 4, 6), part(V, 4, 6)), "opened"),
        ([head(), mark(W, 3), mark(V, 4)], (part(W, 4, 6), part(V, 4, 6)), StaleWriter),
    ],
)
def test_an_intent_opens_only_right_behind_every_watermark(known, request_parts, verdict):
    request = OpenIntent(S, Epoch(1), LEASE, B1, request_parts, TABLES)
    view = view_of(*known)

    if isinstance(verdict, str):
        decision = request.decide(view, NOW)
        intent = Intent(partition=LANDING, batch=B1, parts=request_parts, tables=TABLES)
        assert decision.reply == intent
        assert decision.writes == (() if verdict == "unchanged" else (head(intent=B1), intent))
    else:
        with pytest.raises(verdict):
            request.decide(view, NOW)


def test_an_intent_names_the_watermarks_it_rests_on():
    request = OpenIntent(S, Epoch(1), LEASE, B1, (part(W, 4, 6),), TABLES)

    assert mark(W, 3).key in request.reads().keys


def test_an_intent_of_too_many_worlds_and_tables_is_refused():
    parts = tuple(part(WorldId(f"w{n}"), 0, 0) for n in range(INTENT_RECORDS_MAX))

    with pytest.raises(TooLarge):
        OpenIntent(S, Epoch(1), LEASE, B1, parts, TABLES).reads()


@pytest.mark.parametrize(
    ("known", "verdict"),
    [
        ([head(intent=B1), OPEN, mark(W, 3)], "finished"),
        ([head(finished=B1), mark(W, 6)], "unchanged"),
        ([head(2, intent=B1), OPEN, mark(W, 3)], StaleWriter),
        ([head(finished=B2), mark(W, 6)], StaleWriter),
        ([head(intent=B2, finished=B1), mark(W, 6)], StaleWriter),
        ([head(intent=B1), OPEN, mark(W, 6)], StaleWriter),
    ],
)
def test_watermarks_move_once_and_only_for_the_open_intent(known, verdict):
    view = view_of(*known)
    request = FinishIntent(S, Epoch(1), LEASE, OPEN)

    if isinstance(verdict, str):
        writes = request.decide(view, NOW).writes
        landed = LandingTable(partition=LANDING, table=TableId("a"), rows=7, batch=B1)
        assert writes == (
            ()
            if verdict == "unchanged"
            else (head(finished=B1), Removed(OPEN.key), mark(W, 6, seq=9), landed)
        )
    else:
        with pytest.raises(verdict):
            request.decide(view, NOW)


def test_rows_of_a_table_are_counted_over_batches():
    before = LandingTable(partition=LANDING, table=TableId("a"), rows=100, batch=B2)
    view = view_of(head(intent=B1), OPEN, mark(W, 3), before)

    writes = FinishIntent(S, Epoch(1), LEASE, OPEN).decide(view, NOW).writes

    assert replace(before, rows=107, batch=B1) in writes


def test_the_largest_intent_fits_one_commit():
    parts = tuple(part(WorldId(f"w{n}"), 0, 0) for n in range(INTENT_RECORDS_MAX - 1))
    intent = replace(OPEN, parts=parts)
    view = view_of(head(intent=B1), intent)

    request = FinishIntent(S, Epoch(1), LEASE, intent)
    touched = {each.key for each in request.decide(view, NOW).writes}

    assert len(touched | set(request.reads().keys)) <= limits.COMMIT_ACTIONS_MAX


def test_records_come_back_as_they_were_written():
    for record in (head(3, BOB, 5, B1, B2), OPEN, head(0, None, 0)):
        assert type(record).read(LANDING, record.key.sort, record.body()) == record


# ---------------------------------------------------------------- the lane of the audit

AUDIT_LANE = landing_partition(S, AUDIT)


def audited(world: WorldId, seq: int) -> Consumer:
    return Consumer(partition=WorldRef(S, world).partition, name=AUDIT, seq=Seq(seq))


@pytest.mark.parametrize(
    ("known", "request_parts", "verdict"),
    [
        ([], (part(W, 1, 6, seq=6),), "opened"),
        ([audited(W, 3)], (part(W, 4, 6, seq=6),), "opened"),
        # a fork's log begins with its own first entry
        ([world(V, forked_at=9)], (part(V, 1, 2, seq=2),), "opened"),
        # how far it has landed is another matter
        ([mark(W, 3), audited(W, 1)], (part(W, 2, 6, seq=6),), "opened"),
        ([], (part(W, 0, 6, seq=6),), StaleWriter),
        ([], (part(W, 2, 6, seq=6),), StaleWriter),
        ([audited(W, 4)], (part(W, 4, 6, seq=6),), StaleWriter),
        ([audited(W, 3)], (part(W, 5, 6, seq=6),), StaleWriter),
    ],
)
def test_an_intent_of_the_audit_opens_only_right_behind_the_last_entry_read(
    known, request_parts, verdict
):
    fence = replace(head(), partition=AUDIT_LANE)
    request = OpenIntent(S, Epoch(1), LEASE, B1, request_parts, (), AUDIT)

    if isinstance(verdict, str):
        intent = request.decide(view_of(fence, *known), NOW).reply
        assert (intent.partition, intent.parts) == (AUDIT_LANE, request_parts)
    else:
        with pytest.raises(verdict):
            request.decide(view_of(fence, *known), NOW)


def test_finishing_an_intent_of_the_audit_moves_its_own_watermark_only():
    intent = Intent(partition=AUDIT_LANE, batch=B1, parts=(part(W, 4, 6, seq=6),), tables=())
    fence = replace(head(intent=B1), partition=AUDIT_LANE)
    view = view_of(fence, intent, audited(W, 3), mark(W, 3))

    writes = FinishIntent(S, Epoch(1), LEASE, intent, AUDIT).decide(view, NOW).writes

    moved = replace(head(finished=B1), partition=AUDIT_LANE)
    assert writes == (moved, Removed(intent.key), audited(W, 6))


def test_the_two_lanes_have_fences_of_their_own():
    landing = head(4, BOB, NOW + LEASE)

    grip = TakeLandingFence(S, ANN, LEASE, AUDIT).decide(view_of(landing), NOW).reply

    assert grip.epoch == 1
