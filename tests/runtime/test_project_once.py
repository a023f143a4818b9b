"""Projecting exactly once: whoever dies, is slow, or hears nothing, each event is one row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from tests.support.logs import STORAGE, STORY, Logs, a_story
from tests.support.steps import Died, DyingAuthority, Steps, dying_catalog
from tests.support.worldly import due

from perdure.kernel.errors import FenceHeld, StaleWriter, StoreUnavailable
from perdure.kernel.ids import Holder, Instant, Token, WorldId
from perdure.kernel.landing import AUDIT, landing_head_key
from perdure.kernel.places import landing_partition
from perdure.lake import audit
from perdure.lake.catalog import LocalCatalog, open_local
from perdure.lake.iceberg import Lake
from perdure.runtime.land import LEASE_MS
from perdure.runtime.project import AuditBounds, Projected, Projection

pytestmark = [pytest.mark.lifecycle, pytest.mark.proof]

SMALL = AuditBounds(entries_max=6)


@pytest.fixture
def logs(tmp_path):
    logs = Logs(tmp_path)
    yield logs
    logs.close()


def steps_of_a_projection(
    logs: Logs,
    steps: Steps,
    bounds: AuditBounds = SMALL,
    *,
    worlds: tuple[str, ...] = ("w", "v"),
) -> None:
    catalog = open_local(logs.root, dying_catalog(steps))
    try:
        logs.project(
            *worlds,
            holder="the dead",
            authority=DyingAuthority(logs.authority, steps),
            lake=Lake(catalog, "main"),
            bounds=bounds,
        )
    finally:
        catalog.close()


def pass_lease(logs: Logs) -> None:
    logs.paper.now = Instant(logs.paper.now + LEASE_MS)


def is_told_once(logs: Logs) -> None:
    assert logs.told("w") == STORY
    assert logs.told("v") == STORY
    assert (logs.through("w"), logs.through("v")) == (13, 13)
    head = logs.paper.held(landing_head_key(landing_partition(STORAGE, AUDIT)))
    assert (head.intent, head.fence.holder) == (None, None)


def count_of_steps(root: Path) -> int:
    logs = Logs(root)
    a_story(logs, "w")
    a_story(logs, "v")
    steps = Steps()
    steps_of_a_projection(logs, steps)
    logs.close()
    return steps.taken


@pytest.mark.slow
def test_whoever_dies_at_any_step_each_event_is_one_row(tmp_path):
    total = count_of_steps(tmp_path / "dry")
    assert total > 20

    for number in range(1, total + 1):
        for after in (False, True):
            logs = Logs(tmp_path / f"{number}-{after}")
            a_story(logs, "w")
            a_story(logs, "v")
            with pytest.raises(Died):
                steps_of_a_projection(logs, Steps(number, after=after))
            pass_lease(logs)

            logs.project("w", "v")

            is_told_once(logs)
            logs.close()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, 13))
def test_a_successor_finishes_what_one_intent_left(logs, number, after):
    a_story(logs, "w")
    a_story(logs, "v")
    with pytest.raises(Died):
        steps_of_a_projection(logs, Steps(number, after=after), AuditBounds())
    pass_lease(logs)

    logs.project("w", "v")

    is_told_once(logs)


@pytest.mark.parametrize("number", range(7, 13))
def test_what_happens_after_a_death_is_no_part_of_the_intent_that_is_finished(logs, number):
    world = a_story(logs, "w")
    a_story(logs, "v")
    with pytest.raises(Died):
        steps_of_a_projection(logs, Steps(number, after=True), AuditBounds())
    world.admit(due(), batch="late")
    pass_lease(logs)

    logs.project("w", "v")

    assert logs.told("w") == [*STORY, (14, "queued", "late.0")]
    assert logs.told("v") == STORY


def test_a_live_projection_is_not_disturbed(logs):
    a_story(logs, "w")
    a_story(logs, "v")
    with pytest.raises(Died):
        steps_of_a_projection(logs, Steps(6))

    with pytest.raises(FenceHeld):
        logs.project("w")


def test_one_who_was_taken_over_in_the_middle_tells_nothing_twice(logs):
    """The slow one opens its intent, loses its fence, and wakes up before its append."""
    a_story(logs, "w")
    a_story(logs, "v")

    class Slow(LocalCatalog):
        rival: Callable[[], None] = staticmethod(lambda: None)

        def commit_table(self, *arguments):
            rival, Slow.rival = Slow.rival, staticmethod(lambda: None)
            rival()
            return super().commit_table(*arguments)

    def take_over() -> None:
        pass_lease(logs)
        # In a thread of the slow one's pool, where no loop runs.
        logs.project("w", "v")

    Slow.rival = staticmethod(take_over)
    catalog = open_local(logs.root, Slow)

    with pytest.raises(StaleWriter):
        logs.project("w", "v", lake=Lake(catalog, "main"))

    catalog.close()
    is_told_once(logs)


def test_two_projections_of_one_holder_cannot_both_tell_the_same_entries(logs):
    a_story(logs)
    projection = Projection(logs.authority, logs.lake, STORAGE)
    tokens = count(1)

    async def story() -> list[object]:
        both = [
            projection.project(
                [WorldId("w")],
                holder=Holder("same"),
                new_token=lambda: Token(f"batch-{next(tokens)}"),
            )
            for _ in range(2)
        ]
        return await asyncio.gather(*both, return_exceptions=True)

    outcomes = asyncio.run(story())

    assert any(isinstance(each, Projected) for each in outcomes)
    assert logs.told() == STORY


class Loses(LocalCatalog):
    """Answers to commits are lost: some after they were applied, some before."""

    script: list[bool]

    def commit_table(self, *arguments):
        if not self.script:
            return super().commit_table(*arguments)
        if self.script.pop(0):
            super().commit_table(*arguments)
        raise ConnectionError("no answer")


@pytest.mark.parametrize("script", [[True], [False], [False, True], [False, False, False]])
def test_lost_answers_of_the_catalog_lead_to_a_look_never_to_a_second_row(logs, script):
    a_story(logs)
    catalog = open_local(logs.root, Loses)
    catalog.script = list(script)

    logs.project(lake=Lake(catalog, "main"))

    catalog.close()
    assert logs.told() == STORY


def test_a_catalog_that_never_takes_it_leaves_the_intent_for_the_next(logs):
    a_story(logs)
    catalog = open_local(logs.root, Loses)
    catalog.script = [False] * 100

    with pytest.raises(StoreUnavailable):
        logs.project(lake=Lake(catalog, "main"))
    catalog.close()
    assert (logs.through(), logs.rows()) == (0, [])

    logs.project()

    assert logs.told() == STORY


@pytest.mark.parametrize("has_landed", [True, False])
def test_with_the_chain_of_snapshots_cut_the_events_themselves_decide(logs, has_landed):
    """A batch's intent is open; the table's history up to its parent is expired."""
    a_story(logs)
    logs.project(bounds=AuditBounds(entries_max=3), go_on=iter([True, False]).__next__)
    # Dead before the append, or right after it and before the watermark.
    steps = Steps(step_of_the_append(logs), after=has_landed)
    with pytest.raises(Died):
        steps_of_a_projection(logs, steps, AuditBounds(), worlds=("w",))
    table = logs.lake.opened_as(audit.AUDIT)
    rival = {**logs.rows()[0], "event_id": "x", "world_id": "x"}
    for _ in range(2):
        table.append(audit.pa.Table.from_pylist([rival], schema=audit.SCHEMA))
    old = [each.snapshot_id for each in table.snapshots()[:-1]]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    pass_lease(logs)

    logs.project()

    assert logs.told() == STORY


def step_of_the_append(logs: Logs) -> int:
    """Count the steps to the append on a copy of the world's records, which is thrown away."""
    reached: list[int] = []

    class Counting(LocalCatalog):
        def commit_table(self, *arguments):
            steps.take(lambda: None)
            reached.append(steps.taken)
            raise Died

    steps = Steps()
    stored = dict(logs.paper.stored)
    catalog = open_local(logs.root, Counting)
    with pytest.raises(Died):
        logs.project(
            "w",
            holder="the dead",
            authority=DyingAuthority(logs.authority, steps),
            lake=Lake(catalog, "main"),
        )
    catalog.close()
    logs.paper.stored = stored
    return reached[0]
