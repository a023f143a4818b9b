"""History: what the audit table tells of a world, filtered, paged, and never made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy.exc import OperationalError
from tests.support.logs import STORY, Logs, a_story
from tests.support.worldly import due

from perdure.kernel.errors import Corrupt, Invalid, InvalidId, NotFound, StoreUnavailable
from perdure.kernel.ids import Instant
from perdure.lake import audit
from perdure.lake.audit import EventFilter
from perdure.runtime import history as history_module

pytestmark = pytest.mark.lifecycle


@pytest.fixture
def logs(tmp_path):
    logs = Logs(tmp_path)
    yield logs
    logs.close()


def told(page):
    return [(each["seq"], each["kind"], each["command_id"]) for each in page.events]


def test_history_is_the_story_in_the_order_of_the_log(logs):
    a_story(logs)
    logs.project()

    page = logs.history(limit=100)

    assert told(page) == STORY
    assert (page.through_seq, page.head_seq, page.next) == (13, 13, None)


def test_what_is_not_projected_yet_is_seen_to_lack(logs):
    world = a_story(logs)
    logs.project()
    world.admit(due(), batch="late")

    page = logs.history(limit=100)

    assert (len(page.events), page.through_seq, page.head_seq) == (len(STORY), 13, 14)


def test_a_command_is_found_by_its_own_name_whatever_name_it_was_cancelled_by(logs):
    world = logs.world()
    world.admit(due(9, command_id="mine"), batch="early")
    world.cancel("early.0")
    logs.project()

    page = logs.history(limit=100, wanted=EventFilter(command_id="mine"))

    assert [kind for _, kind, _ in told(page)] == ["queued", "cancelled"]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"from_seq": 4, "to_seq": 6}, STORY[10:13]),
        ({"from_seq": 14}, []),
        ({"to_seq": 0}, []),
        ({"from_seq": 5, "to_seq": 4}, []),
        ({"kinds": ("applied",)}, [STORY[7], STORY[11], STORY[16]]),
        ({"kinds": ("rejected", "cancelled_all")}, [STORY[8], STORY[12]]),
        ({"kinds": ("dead_letter",)}, []),
        ({"command_id": "b.2"}, [STORY[3], STORY[9], STORY[11]]),
        ({"command_id": "nobody's"}, []),
        ({"actor": "ann"}, [STORY[14], STORY[16]]),
        ({"entity_id": 1, "kinds": ("retryable",)}, [STORY[9]]),
        ({"entity_id": 2}, []),
        ({"from_tick": 6}, [STORY[5], STORY[6], *STORY[13:]]),
        ({"from_tick": 1, "to_tick": 5}, [STORY[4], STORY[11]]),
        ({"to_tick": 0}, [*STORY[1:4], *STORY[7:10]]),
        ({"from_at": 1_000_000, "to_at": 1_000_000, "kinds": ("created",)}, STORY[:1]),
        ({"from_at": 1_000_001}, []),
        ({"to_at": 999_999}, []),
        ({"from_tick": 0, "kinds": ("applied",), "command_id": "b.0"}, [STORY[7]]),
    ],
)
def test_each_filter_keeps_what_it_says_and_nothing_else(logs, asked, wanted):
    a_story(logs)
    logs.project()
    places = {name: asked[name] for name in asked if name.endswith("_seq")}
    filters = {name: asked[name] for name in asked if name not in places}

    page = logs.history(wanted=EventFilter(**filters), limit=100, **places)

    assert told(page) == wanted


@pytest.mark.parametrize("limit", [1, 2, 5, len(STORY) - 1, len(STORY)])
@pytest.mark.parametrize("window", [1, 3, 1_000])
def test_pages_of_any_size_are_the_whole_story(logs, monkeypatch, limit, window):
    monkeypatch.setattr(history_module, "WINDOW_FIRST", window)
    a_story(logs)
    logs.project()

    found, after, pages = [], (0, -1), 0
    while after is not None:
        page = logs.history(limit=limit, after=after)
        assert len(page.events) <= limit
        found += told(page)
        after, pages = page.next, pages + 1

    assert found == STORY
    assert pages == -(-len(STORY) // limit)


def test_one_world_is_never_told_of_another(logs):
    a_story(logs)
    other = logs.world("v")
    other.admit(due(), batch="b")
    logs.project("w", "v")

    assert told(logs.history("v")) == [(1, "created", None), (2, "queued", "b.0")]


def test_a_destroyed_world_is_told_of_for_ever(logs):
    world = a_story(logs)
    logs.project()
    world.change(lambda head: replace(head, status="destroyed"))

    assert told(logs.history(limit=100)) == STORY


def test_a_world_that_nothing_was_projected_of_has_an_empty_history_and_no_table_is_made(logs):
    a_story(logs)

    page = logs.history()

    assert (page.events, page.through_seq, page.head_seq) == ((), 0, 13)
    assert logs.lake.opened_as(audit.AUDIT) is None


def test_a_world_whose_log_told_of_nothing_has_no_table_either(logs):
    """Its entries were read, and none of them was an event."""
    world = logs.world()
    logs.paper.stored.pop(next(k for k in logs.paper.stored if k.sort.startswith("log/")))
    world.change(lambda head: replace(head, seq=0, log_digest=""))
    world.ticks(3)
    logs.project()

    page = logs.history()

    assert (page.events, page.through_seq) == ((), 3)


def test_a_table_that_was_lost_is_corruption_not_an_empty_history(logs):
    a_story(logs)
    logs.project()
    logs.catalog.drop_table(("main", audit.AUDIT_TABLE))

    with pytest.raises(Corrupt):
        logs.history()


class Fails:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def opened_as(self, _):
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("select", {}, Exception("locked")),
        ConnectionError("down"),
        OSError(5),
        TimeoutError(),
    ],
    ids=["catalog", "network", "disk", "silent"],
)
def test_tables_that_do_not_answer_are_unavailable_never_empty(logs, error):
    a_story(logs)
    logs.project()

    with pytest.raises(StoreUnavailable):
        logs.history(lake=Fails(error))


def test_a_file_that_is_gone_is_unavailable_never_empty(logs):
    a_story(logs)
    logs.project()
    for file in logs.root.rglob("*.parquet"):
        file.unlink()

    with pytest.raises(StoreUnavailable):
        logs.history()


@pytest.mark.parametrize(
    ("world", "asked", "kind"),
    [
        ("nowhere", {}, NotFound),
        ("a/b", {}, InvalidId),
        ("w", {"limit": 0}, Invalid),
        ("w", {"limit": history_module.EVENTS_MAX + 1}, Invalid),
        ("w", {"wanted": EventFilter(kinds=("exploded",))}, Invalid),
        ("w", {"wanted": EventFilter(entity_id=True)}, Invalid),
        ("w", {"wanted": EventFilter(from_tick=0.5)}, Invalid),
        ("w", {"wanted": EventFilter(actor=5)}, Invalid),
        ("w", {"limit": 1.5}, Invalid),
        ("w", {"after": (2, 2**63)}, Invalid),
    ],
)
def test_what_cannot_be_asked_is_refused(logs, world, asked, kind):
    a_story(logs)

    with pytest.raises(kind) as raised:
        logs.history(world, **asked)

    assert type(raised.value) is kind


def test_history_read_while_a_projection_is_between_append_and_watermark_shows_no_more_than_it_says(
    logs,
):
    a_story(logs)
    logs.project()
    logs.paper.put(replace(logs.mark(), seq=5))

    page = logs.history(limit=100)

    assert told(page) == [each for each in STORY if each[0] <= 5]
    assert page.through_seq == 5


def test_instants_are_those_of_the_log(logs):
    world = logs.world()
    logs.paper.now = Instant(2_000_000)
    world.admit(due(), batch="b")
    logs.project()

    page = logs.history(wanted=EventFilter(from_at=1_500_000))

    assert told(page) == [(2, "queued", "b.0")]
