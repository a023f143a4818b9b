"""Promises of names: what was named once is that for ever, whichever process asks."""

from __future__ import annotations

from collections import defaultdict

from perdure.runtime.session.testing.points import KillPoint
from perdure.runtime.session.testing.registry import Story, promise
from perdure.runtime.session.testing.story import OTHER, SENDS, SESSION


@promise()
def a_session_has_one_lineage_for_every_process_and_no_other_session_has_it(story: Story) -> None:
    lineages = defaultdict(set)
    for each in story.all_of("created"):
        lineages[each["session"]].add(each["lineage"])

    assert [len(lineages[each]) for each in (SESSION, OTHER)] == [1, 1], lineages
    (here,), (there,) = lineages[SESSION], lineages[OTHER]
    assert here != there
    assert {each["lineage"] for each in story.all_of("transcript")} == {here}
    assert [each["lineage"] for each in story.facts("journal_begun")] == [here]


@promise()
def frames_are_numbered_from_one_without_a_gap(story: Story) -> None:
    assert [each["seq"] for each in story.frames] == list(range(1, len(story.frames) + 1))


@promise()
def no_run_step_batch_or_call_is_named_twice(story: Story) -> None:
    runs = [each["run_id"] for each in story.facts("run_started")]
    steps = [each["step_id"] for each in story.facts("model_step_finished")]
    batches = [each["batch_id"] for each in story.facts("tool_batch_started")]
    calls = [
        call["call_key"]
        for batch in story.facts("tool_batch_started")
        for call in batch["planned_calls"]
    ]

    for names in (runs, steps, batches, calls):
        assert names, "the story has some of each"
        assert len(set(names)) == len(names), names


@promise()
def a_call_bears_its_planned_key_whichever_process_makes_it(story: Story) -> None:
    planned = {
        call["name"]: call["call_key"]
        for batch in story.facts("tool_batch_started")
        for call in batch["planned_calls"]
    }
    made = {(each["tool"], each["call_key"]) for each in story.all_of("effect")}

    assert made or story.point is KillPoint.DISPATCH_INTENT
    assert made <= set(planned.items())


@promise()
def a_send_that_is_asked_again_after_a_death_is_one_send(story: Story) -> None:
    runs = defaultdict(set)
    for each in story.all_of("sent"):
        runs[each["send"]].add(each["run"])

    assert set(runs) == set(SENDS)
    assert all(len(each) == 1 for each in runs.values()), runs
    begun = [(each["input"], each["run_id"]) for each in story.facts("run_started")]
    assert begun == [(text, next(iter(runs[send]))) for send, text in SENDS.items()]
    assert len(story.facts("queued")) == 1


@promise()
def a_process_that_goes_on_with_a_run_says_so_once(story: Story) -> None:
    resumed = [each for each in story.frames if each["type"] == "resume_started"]

    assert len(resumed) == _RESUMES[story.point], resumed
    for each in resumed:
        assert each["payload"]["resumed_from_seq"] == each["seq"] - 1


_RESUMES = {
    KillPoint.ADMITTED: 0,
    KillPoint.SEND_RECORDED: 0,
    KillPoint.STEP_RECORDED: 1,
    KillPoint.DISPATCH_INTENT: 1,
    KillPoint.DISPATCHED: 1,
    KillPoint.TOOL_RESULT_RECORDED: 1,
    KillPoint.CLOSE_OUT: 2,
    KillPoint.NATURAL_END: 1,
    KillPoint.TERMINAL: 0,
}
"""A run is gone on with if its process died in it, and had written something of it."""
