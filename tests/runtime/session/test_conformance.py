"""Every place to keep sessions keeps every promise, wherever a process is ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from functools import cache

import pytest
from tests.support.children import child
from tests.support.ministack import fresh_account
from tests.support.story_harness import InMemory, on_dynamodb, on_sqlite, signalled_on_sqlite

from perdure.runtime.session.testing import CASES, Ended, KillPoint, check_ended, lived

pytestmark = pytest.mark.sessions

HELD = [
    pytest.param(point, case, id=f"{point}-{case.name}")
    for point in KillPoint
    for case in CASES
    if point in case.points
]


def points(*often):
    """Return all points, of which only some are not slow."""
    return [
        pytest.param(point, marks=[] if point in often else [pytest.mark.slow])
        for point in KillPoint
    ]


@cache
def in_memory(point):
    return asyncio.run(lived(InMemory(), point))


def hold(harness, point):
    story = asyncio.run(lived(harness, point))
    for case in CASES:
        if point in case.points:
            case.run(story)


@pytest.mark.parametrize(("point", "case"), HELD)
def test_memory_keeps_the_promise(point, case):
    case.run(in_memory(point))


@pytest.mark.parametrize("point", points(KillPoint.DISPATCHED, KillPoint.NATURAL_END))
def test_sqlite_keeps_every_promise_though_processes_are_killed(point, tmp_path):
    hold(on_sqlite(tmp_path), point)


@pytest.mark.slow
@pytest.mark.parametrize("point", KillPoint)
def test_sqlite_keeps_every_promise_though_signals_come_from_outside(point, tmp_path):
    hold(signalled_on_sqlite(tmp_path), point)


@pytest.mark.cloud
@pytest.mark.parametrize("point", points(KillPoint.DISPATCHED))
def test_dynamodb_keeps_every_promise_though_processes_are_killed(point, tmp_path, aws):
    hold(on_dynamodb(tmp_path, aws, fresh_account()), point)


class Sparing(InMemory):
    """A harness that says it kills, and only plays."""

    mechanism = "fault_hook_then_process_kill"


def test_a_harness_that_says_it_kills_and_kills_nobody_is_refused():
    with pytest.raises(AssertionError, match="must end a process"):
        asyncio.run(lived(Sparing(), KillPoint.TERMINAL))


def test_a_process_that_lives_or_ended_by_itself_was_not_killed():
    with child([sys.executable, "-c", ""]) as gone:
        gone.wait()
    refused = {
        Ended(KillPoint.TERMINAL, os.getpid(), signal.SIGKILL): "look on",
        Ended(KillPoint.TERMINAL, os.getppid(), signal.SIGKILL): "live",
        Ended(KillPoint.TERMINAL, gone.pid): "by itself",
        Ended(KillPoint.ADMITTED, gone.pid, signal.SIGKILL): "expected an end at",
    }

    for ended, why in refused.items():
        with pytest.raises(AssertionError, match=why):
            check_ended("process_signal", KillPoint.TERMINAL, ended)
    check_ended("process_signal", KillPoint.TERMINAL, Ended(KillPoint.TERMINAL, gone.pid, 9))


def test_a_harness_whose_process_never_comes_to_its_point_fails():
    with pytest.raises(AssertionError, match="never came to"):
        asyncio.run(InMemory().kill_at("nowhere"))


def copied(story):
    return replace(story, notes=json.loads(json.dumps(story.notes)))


def with_frame(word, at):
    def broken(story):
        frames = story.all_of("transcript")[-1]["frames"]
        index = [each["type"] for each in frames].index(word)
        frames[:] = at(frames, index)

    return broken


def doubled(frames, index):
    return [*frames[: index + 1], frames[index], *frames[index + 1 :]]


def left_out(frames, index):
    return [*frames[:index], *frames[index + 1 :]]


def moved_back(frames, index):
    return [*frames[: index - 1], frames[index], frames[index - 1], *frames[index + 1 :]]


def noted_again(word, change=lambda body: body):
    def broken(story):
        bodies = story.all_of(word)
        story.notes.append([word, change(json.loads(json.dumps(bodies[-1])))])

    return broken


def other_key(body):
    return {**body, "call_key": "another"}


def told_early(story):
    story.notes.insert(0, ["told", story.all_of("told")[0]])


def left_early(story):
    story.notes.insert(0, ["effect", story.all_of("effect")[0]])


def told_to_its_own_run(story):
    first = next(each for each in story.all_of("asked"))
    first.append({"user": False, "answers": [{"output": {"error": "unknown_outcome"}}]})


BROKEN = {
    "a_session_has_one_lineage_for_every_process_and_no_other_session_has_it": noted_again(
        "created", lambda body: {**body, "lineage": "another"}
    ),
    "frames_are_numbered_from_one_without_a_gap": with_frame("turn_finished", left_out),
    "no_run_step_batch_or_call_is_named_twice": with_frame("model_step_finished", doubled),
    "a_call_bears_its_planned_key_whichever_process_makes_it": noted_again("effect", other_key),
    "a_send_that_is_asked_again_after_a_death_is_one_send": noted_again(
        "sent", lambda body: {**body, "run": "another"}
    ),
    "a_process_that_goes_on_with_a_run_says_so_once": with_frame("resume_started", doubled),
    "an_effectful_call_has_its_effect_at_most_once": noted_again(
        "effect", lambda _: {"tool": "launch", "call_key": "another"}
    ),
    "every_call_has_its_effect_where_nothing_stays_unknown": with_frame("run_finished", left_out),
    "a_run_has_one_end_and_the_next_begins_behind_it": with_frame("run_finished", doubled),
    "a_planned_call_has_one_end": with_frame("tool_result", doubled),
    "a_model_that_was_answered_durably_is_not_asked_again": noted_again("asked"),
    "a_run_whose_model_was_done_is_ended_and_not_gone_on_with": with_frame(
        "resume_started", moved_back
    ),
    "an_unknown_outcome_ends_its_run_and_is_told_to_the_next_one": told_to_its_own_run,
    "a_close_out_that_broke_off_between_its_barriers_is_gone_on_with": with_frame(
        "tool_result", doubled
    ),
    "nothing_is_told_before_it_is_durable": told_early,
    "a_call_leaves_after_all_intents_of_its_batch_are_durable": left_early,
}
PREFERRED = (KillPoint.CLOSE_OUT, KillPoint.NATURAL_END)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_promise_that_is_broken_is_noticed(case):
    point = next(each for each in PREFERRED if each in case.points)
    story = copied(in_memory(point))
    case.run(story)

    BROKEN[case.name](story)

    with pytest.raises(AssertionError):
        case.run(story)
