"""The routes of sessions: who may ask for what, what is answered, and what is refused unchanged."""

from __future__ import annotations

import pytest
from tests.api.session_rig import TALK

from perdure.kernel import limits
from perdure.kernel.errors import OutcomeUnknown

pytestmark = pytest.mark.sessions


def test_session_is_made_once_by_its_id(talk):
    again = talk.ann("POST", "/v1/sessions", {"agent": "pilot", "session_id": "talk"})

    assert (again.status, again.body["owner"], again.body["seq"]) == (201, "ann", 1)
    assert again.body["lineage"] == talk.ann("GET", TALK).body["lineage"]
    assert len(again.body["lineage"]) == 22


def test_what_is_sent_runs_and_can_be_read(talk):
    sent = talk.ann("POST", f"{TALK}/send", {"input": "hello"}, idempotency_key="s-1")
    nudged = list(talk.ports.nudged)
    talk.run()
    page = talk.ann("GET", f"{TALK}/transcript").body

    assert (sent.status, sent.body["state"], sent.body["send_id"]) == (202, "active", "s-1")
    assert nudged == ["talk"]
    assert [each["seq"] for each in page["frames"]] == list(range(1, page["seq"] + 1))
    types = [each["type"] for each in page["frames"]]
    assert types[:2] == ["journal_begun", "run_started"]
    assert types[-1] == "run_finished"
    assert page["frames"][1]["payload"]["input"] == "hello"
    assert not page["more"]


def test_send_that_is_asked_again_is_told_where_it_stands_by_now(talk):
    body = {"input": "hello", "send_id": "s-1"}
    talk.ann("POST", f"{TALK}/send", body)
    talk.run()
    seq = talk.seq

    again = talk.ann("POST", f"{TALK}/send", body)

    assert (again.body["state"], again.body["reason"]) == ("finished", "completed")
    assert again.body["replayed"]
    assert talk.seq == seq


def test_send_without_an_id_is_told_the_one_that_was_drawn(talk, monkeypatch):
    async def lost(*_):
        raise OutcomeUnknown(expected="an answer", found="none")

    known = talk.ann("POST", f"{TALK}/send", {"input": "hello"}).body["send_id"]
    monkeypatch.setattr(talk.store, "commit", lost)
    unknown = talk.ann("POST", f"{TALK}/send", {"input": "more", "delivery": "steer"})

    assert known
    assert (unknown.status, unknown.body["code"]) == (503, "outcome_unknown")
    assert unknown.body["send_id"] not in {None, known}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"input": "x", "delivery": "shout"}, 400, "unknown_delivery"),
        ({"input": "x", "send_id": "a/b"}, 400, "invalid_id"),
        ({"input": "x", "send_id": "first", "delivery": "steer"}, 409, "send_id_reuse"),
        ({"input": "other", "send_id": "first"}, 409, "send_id_reuse"),
        ({"input": "other", "send_id": "new", "run_id": "first"}, 409, "conflict"),
        ({"input": "x" * (limits.INPUT_BYTES_MAX + 1)}, 413, "too_large"),
        ({"input": "x", "overrides": {"model": "other"}}, 400, "unknown_field"),
        ({"input": "x", "overrides": {"max_steps": 0}}, 400, "out_of_range"),
        ({"input": "x", "overrides": {"system": 7}}, 400, "wrong_type"),
        ({"input": 7}, 400, "wrong_type"),
        ({}, 400, "missing_field"),
        ({"input": "x", "colour": "red"}, 400, "unknown_field"),
    ],
)
def test_what_cannot_be_sent_is_refused_and_writes_nothing(talk, body, status, code):
    talk.ann("POST", f"{TALK}/send", {"input": "first", "send_id": "first"})
    talk.run()
    before, objects = dict(talk.store._records), dict(talk.objects.held)

    refused = talk.ann("POST", f"{TALK}/send", body)

    assert (refused.status, refused.body["code"]) == (status, code)
    assert dict(talk.store._records) == before
    assert talk.objects.held == objects


def test_unknown_delivery_is_named(talk):
    refused = talk.ann("POST", f"{TALK}/send", {"input": "x", "delivery": "shout"})

    assert "delivery" in refused.body["expected"]
    assert "shout" in refused.body["found"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/send", {"input": "y" * 100_000}),
        ("POST", "/steer", {"input": "x"}),
        ("POST", "/cancel", {"run_id": "first"}),
        ("DELETE", "/sends/first", None),
    ],
)
def test_only_the_owner_sends_cancels_and_takes_back(talk, method, path, body):
    talk.ann("POST", f"{TALK}/send", {"input": "x", "send_id": "first"})
    before = dict(talk.store._records)

    refused = talk.as_("admin", "bob")(method, f"{TALK}{path}", body)

    assert (refused.status, refused.body["code"]) == (403, "not_owner")
    assert dict(talk.store._records) == before
    assert talk.objects.held == {}


@pytest.mark.parametrize(
    ("role", "method", "path", "body"),
    [
        ("viewer", "POST", "", {"agent": "pilot"}),
        ("viewer", "POST", "/nowhere/send", {"input": "x"}),
        ("viewer", "POST", "/nowhere/steer", {"input": "x"}),
        ("viewer", "POST", "/nowhere/cancel", {"run_id": "x"}),
        ("viewer", "DELETE", "/nowhere/sends/x", None),
        ("player", "POST", "/nowhere/approvals/x", {"decision": "approved"}),
    ],
)
def test_role_is_denied_before_anything_is_looked_up(talk, role, method, path, body):
    refused = talk.as_(role)(method, f"/v1/sessions{path}", body)

    assert (refused.status, refused.body["code"]) == (403, "not_permitted")


def test_viewer_reads_every_session_and_finds_those_of_an_owner(talk):
    talk.as_("player", "bob")("POST", "/v1/sessions", {"agent": "pilot", "session_id": "bobs"})
    viewer = talk.as_("viewer", "bob")

    everybody = viewer("GET", "/v1/sessions").body["sessions"]
    mine = viewer("GET", "/v1/sessions", query="mine=true").body["sessions"]

    assert [each["session_id"] for each in everybody] == ["bobs", "talk"]
    assert [each["session_id"] for each in mine] == ["bobs"]
    assert viewer("GET", f"{TALK}/transcript").status == 200


def test_sessions_are_listed_a_page_at_a_time(talk):
    for number in range(3):
        talk.ann("POST", "/v1/sessions", {"agent": "pilot", "session_id": f"s-{number}"})
    found, following = [], ""
    while True:
        page = talk.ann("GET", "/v1/sessions", query=f"limit=2{following}").body
        found += [each["session_id"] for each in page["sessions"]]
        if page.get("next") is None:
            break
        following = f"&next={page['next']}"

    assert found == ["s-0", "s-1", "s-2", "talk"]


def test_agent_that_the_application_lacks_is_refused(talk):
    refused = talk.ann("POST", "/v1/sessions", {"agent": "nobody", "session_id": "other"})

    assert (refused.status, refused.body["code"]) == (400, "unknown_agent")
    assert talk.ann("GET", "/v1/sessions/other").status == 404


def test_session_of_another_identity_is_a_conflict(talk):
    refused = talk.ann(
        "POST", "/v1/sessions", {"agent": "pilot", "session_id": "talk", "evidence": True}
    )

    assert (refused.status, refused.body["code"]) == (409, "conflict")


def test_call_waits_for_the_word_of_an_operator(asking):
    info = asking.ann("GET", TALK).body
    (waiting,) = info["waiting_calls"]
    path = f"{TALK}/approvals/{waiting['call_key']}"

    paused = asking.ann("POST", f"{TALK}/send", {"input": "and?"})
    said = asking.as_("operator", "olga")("POST", path, {"decision": "denied", "detail": "Storm."})
    asking.run()
    changed = asking.as_("operator", "olga")("POST", path, {"decision": "approved"})

    assert (info["run_state"], waiting["tool"]) == ("paused", "launch")
    assert (paused.status, paused.body["code"]) == (409, "run_paused")
    assert (said.body["state"], said.body["waiting"]) == ("decided", 0)
    assert (changed.status, changed.body["code"]) == (409, "already_decided")
    page = asking.ann("GET", f"{TALK}/transcript").body["frames"]
    (resolved,) = [each for each in page if each["type"] == "approval_resolved"]
    assert resolved["payload"]["actor"] == "olga"
    assert [each["type"] for each in page].count("tool_dispatch_intent") == 0


def test_run_is_cancelled_and_what_waits_is_taken_back(asking):
    queued = asking.ann("GET", TALK).body["queued"]
    cancelled = asking.ann("POST", f"{TALK}/cancel", {"run_id": "first", "at": "now"})
    waiting = asking.ann("POST", f"{TALK}/send", {"input": "next", "send_id": "second"})
    back = asking.ann("DELETE", f"{TALK}/sends/second")
    again = asking.ann("DELETE", f"{TALK}/sends/second")
    asking.run()
    ended = asking.ann("POST", f"{TALK}/cancel", {"run_id": "first"})
    gone = asking.ann("DELETE", f"{TALK}/sends/first")

    assert queued == 0
    assert (cancelled.status, cancelled.body["state"]) == (202, "active")
    assert (waiting.body["state"], waiting.body["submission_id"]) == ("pending", "second")
    assert (back.body["state"], again.body["state"]) == ("retracted", "retracted")
    assert (ended.body["state"], ended.body["reason"]) == ("finished", "cancelled")
    assert gone.status == 404


def test_what_steers_an_idle_session_begins_a_run(talk):
    sent = talk.ann("POST", f"{TALK}/steer", {"input": "north"}, idempotency_key="s")

    assert (sent.status, sent.body["state"], sent.body["run_id"]) == (202, "active", "s")


def test_queue_that_is_full_asks_to_come_again(talk):
    for number in range(limits.QUEUED_SENDS_MAX + 1):
        talk.ann("POST", f"{TALK}/send", {"input": "x", "send_id": f"s-{number}"})
    seq = talk.seq

    refused = talk.ann("POST", f"{TALK}/send", {"input": "x"})

    assert (refused.status, refused.body["code"]) == (429, "queue_full")
    assert refused.headers["retry-after"] == "1"
    assert talk.seq == seq


def test_session_that_is_full_is_refused(talk):
    ceiling = 2 * limits.CLOSE_OUT_BYTES
    body = {"agent": "pilot", "session_id": "small", "ceiling_bytes": ceiling}
    talk.ann("POST", "/v1/sessions", body)

    refused = talk.ann("POST", "/v1/sessions/small/send", {"input": "x" * ceiling})

    assert (refused.status, refused.body["code"]) == (413, "session_too_large")
    assert talk.ann("GET", "/v1/sessions/small").body["seq"] == 1
