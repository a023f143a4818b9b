"""The day goes on where it stopped, whenever it stops."""

from __future__ import annotations

from itertools import count

import httpx
import pytest
from tests.airspace.perdure_fake import PerdureFake

from airspace.client import HttpClient, Landed, Problem
from airspace.course import WORLD_ID, Course, run_day
from airspace.flights import real_day

FLIGHTS = real_day().flights


def run(perdure: PerdureFake, pauses: list[float] | None = None) -> Course:
    pauses = [] if pauses is None else pauses
    with perdure.client() as http:
        client = HttpClient(http, pause=pauses.append)
        seconds = count()
        return run_day(
            client, FLIGHTS, watch=lambda stage, done, total: None, now=lambda: next(seconds)
        )


@pytest.fixture(scope="module")
def whole() -> PerdureFake:
    """A Perdure that has run the whole day undisturbed."""
    perdure = PerdureFake()
    run(perdure)
    return perdure


def test_the_whole_day_is_admitted_ticked_and_landed():
    perdure = PerdureFake()

    course = run(perdure)

    assert perdure.worlds == {WORLD_ID: "One day out of New York"}
    assert (course.batches, course.commands) == (13, 1_610)
    assert course.statuses == {"applied": 1_591, "pending": 19}
    assert (course.ticks, perdure.published) == (1_500, 1_499)
    assert course.landed == Landed(134_974, 3)
    assert list(course.seconds) == ["admit", "tick", "land", "ask again"]


def test_a_second_run_finds_everything_done():
    perdure = PerdureFake()
    run(perdure)
    before = list(perdure.commands)

    course = run(perdure)

    assert perdure.commands == before
    assert (course.ticks, course.landed) == (0, Landed(0, 0))
    assert course.statuses == {"applied": 1_591, "pending": 19}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", [1, 2, 7, 8, 14, 16, 50, 105, 108, 115])
def test_the_server_may_die_at_any_request_and_no_command_is_applied_twice(whole, number, moment):
    perdure = PerdureFake()
    perdure.death = (number, moment)

    with pytest.raises(httpx.TransportError):
        run(perdure)
    course = run(perdure)

    assert course.statuses == {"applied": 1_591, "pending": 19}
    assert (perdure.commands, perdure.published) == (whole.commands, whole.published)
    assert perdure.landed == whole.landed


def test_the_progress_never_goes_back_and_ends_full():
    seen: dict[str, list[int]] = {}
    ends = {}

    def watch(stage, done, total):
        seen.setdefault(stage, []).append(done)
        ends[stage] = (done, total)

    with PerdureFake().client() as http:
        run_day(HttpClient(http, pause=lambda _: None), FLIGHTS, watch=watch, now=lambda: 0.0)

    assert all(done == sorted(done) for done in seen.values())
    assert all(done == total for done, total in ends.values())


@pytest.mark.parametrize("status", [429, 503])
def test_what_may_succeed_later_is_asked_again_after_the_pause_that_was_named(status):
    perdure = PerdureFake()
    perdure.refusals = [
        httpx.Response(status, headers={"Retry-After": "3"}, json={"code": "fence_held"}),
        httpx.Response(status, json={"code": "contended"}),
    ]
    pauses: list[float] = []

    course = run(perdure, pauses)

    assert pauses == [3.0, 0.5]
    assert course.commands == 1_610


def test_patience_ends_and_says_that_asking_again_may_help():
    perdure = PerdureFake()
    perdure.refusals = [
        httpx.Response(
            409, headers={"Retry-After": "30"}, json={"code": "fence_held", "detail": "…"}
        )
    ] * 10
    pauses: list[float] = []

    with pytest.raises(Problem, match="fence_held") as caught:
        run(perdure, pauses)

    assert caught.value.may_pass
    assert sum(pauses) == 90


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (httpx.Response(409, json={"code": "name_taken", "detail": "x"}), "name_taken"),
        (httpx.Response(500, text="oops"), "unreadable_answer"),
        (httpx.Response(200, json=[1]), "unreadable_answer"),
        (httpx.Response(404, json={"title": "Not Found"}), "404"),
    ],
)
def test_a_refusal_is_not_asked_again(answer, code):
    perdure = PerdureFake()
    perdure.refusals = [answer]

    with pytest.raises(Problem) as caught:
        run(perdure)

    assert caught.value.code == code
    assert not caught.value.may_pass
    assert perdure.requests == 1


def test_a_batch_of_other_content_under_a_known_id_stops_the_day():
    perdure = PerdureFake()
    perdure.batches["day-spawn-003"] = ("[]", [])

    with pytest.raises(Problem, match="conflict"):
        run(perdure)


def test_a_world_that_does_not_advance_is_not_asked_for_ever():
    class Stuck(PerdureFake):
        def decided(self, request):
            if request.url.path.endswith("/tick"):
                return httpx.Response(200, json={"published_tick": -1, "done": False})
            return super().decided(request)

    with pytest.raises(Problem, match="stalled"):
        run(Stuck())


def test_a_receipt_that_changes_is_noticed():
    class Forgetful(PerdureFake):
        def admitted(self, batch_id, commands):
            if self.published > 0:
                self.batches.pop(batch_id)
            return super().admitted(batch_id, commands)

    with pytest.raises(Problem, match="receipt_changed"):
        run(Forgetful())
