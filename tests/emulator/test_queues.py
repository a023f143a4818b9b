"""The emulator's queues do what SQS does: order, time-outs, redelivery, dead letters."""

from __future__ import annotations

import pytest
from tests.emulator.serving import DEAD, MAIL, MAIL_DEAD, TICKS, Time, new_queues

from perdure_emulator.declared import Queue
from perdure_emulator.queue_errors import QueueError
from perdure_emulator.queues import BODY_BYTES_MAX, Sent

pytestmark = pytest.mark.cloud


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def queues(time):
    return new_queues(time)[0]


def send(queues, body, *, group="a", id=None, queue=TICKS):
    return queues.send(queue.name, Sent(body=body, group=group, deduplication_id=id or body))


def mail(queues, body, **given):
    return queues.send(MAIL.name, Sent(body=body, **given))


def received(queues, most=10, queue=TICKS, **given):
    return queues.receive(queue.name, most=most, **given)


def bodies(queues, queue=TICKS, most=10):
    return [each.message.body for each in received(queues, most, queue)]


def test_messages_of_a_group_come_in_the_order_they_were_sent(queues):
    for body in ("1", "2", "3"):
        send(queues, body)

    assert bodies(queues) == ["1", "2", "3"]


def test_group_of_which_a_message_is_in_flight_waits_and_others_do_not(queues):
    send(queues, "a1")
    (first,) = received(queues)
    send(queues, "a2")
    send(queues, "b1", group="b")

    assert bodies(queues) == ["b1"]

    queues.delete(TICKS.name, first.handle)

    assert bodies(queues) == ["a2"]


def test_message_that_nobody_deletes_comes_again_before_those_behind_it(queues, time):
    send(queues, "1")
    received(queues)
    send(queues, "2")

    time.pass_seconds(59)
    assert bodies(queues) == []
    time.pass_seconds(1)
    assert bodies(queues) == ["1", "2"]


def test_count_of_receptions_is_told_with_the_message(queues, time):
    mail(queues, "letter")
    first_at = time.ms
    received(queues, queue=MAIL)
    time.pass_seconds(60)

    (again,) = received(queues, queue=MAIL)

    told = again.message.described()
    assert told["ApproximateReceiveCount"] == "2"
    assert told["ApproximateFirstReceiveTimestamp"] == str(first_at)


def test_visibility_can_be_shortened_lengthened_and_given_up(queues, time):
    send(queues, "1")
    (one,) = received(queues)

    queues.change_visibility(TICKS.name, one.handle, 120)
    time.pass_seconds(119)
    assert bodies(queues) == []
    time.pass_seconds(1)
    (again,) = received(queues)
    queues.change_visibility(TICKS.name, again.handle, 0)
    assert bodies(queues) == ["1"]


@pytest.mark.parametrize(("queue", "dead", "most"), [(TICKS, DEAD, 3), (MAIL, MAIL_DEAD, 2)])
def test_message_that_is_received_too_often_becomes_a_dead_letter(time, queue, dead, most):
    queues, died = new_queues(time)
    group = "a" if queue.is_fifo else None
    queues.send(queue.name, Sent(body="poison", group=group, deduplication_id=group))
    for _ in range(most):
        assert bodies(queues, queue) == ["poison"]
        time.pass_seconds(60)

    assert bodies(queues, queue) == []

    assert died == ["poison"]
    (found,) = received(queues, queue=dead)
    assert found.message.described()["DeadLetterQueueSourceArn"].endswith(queue.name)


def test_dead_letters_of_a_group_keep_their_order_and_let_those_behind_them_through(queues, time):
    send(queues, "1")
    send(queues, "2")
    for _ in range(3):
        assert bodies(queues) == ["1", "2"]
        time.pass_seconds(60)
    send(queues, "3")

    assert bodies(queues) == ["3"]
    assert bodies(queues, DEAD) == ["1", "2"]


def test_message_that_is_sent_again_within_five_minutes_is_the_same(queues, time):
    first = send(queues, "1", id="x")
    (one,) = received(queues)
    queues.delete(TICKS.name, one.handle)
    time.pass_seconds(299)

    repeated = send(queues, "1", id="x")

    assert (repeated.id, repeated.sequence) == (first.id, first.sequence)
    assert bodies(queues) == []
    time.pass_seconds(1)
    assert send(queues, "1", id="x").id != first.id
    assert bodies(queues) == ["1"]


def test_repetition_counts_in_the_whole_queue_or_in_a_group_as_declared(time):
    declared = Queue(logical="Q", name="q.fifo", is_fifo=True, deduplicates_in_group=True)
    for queue, found in ((TICKS, ["1"]), (declared, ["1", "1"])):
        queues, _ = new_queues(time, TICKS, DEAD, declared)
        send(queues, "1", group="a", id="x", queue=queue)
        send(queues, "1", group="b", id="x", queue=queue)

        assert bodies(queues, queue) == found


def test_equal_bodies_are_one_message_where_the_content_decides(time):
    declared = Queue(logical="Q", name="q.fifo", is_fifo=True, by_content=True)
    queues, _ = new_queues(time, declared)

    for body in ("same", "same", "other"):
        queues.send("q.fifo", Sent(body=body, group="a"))

    assert bodies(queues, declared) == ["same", "other"]


def test_messages_wait_as_long_as_the_queue_or_the_sender_says(time):
    declared = Queue(logical="Q", name="q", delay_seconds=10)
    queues, _ = new_queues(time, declared)
    queues.send("q", Sent(body="late"))
    queues.send("q", Sent(body="now", delay_seconds=0))

    assert bodies(queues, declared) == ["now"]
    assert queues.counts("q") == (0, 1, 1)
    time.pass_seconds(10)
    assert bodies(queues, declared) == ["late"]


def test_message_is_kept_four_days(queues, time):
    mail(queues, "old")
    time.pass_seconds(4 * 86_400 - 1)
    assert queues.counts(MAIL.name) == (1, 0, 0)
    time.pass_seconds(1)
    assert queues.counts(MAIL.name) == (0, 0, 0)
    assert bodies(queues, MAIL) == []


def test_delete_with_a_handle_of_before_is_refused_in_a_fifo_queue_only(queues, time):
    send(queues, "1")
    mail(queues, "letter")
    (tick,), (letter,) = received(queues), received(queues, queue=MAIL)
    time.pass_seconds(60)

    with pytest.raises(QueueError, match="has expired"):
        queues.delete(TICKS.name, tick.handle)
    queues.delete(MAIL.name, letter.handle)

    assert bodies(queues) == ["1"]
    assert bodies(queues, MAIL) == []


def test_delete_twice_is_no_error(queues):
    mail(queues, "letter")
    (one,) = received(queues, queue=MAIL)

    queues.delete(MAIL.name, one.handle)
    queues.delete(MAIL.name, one.handle)

    assert queues.counts(MAIL.name) == (0, 0, 0)


def test_visibility_of_a_message_that_nobody_has_is_not_changed(queues, time):
    mail(queues, "letter")
    (one,) = received(queues, queue=MAIL)
    time.pass_seconds(60)

    with pytest.raises(QueueError) as refused:
        queues.change_visibility(MAIL.name, one.handle, 10)

    assert refused.value.kind == "MessageNotInflight"
    assert bodies(queues, MAIL) == ["letter"]


LARGE = "x" * (BODY_BYTES_MAX + 1)


@pytest.mark.parametrize(
    ("queue", "sent", "kind"),
    [
        (TICKS, Sent(body="1", deduplication_id="x"), "MissingParameter"),
        (TICKS, Sent(body="1", group="a"), "InvalidParameterValue"),
        (TICKS, Sent(body="", group="a", deduplication_id="x"), "MissingParameter"),
        (TICKS, Sent(body="1", group="a b", deduplication_id="x"), "InvalidParameterValue"),
        (TICKS, Sent(body="1", group="a", deduplication_id="x" * 129), "InvalidParameterValue"),
        (
            TICKS,
            Sent(body="1", group="a", deduplication_id="x", delay_seconds=1),
            "InvalidParameterValue",
        ),
        (MAIL, Sent(body="1", deduplication_id="x"), "InvalidParameterValue"),
        (MAIL, Sent(body="1", delay_seconds=901), "InvalidParameterValue"),
        (MAIL, Sent(body=LARGE), "InvalidParameterValue"),
        (MAIL, Sent(body="\x00"), "InvalidMessageContents"),
        (MAIL, Sent(body="\ud800"), "InvalidMessageContents"),
    ],
)
def test_message_that_sqs_does_not_take_is_refused_and_not_kept(queues, queue, sent, kind):
    with pytest.raises(QueueError) as refused:
        queues.send(queue.name, sent)

    assert refused.value.kind == kind
    assert queues.counts(queue.name) == (0, 0, 0)


def test_largest_message_is_taken(queues):
    mail(queues, LARGE[1:])

    assert len(bodies(queues, MAIL)[0]) == BODY_BYTES_MAX


@pytest.mark.parametrize("handle", ["", "x", "mail/x/1", "ticks.fifo/{}/1"])
def test_handle_of_nothing_is_refused(queues, handle):
    message = mail(queues, "letter")

    with pytest.raises(QueueError) as refused:
        queues.delete(MAIL.name, handle.format(message.id))

    assert refused.value.kind == "ReceiptHandleIsInvalid"


@pytest.mark.parametrize("seconds", [-1, 43_201])
def test_visibility_that_is_none_is_refused_and_hides_nothing(queues, seconds):
    mail(queues, "letter")

    with pytest.raises(QueueError, match="VisibilityTimeout"):
        received(queues, queue=MAIL, visibility_seconds=seconds)

    assert bodies(queues, MAIL) == ["letter"]
