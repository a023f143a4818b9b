"""Whatever comes back from a commit to a table: the rows are there once, and the table is whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyiceberg.exceptions import CommitStateUnknownException
from tests.support.catalogs import BUCKET, GLUE, is_commit, opened
from tests.support.day import ONLY
from tests.support.place import Place
from tests.support.wire import Asked, Fault, Wire, wire_to
from tests.support.worlds import position, signature_of, table_of

from perdure.kernel.errors import StoreUnavailable
from perdure.kernel.ids import Tick, Token
from perdure.lake.iceberg import append
from perdure.lake.segment import Origin
from perdure.runtime.append import APPEND_ATTEMPTS_MAX

pytestmark = pytest.mark.cloud

CONFLICT = {
    GLUE: b'{"__type": "ConcurrentModificationException", "Message": "changed"}',
    BUCKET: b'{"error": {"message": "changed", "type": "CommitFailedException", "code": 409}}',
}
BROKEN = {
    GLUE: b'{"__type": "InternalServiceException", "Message": "broken"}',
    BUCKET: b'{"error": {"message": "broken", "type": "InternalServerError", "code": 500}}',
}


def slow(value: object):
    """Leave a case to the slow suite: another like it is in the quick one."""
    return pytest.param(value, marks=pytest.mark.slow)


@pytest.fixture(params=[GLUE, BUCKET])
def kind(request) -> str:
    return request.param


@pytest.fixture
def wire(aws) -> Iterator[Wire]:
    with wire_to(aws) as wire:
        wire.concerns = is_commit
        yield wire


@pytest.fixture
def place(kind, aws, wire, tmp_path, monkeypatch) -> Iterator[Place]:
    with opened(kind, tmp_path, aws, monkeypatch, by=wire.address) as catalog:
        yield Place(tmp_path, catalog)


def answers(kind: str) -> dict[str, tuple[int | None, bytes]]:
    """Return what may come back from a commit, whether or not it happened."""
    refusal = 400 if kind == GLUE else 409
    return {
        "conflict": (refusal, CONFLICT[kind]),
        "500": (500, BROKEN[kind]),
        "502": (502, b"<html>bad gateway</html>"),
        "503": (503, BROKEN[kind]),
        "504": (504, b"<html>time-out</html>"),
        "nothing": (None, b""),
    }


@pytest.mark.parametrize(
    "answer", ["conflict", "nothing", *map(slow, ("500", "502", "503", "504"))]
)
def test_a_commit_that_landed_is_a_success_whatever_is_answered(kind, place, wire, answer):
    table = place.lake.created(signature_of(*ONLY))
    wire.plan.append(Fault(*answers(kind)[answer]))

    append(table, rows(0), "b0")

    assert len(wire.seen) == 1, "sent once: no retry that nobody sees"
    assert list(place.keys(*ONLY).elements()) == [("w", 0, 9)]


@pytest.mark.parametrize(
    "answer", ["conflict", "nothing", *map(slow, ("500", "502", "503", "504"))]
)
def test_a_commit_that_did_not_arrive_is_unknown_and_is_sent_again_by_landing_alone(
    kind, place, wire, answer
):
    world = place.world()
    world.publish({ONLY: [position(9, 0.0)]})
    fault = Fault(*answers(kind)[answer], arrives=False)
    wire.plan.append(fault)

    with pytest.raises(CommitStateUnknownException):
        append(place.lake.created(signature_of(*ONLY)), rows(7), "another")
    assert len(wire.seen) == 1, "sent once: no retry that nobody sees"

    wire.plan.append(fault)
    place.land("w")

    assert len(wire.seen) == 3
    assert list(place.keys(*ONLY).elements()) == [("w", 0, 9)]
    assert world.landed_tick() == 0


@pytest.mark.slow
def test_a_catalog_that_goes_on_failing_leaves_the_batch_to_the_next_landing(kind, place, wire):
    world = place.world()
    world.publish({ONLY: [position(9, 0.0)]})
    wire.plan.extend([Fault(*answers(kind)["500"], arrives=False)] * APPEND_ATTEMPTS_MAX)

    with pytest.raises(StoreUnavailable):
        place.land("w")
    assert (list(place.keys(*ONLY)), world.landed_tick()) == ([], -1)
    place.land("w")

    assert list(place.keys(*ONLY).elements()) == [("w", 0, 9)]
    assert world.landed_tick() == 0


@pytest.mark.parametrize("answer", [slow("500"), "nothing"])
@pytest.mark.parametrize("there", [1, slow(0)])
def test_a_table_whose_making_is_not_answered_is_looked_for(kind, place, wire, there, answer):
    place.catalog.create_namespace("main")
    wire.concerns = is_creation
    wire.plan.append(Fault(*answers(kind)[answer], arrives=there == 1))

    append(place.lake.created(signature_of(*ONLY)), rows(0), "b0")

    assert list(place.keys(*ONLY).elements()) == [("w", 0, 9)]
    assert len(wire.seen) == 2 - there


def test_a_role_that_may_make_no_namespace_makes_tables_in_one(place, wire):
    """A deployment makes the database; its role for landing may make tables in it."""
    place.catalog.create_namespace("main")
    wire.concerns = lambda asked: is_creation(asked, "Database", "namespaces")
    wire.plan.append(Fault(403, b"{}", arrives=False))

    place.lake.created(signature_of(*ONLY))

    assert wire.seen == []


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["500", "nothing"])
def test_a_catalog_out_of_reach_is_unavailable_and_makes_nothing(kind, place, wire, answer):
    wire.concerns = lambda asked: True
    wire.plan.extend([Fault(*answers(kind)[answer], arrives=False)] * 100)

    for use in (place.lake.opened, place.lake.created):
        with pytest.raises(StoreUnavailable):
            use(signature_of(*ONLY))


def is_creation(asked: Asked, what: str = "Table", path: str = "tables") -> bool:
    """Tell a request that makes a table, or a namespace of tables."""
    if asked.target:
        return asked.target == f"AWSGlue.Create{what}"
    return asked.method == "POST" and asked.path.endswith(f"/{path}")


def rows(tick: int):
    origin = Origin("w", "run-1", Tick(tick), Token(f"t{tick}"))
    return table_of(ONLY, [position(9, float(tick))], origin)
