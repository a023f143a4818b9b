"""Promises of outcomes: what is done at most once, what is never done again, and who is told."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from perdure.runtime.session.testing.points import KillPoint
from perdure.runtime.session.testing.registry import Story, promise
from perdure.runtime.session.testing.story import EFFECTS, SENDS, SESSION

UNKNOWN = (KillPoint.DISPATCH_INTENT, KillPoint.DISPATCHED, KillPoint.CLOSE_OUT)
"""Where the process ends that alone knew whether an effectful call had left."""

KNOWN = tuple(each for each in KillPoint if each not in {*UNKNOWN, KillPoint.TOOL_RESULT_RECORDED})
"""Where every call has its result. Whether one has at a first result, chance decides."""


@promise()
def an_effectful_call_has_its_effect_at_most_once(story: Story) -> None:
    done = Counter(each["tool"] for each in story.all_of("effect"))

    assert all(times <= 1 for tool, times in done.items() if EFFECTS[tool] == "effectful"), done


@promise(*KNOWN)
def every_call_has_its_effect_where_nothing_stays_unknown(story: Story) -> None:
    assert {each["tool"] for each in story.all_of("effect")} == set(EFFECTS)
    assert [each["reason"] for each in story.facts("run_finished")] == ["completed", "completed"]


@promise()
def a_run_has_one_end_and_the_next_begins_behind_it(story: Story) -> None:
    edges = [
        (each["type"], each["payload"]["run_id"])
        for each in story.frames
        if each["type"] in {"run_started", "run_finished"}
    ]
    runs = [each["run_id"] for each in story.facts("run_started")]

    assert len(runs) == len(SENDS)
    assert edges == [(kind, run) for run in runs for kind in ("run_started", "run_finished")]


@promise()
def a_planned_call_has_one_end(story: Story) -> None:
    planned = [
        (batch["batch_id"], call["tool_call_id"])
        for batch in story.facts("tool_batch_started")
        for call in batch["planned_calls"]
    ]
    ends = [
        (each["batch_id"], each["tool_call_id"])
        for each in story.facts("tool_result", "tool_no_dispatch")
    ]

    assert len(planned) == len(EFFECTS)
    assert sorted(ends) == sorted(planned)


@promise()
def a_model_that_was_answered_durably_is_not_asked_again(story: Story) -> None:
    asked = Counter(json.dumps(each) for each in story.all_of("asked"))

    assert set(asked.values()) == {1}, asked
    assert len(asked) == len(story.facts("model_step_finished"))


@promise(KillPoint.NATURAL_END)
def a_run_whose_model_was_done_is_ended_and_not_gone_on_with(story: Story) -> None:
    kinds = [each["type"] for each in story.frames]
    resumed = kinds.index("resume_started")

    assert kinds[resumed - 1] == "model_step_finished"
    assert kinds[resumed + 1 : resumed + 3] == ["turn_finished", "run_finished"]
    assert story.facts("run_finished")[0]["reason"] == "completed"


@promise(*UNKNOWN)
def an_unknown_outcome_ends_its_run_and_is_told_to_the_next_one(story: Story) -> None:
    runs: dict[str, list[Any]] = {text: [] for text in SENDS.values()}
    for prompt in story.all_of("asked"):
        last = [each["text"] for each in prompt if each["user"]][-1]
        runs[last].append(prompt)
    effectful = story.facts("tool_result")[-1]

    assert (effectful["outcome"], effectful["is_error"]) == ("unknown", True)
    assert [each["reason"] for each in story.facts("run_finished")] == ["interrupted", "completed"]
    assert not any("unknown_outcome" in json.dumps(each) for each in runs[SENDS["first"]])
    assert len(runs[SENDS["first"]]) == 1
    assert all("unknown_outcome" in json.dumps(each) for each in runs[SENDS["second"]])
    assert len(runs[SENDS["second"]]) == 1


@promise(KillPoint.CLOSE_OUT)
def a_close_out_that_broke_off_between_its_barriers_is_gone_on_with(story: Story) -> None:
    kinds = [each["type"] for each in story.frames]
    first = kinds.index("resume_started")
    second = kinds.index("resume_started", first + 1)

    results = story.facts("tool_result")
    assert "tool_batch_finished" in kinds[first:second]
    assert "run_finished" not in kinds[:second]
    assert kinds[second + 1] == "run_finished"
    assert results[-1]["outcome"] == "unknown"
    assert len(results) == len(EFFECTS)


@promise()
def nothing_is_told_before_it_is_durable(story: Story) -> None:
    journal = {each["seq"]: (each["type"], each["payload"]) for each in story.frames}
    durable: Counter[str] = Counter()
    place = ""
    for word, body in story.notes:
        if word == "durable":
            place = place or body["at"]  # the first session that is made is the story's
            durable[body["at"]] = max(durable[body["at"]], body["seq"])
        elif word == "told":
            assert body["seq"] <= durable[place], f"{body['type']} was told too early"
            assert journal[body["seq"]] == (body["type"], body["payload"])
    assert story.all_of("told"), f"somebody is told of session {SESSION!r}"


@promise()
def a_call_leaves_after_all_intents_of_its_batch_are_durable(story: Story) -> None:
    intents = [each["seq"] for each in story.frames if each["type"] == "tool_dispatch_intent"]
    place, last = "", 0
    for word, body in story.notes:
        if word == "durable":
            place = place or body["at"]
            last = body["seq"] if body["at"] == place else last
        elif word == "effect":
            assert len(intents) == len(EFFECTS)
            assert max(intents) <= last, f"{body['tool']} left before an intent of its batch"
