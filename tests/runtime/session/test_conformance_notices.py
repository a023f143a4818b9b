"""The conformance suite notices when the runner of sessions breaks a rule that it is there for."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.story_harness import InMemory

from perdure.kernel.session import answers, fold
from perdure.runtime.session import calls, journal, planning
from perdure.runtime.session.testing import CASES, KillPoint, lived
from perdure.runtime.session.work import Happened, Work

pytestmark = pytest.mark.sessions


def may_be_made_again(patch):
    """A call that may have happened is made again, whatever its effect."""
    patch.setattr(calls, "must_close", lambda _: False)


def lets_the_run_go_on(patch):
    """A run goes on behind an unknown outcome, and its model reads of it."""
    for module in (fold, answers):
        patch.setattr(module, "is_interrupting", lambda _: False)


def says_nothing_of_a_resume(patch):
    patch.setattr(Work, "_resumed", lambda _: ())


def tells_before_it_is_durable(patch):
    barrier = Work.barrier

    async def early(work, think, **options):
        facts = think()
        if facts:
            work.told(Happened(work.journal.seq + 1, tuple(facts)))
        return await barrier(work, think, **options)

    patch.setattr(Work, "barrier", early)


def sends_before_the_intents(patch):
    """Calls leave while the commit of their intents is under way."""
    append = journal.Journal.append

    async def late(self, facts, **options):
        for fact in facts:
            if fact.type == "tool_dispatch_intent":
                tool = self.tools.named(fact.tool_name)
                await tool.call(_Left(call_key=self.keys[fact.tool_call_id]))
        return await append(self, facts, **options)

    def remembered(work, planned):
        work.journal.tools = work.crew.agent(work.run.config.agent).tools
        work.journal.keys = {each.call.tool_call_id: each.plan.call_key for each in planned}
        return intents(work, planned)

    intents = planning.intents
    patch.setattr(planning, "intents", remembered)
    patch.setattr(journal.Journal, "append", late)


class _Left:
    def __init__(self, call_key):
        self.call_key = call_key


def asks_again(patch):
    """Whoever opens a journal forgets a message that ends its run."""
    spoke = fold.Fold._step_spoke

    def forgetful(self, run, step, fact):
        if fact.assistant_message.calls:
            spoke(self, run, step, fact)

    async def opened(means, ref, holder, lease_ms):
        patch.setattr(fold.Fold, "_step_spoke", forgetful)
        try:
            return await open_journal(means, ref, holder, lease_ms)
        finally:
            patch.setattr(fold.Fold, "_step_spoke", spoke)

    open_journal = journal.Journal.open
    patch.setattr(journal.Journal, "open", opened)


BROKEN = [
    (
        may_be_made_again,
        KillPoint.DISPATCHED,
        "an_effectful_call_has_its_effect_at_most_once",
    ),
    (
        lets_the_run_go_on,
        KillPoint.DISPATCHED,
        "an_unknown_outcome_ends_its_run_and_is_told_to_the_next_one",
    ),
    (
        says_nothing_of_a_resume,
        KillPoint.STEP_RECORDED,
        "a_process_that_goes_on_with_a_run_says_so_once",
    ),
    (
        tells_before_it_is_durable,
        KillPoint.TERMINAL,
        "nothing_is_told_before_it_is_durable",
    ),
    (
        sends_before_the_intents,
        KillPoint.TERMINAL,
        "a_call_leaves_after_all_intents_of_its_batch_are_durable",
    ),
    (
        asks_again,
        KillPoint.NATURAL_END,
        "a_model_that_was_answered_durably_is_not_asked_again",
    ),
]


@pytest.mark.parametrize(("broken", "point", "promise"), BROKEN)
def test_a_rule_that_is_broken_breaks_its_promise(broken, point, promise, monkeypatch):
    case = next(each for each in CASES if each.name == promise)
    case.run(asyncio.run(lived(InMemory(), point)))

    broken(monkeypatch)
    story = asyncio.run(lived(InMemory(), point))

    with pytest.raises(AssertionError):
        case.run(story)
