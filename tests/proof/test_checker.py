"""The checker believes histories that can be true, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.proof.telling import NAME, Telling, ship
from tests.support.worldly import due

from perdure.kernel.destroy import BeginClosing, FinishDestroy, MarkTold
from perdure.kernel.ids import Holder

pytestmark = pytest.mark.proof


def story():
    """Let everything happen that a history can tell of one world."""
    told = Telling()
    told.tell("create", {"run": "run"}, name="harbour")
    told.admit(ship(1.0), due(3, command_id="own"), batch="b")
    told.info()
    told.status("b.0")
    told.tick()
    told.status("b.0")
    told.admit(ship(2.0), due(None), batch="c")
    told.world.cancel("own")
    told.tell("cancel", {"status": "rejected"}, command="own")
    told.tick(reject=[4], process="rival")
    told.admit(due(9), due(9), batch="d")
    told.tell("cancel_all", {"cancelled_below": told.world.cancel_all("r")}, request="r")
    for command in ("b.0", "own", "c.0", "c.1", "d.1"):
        told.status(command)
    told.info()
    return told


def end(told):
    """Destroy the world."""
    ask, ref = told.world.paper.ask, told.world.ref
    close = ask(BeginClosing(ref, Holder("eve"), 60_000))
    ask(MarkTold(ref, close.epoch))
    ask(FinishDestroy(ref, close.epoch))
    told.tell("destroy", {"status": "destroyed"})


def test_a_true_history_has_no_fault_and_every_call_a_place():
    told = story()
    end(told)
    told.status("d.0")
    told.info()

    checked = told.checked()

    assert checked.faults == []
    assert checked.steps == len(told.calls)


def test_an_acknowledged_command_that_is_lost_is_noticed():
    told = story()
    before = told.records
    told.admit(ship(3.0), batch="lost")

    assert "command lost.0 is nowhere in the log: it is lost" in told.faults(before)


def test_a_read_that_does_not_see_what_was_acknowledged_is_noticed():
    told = story()
    stale = told.info()
    told.tick()
    assert told.faults() == ""
    told.tell("info", stale.answer, process="reader")

    assert f"order of {NAME}: reader" in told.faults()


def test_a_command_that_is_not_found_after_its_admission_is_noticed():
    told = story()
    told.calls.append(replace(told.status("b.0"), number=99, outcome="refused", code="not_found"))

    assert "order of" in told.faults()


def test_a_status_that_goes_back_is_noticed():
    told = Telling()
    told.admit(ship(1.0), batch="b")
    before = told.status("b.0")
    told.tick()
    told.status("b.0")
    assert told.faults() == ""
    told.tell("status", before.answer, process="reader", command="b.0")

    assert "order of" in told.faults()


def test_two_winners_of_one_name_are_noticed():
    told = story()
    told.calls.append(replace(told.calls[0], process="b", asked={"world": "x", "name": "harbour"}))

    assert f"name 'harbour' was given to ['{NAME}', 'x']" in told.faults()


def test_two_winners_of_one_id_are_noticed():
    told = story()
    told.calls.append(replace(told.calls[0], process="b", asked={"world": NAME, "name": "mine"}))

    assert "that world is called 'harbour'" in told.faults()


def test_two_winners_of_one_tick_are_noticed():
    told = story()
    won = told.tick()
    told.tell("tick", {**won.answer, "token": "another"}, process="rival", **won.asked)

    assert "I1" in told.faults()


def test_one_epoch_of_two_processes_is_noticed():
    told = story()
    told.tick()
    epoch = told.calls[-1].asked["epoch"]
    told.calls[-1] = replace(told.calls[-1], process="rival")

    assert f"epoch {epoch} is that of ticker" in told.faults()


def test_a_tick_under_an_epoch_that_is_past_is_noticed():
    told = story()
    told.tick()
    newer = told.calls[-1].asked["epoch"] + 1
    assert told.faults() == ""
    taken = {"epoch": newer, "seq": told.world.head.seq - 1}
    told.calls.insert(-1, replace(told.calls[-2], process="rival", number=99, answer=taken))

    assert "I1: epochs of" in told.faults()


def test_a_command_that_is_settled_twice_is_noticed():
    told = Telling()
    told.admit(ship(1.0), batch="b")
    (page,) = told.world.pages
    told.tick()
    told.world.paper.put(page)
    told.tick()

    assert "I2: manifest 1 at 4 says" in told.faults()


def test_a_command_that_left_its_page_unsettled_is_noticed():
    told = Telling()
    told.admit(ship(1.0), batch="b")
    (page,) = told.world.pages
    del told.world.paper.stored[page.key]

    assert "I2: pages hold [], open is [1]" in told.faults()


def test_an_admission_after_the_end_is_noticed():
    told = story()
    active = told.world.head
    end(told)
    told.world.change(lambda head: replace(active, seq=head.seq, log_digest=head.log_digest))
    told.admit(ship(1.0), batch="late")

    assert "I5: admitted at" in told.faults()


def test_admissions_whose_sequences_are_not_in_the_order_of_time_are_noticed():
    told = story()
    first, second = told.admit(ship(3.0), batch="e"), told.admit(ship(4.0), batch="f")
    assert told.faults() == ""
    told.calls[-2:] = [
        replace(first, invoked_ns=second.invoked_ns, returned_ns=second.returned_ns),
        replace(second, invoked_ns=first.invoked_ns, returned_ns=first.returned_ns),
    ]

    assert "order of" in told.faults()


def test_admissions_that_ran_at_once_may_have_either_order():
    told = story()
    first, second = told.admit(ship(3.0), batch="e"), told.admit(ship(4.0), batch="f")
    told.calls[-2:] = [
        replace(first, returned_ns=second.returned_ns),
        replace(second, invoked_ns=first.invoked_ns),
    ]

    assert told.faults() == ""


def test_other_receipts_for_the_same_batch_are_noticed():
    told = story()
    again = told.admit(ship(1.0), due(3, command_id="own"), batch="b")
    assert told.faults() == ""
    again.answer["receipts"][0][-1] = 77

    assert "I7: batch b has different receipts" in told.faults()


def sent_otherwise(call, number, **fields):
    """Return a call whose command of this number said something else."""
    commands = [dict(each) for each in call.asked["commands"]]
    commands[number].update(fields)
    return replace(call, asked={**call.asked, "commands": commands})


@pytest.mark.parametrize(
    "fields",
    [
        {"components": {"Position": {"x": 0.0, "y": 2.0}}},
        {"tick": 25},
        {"priority": -1},
        {"operation": "despawn", "entity_id": 1},
    ],
)
def test_a_command_that_is_stored_otherwise_than_it_was_sent_is_noticed(fields):
    told = story()
    told.calls[1] = sent_otherwise(told.calls[1], 0, **fields)

    assert "what is stored under its receipts is" in told.faults()
    assert "I7: batch b at 2 says what nobody sent" in told.faults()


def test_a_command_of_which_nobody_heard_and_that_is_stored_otherwise_is_noticed():
    told = story()
    unheard = told.admit(ship(3.0), batch="e")
    told.calls[-1] = replace(
        sent_otherwise(unheard, 0, tick=25), outcome="unknown", returned_ns=None, answer=None
    )

    assert "I7: batch e at 9 says what nobody sent" in told.faults()


def test_fewer_receipts_than_commands_are_noticed():
    told = story()
    told.admit(ship(3.0), ship(4.0), batch="e").answer["receipts"].pop()

    assert "what is stored under its receipts is" in told.faults()


def test_a_command_that_is_taken_before_it_is_due_is_noticed():
    told = Telling()
    told.admit(due(5), batch="b")
    (page,) = told.world.pages
    del told.world.paper.stored[page.key]
    told.world.paper.put(replace(page, name=replace(page.name, tick=0)))
    told.tick()

    assert "I2: sequence 1, due at tick 5, taken at 0" in told.faults()


def test_a_command_that_is_tried_again_before_its_time_is_noticed():
    told = Telling()
    told.admit(due(), batch="b")
    told.tick(fail={1: 2})
    (page,) = told.world.pages
    assert page.name.tick == 2
    del told.world.paper.stored[page.key]
    told.world.paper.put(replace(page, name=replace(page.name, tick=1)))
    told.tick()

    assert "I2: sequence 1, due at tick 2, taken at 1" in told.faults()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([due(0)], [due(0)]),
        ([due(0, 1), due(0, -1)], []),
        ([due(1), due(0)], []),
    ],
)
def test_a_command_that_overtakes_one_whose_turn_comes_first_is_noticed(first, second):
    told = Telling()
    told.admit(*first, batch="b")
    if second:
        told.admit(*second, batch="c")
    ahead = 2 - len(second)
    if first[0].tick:
        told.tick(leave=[1, 2])
    assert told.faults() == ""
    told.tick(leave=[ahead])

    assert f"overtook sequence {ahead}" in told.faults()


def test_a_command_that_came_while_a_tick_was_computed_may_be_left_to_the_next():
    told = Telling()
    told.admit(due(0, 1), batch="b")
    grip, drained = told.world.take(), told.world.drain()
    told.admit(due(0, -1), batch="c")
    told.world.paper.ask(told.world.publishing(drained, grip))

    assert told.faults() == ""


def test_one_batch_with_two_contents_is_noticed():
    told = story()
    told.calls.append(replace(told.calls[1], asked={**told.calls[1].asked, "content": "another"}))

    assert "I7: batch b was admitted with different contents" in told.faults()


def test_a_conflict_with_the_very_same_content_is_noticed():
    told = story()
    call = replace(told.calls[1], number=99, outcome="refused", code="conflict")
    told.calls.append(call)

    assert "it was admitted with that very content" in told.faults()


@pytest.mark.parametrize("outcome", ["undone", "refused"])
def test_an_admission_that_was_denied_and_happened_is_noticed(outcome):
    told = story()
    denied = told.admit(ship(3.0), batch="e")
    told.calls[-1] = replace(denied, outcome=outcome, code="contended", answer=None)

    assert f"batch e is admitted at 9, and was {outcome}" in told.faults()


@pytest.mark.parametrize("happened", [False, True])
def test_an_admission_of_which_nobody_heard_may_have_happened_or_not(happened):
    told = story()
    before = told.records
    unheard = told.admit(ship(3.0), batch="e")
    told.calls[-1] = replace(unheard, outcome="unknown", returned_ns=None, answer=None)

    assert told.faults(None if happened else before) == ""


def test_rows_that_no_published_tick_has_are_noticed():
    told = story()
    token = told.world.head.published
    rows = [[1, 1.0, "attempt-3"], [2, 2.0, "attempt-3"]]
    told.tell("rows", {"rows": rows}, tick=token)
    token_of_it = told.records.worlds[NAME].manifests[token].token
    told.calls[-1].answer["rows"] = [[entity, y, token_of_it] for entity, y, _ in rows]
    assert told.faults() == ""

    told.calls[-1].answer["rows"] = [[1, 1.0, "orphan"], [2, 2.0, "orphan"]]
    assert "I3: rows of another token" in told.faults()
    told.calls[-1].answer["rows"] = [[1, 1.0, token_of_it], [7, 2.0, token_of_it]]
    assert "I3: [(2, 2.0), (7, 2.0)] are on one side alone" in told.faults()


@pytest.mark.parametrize("prefix", ["log/", "manifest/", "key/batch/", "cancelled/"])
def test_a_record_that_is_gone_is_noticed(prefix):
    told = story()
    keys = [key for key in told.world.paper.stored if key.sort.startswith(prefix)]
    del told.world.paper.stored[keys[0]]

    assert told.faults() != ""
