"""Stores agree: whatever is asked of three of them, all answer alike and end with the same records."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.proof.agreeing_keeps import Keeping
from tests.proof.agreeing_reads import READINGS, Asking
from tests.proof.agreeing_replicas import AGAIN, MARKED, Following
from tests.proof.agreeing_sessions import Talking
from tests.proof.agreeing_writes import Writing
from tests.proof.thrice import Disagreed, new_tables

import perdure.kernel
from perdure.authority.in_place import in_place_of
from perdure.kernel.caller import Allowance, Caller
from perdure.kernel.destroy import CheckClosingRead
from perdure.kernel.places import LANES

pytestmark = pytest.mark.proof

FEW = settings(
    max_examples=9,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


MANY = settings(FEW, max_examples=60, stateful_step_count=60, derandomize=False, print_blob=True)
"""Other histories each time, or those of `--hypothesis-seed`."""

CALLER = Caller("ann", "gateway", Allowance(units=20, window_ms=60_000))


class Agreement(Writing, Asking, Keeping, Talking, Following):
    """Everything that can be asked, in any order."""


def requests() -> set[type]:
    """Return every class of the kernel that can be asked of an authority."""
    found = set()
    for module in pkgutil.walk_packages(perdure.kernel.__path__, "perdure.kernel."):
        held = importlib.import_module(module.name)
        for each in vars(held).values():
            is_here = inspect.isclass(each) and each.__module__ == module.name
            if is_here and hasattr(each, "decide") and not getattr(each, "_is_protocol", False):
                found.add(each)
    return found


@pytest.fixture(scope="module")
def here():
    """An opener of tables in this process."""
    with new_tables(None) as opener:
        yield opener


def machine(opener):
    Agreement.opener = staticmethod(opener)
    return Agreement()


def test_there_is_no_request_that_three_stores_are_not_asked(here):
    agreement = machine(here)
    tour(agreement)
    three = agreement.three
    agreement.teardown()

    assert {each.__name__ for each in requests() - {*three.asked}} == set()
    assert {each.__name__ for each in requests() - {*three.answered}} == set()


def tour(agreement):
    """Let every rule do what it can do at its best."""
    agreement.begin([(None, None, True), (2, 1, False)])
    agreement.create(3, 3, "skip")
    agreement.admit(3, [(None, None, True)] * 4, own=False, by=CALLER, large=True)
    agreement.admit_again(0, 0)
    agreement.ask_at_once(0, [(None, None, False)], [(1, None, True)])
    agreement.cancel(0, 1, 1)
    for luck in ([3, 5], [0], [0]):
        agreement.tick(0, "ann", luck, 1)
    agreement.publish_late(0)
    agreement.hold_the_fence(0, "bob", 3, 0)
    agreement.admit(0, [(3, None, True)], own=False, by=CALLER, large=False)
    agreement.fork(0, 0, "copy", again=True)
    agreement.configure(0, "processor", "add", "drift")
    for part in (0, 2, 6):
        agreement.consume(0, "hook", required=False, part=part, by=Caller())
    agreement.start_a_run(0, 0, 1)
    agreement.skip_what_was_missed(3, 4)
    agreement.spend("ann", 1)
    for lane in LANES:
        agreement.land(0, lane, "ann", 1)
    agreement.trim(0, 1, 1)
    agreement.rest(0)
    agreement.name_the_authority(0)
    agreement.migrate(8, 30, 0, 3)
    agreement.migrate(20, 30, 0, 0)
    for number in range(2):
        agreement.three.ask_at_once(
            [each(agreement, agreement.ref(0), number) for each in READINGS]
        )
    agreement.destroy(60, 3, gives_up=False, holder="eve")
    agreement.destroy(61, 3, gives_up=True, holder="eve")
    agreement.archive(60, 1, removes=True)
    agreement.retire(2, 2)
    talk(agreement)
    keep_papers(agreement)


def keep_papers(agreement):
    """Let every rule of document stores do what it can do at its best."""
    agreement.begin_a_store(0, "harbour")
    agreement.write_documents(0, [0, 8, 9], "ann", "ann", again=True)
    agreement.write_documents(0, [3], "ann", "ann", again=False)
    agreement.hold_an_owner(0, "ann", "ann", leaves=False)
    agreement.write_documents(0, [12, 13], "ann", "ann", again=True)
    agreement.hold_an_owner(0, "eve", "ann", leaves=True)
    agreement.read_a_store(0, 1)
    agreement.commit_once(0, 0)
    agreement.follow_a_store(0, tampers=False, promotes=False)
    agreement.follow_a_store(0, tampers=False, promotes=True)
    agreement.import_a_part(0, 0)
    agreement.import_a_part(0, 1)
    for lot, numbers in ((0, (4,)), (2, (5, 2)), (4, (14,)), (6, (7,)), (8, (5, 1)), (10, (12,))):
        agreement.start_a_job(lot, 1)
        for number in numbers:
            agreement.do_a_job(lot, "ann", number, again=True)
    agreement.abort_a_job(0)
    agreement.retry_a_job(10)
    agreement.look_for_jobs(0, 1)
    agreement.read_and_trim_the_log(0, 2)
    agreement.move_a_table(0, 1, MARKED)
    agreement.move_a_table(0, 2, AGAIN)
    agreement.follow_a_store(0, tampers=False, promotes=False)
    agreement.declare_again(0, MARKED)


def talk(agreement):
    """Let every rule of sessions do what it can do at its best."""
    agreement.begin_a_session(0, Caller(), "pilot")
    for number, delivery in enumerate(("queue", "queue", "steer")):
        agreement.send(0, number, delivery, "a", Caller())
    agreement.take_a_send_back(0, 0, Caller())
    agreement.hold_a_session(0, "ann", leaves=True)
    agreement.hold_a_session(0, "ann", leaves=False)
    for number in (2, 1, 3):
        agreement.go_on(0, "ann", number, 0, again=True)
        agreement.say_a_word(0, 0, "approved")
    agreement.send_anew(0, "interrupt")
    agreement.cancel_a_run(0, "now", Caller())
    agreement.look_for_work(0)
    agreement.keep_a_fold(0, 2)
    agreement.read_a_session(0, 1)


def test_whatever_is_asked_of_three_stores_all_answer_alike(here):
    machine(here).teardown()
    run_state_machine_as_test(Agreement, settings=FEW)


@pytest.mark.slow
def test_whatever_is_asked_of_three_stores_for_long_all_answer_alike(here):
    machine(here).teardown()
    run_state_machine_as_test(Agreement, settings=MANY)


@pytest.mark.cloud
@pytest.mark.slow
def test_whatever_is_asked_of_three_stores_one_of_them_over_http_all_answer_alike(aws):
    with new_tables(aws) as opener:
        machine(opener).teardown()
        run_state_machine_as_test(Agreement, settings=FEW)


@dataclass(frozen=True)
class Failing(CheckClosingRead):
    """A reading with a fault in it."""

    def decide(self, view, now):
        """Do what no kernel may do."""
        raise ZeroDivisionError


def test_an_error_that_is_no_refusal_is_told_though_all_three_stores_have_it(here):
    agreement = machine(here)
    agreement.begin([(None, None, True)])

    try:
        with pytest.raises(ZeroDivisionError):
            agreement.three.ask_at_once([Failing(agreement.ref(0))])
    finally:
        agreement.teardown()


class Wayward:
    """A store that is no other: it forgets one thing that it was told."""

    def __init__(self, store, forgets):
        self.store, self.forgets = store, forgets

    async def load(self, reads):
        return await self.store.load(reads)

    async def commit(self, commit):
        kept = tuple(action for action in commit.actions if not self.forgets(action))
        await self.store.commit(replace(commit, actions=kept))

    async def close(self):
        await self.store.close()


@pytest.mark.parametrize("sort", ["log/", "wake", "key/command/", "name/"])
def test_a_store_that_forgets_one_kind_of_record_is_told_from_the_others(here, sort):
    agreement = machine(here)
    authority = agreement.three._authorities[1]
    authority._store = Wayward(authority._store, lambda action: f"{action.key}".find(sort) > 0)
    authority._commit_in_place = in_place_of(authority._store)  # else it goes past the wayward one

    def goes_on():
        agreement.begin([(None, None, True)])
        agreement.three.check()

    with pytest.raises(Disagreed):
        goes_on()
    agreement.open.__exit__(None, None, None)
