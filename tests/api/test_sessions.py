"""The routes of sessions: who may ask for what, what is answered, and what is refused unchanged."""

from __future__ import annotations

import base64
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from tests.api.rig import Caller, bearer
from tests.support.sessions import (
    STORAGE,
    HeldSessions,
    MemoryObjects,
    answering,
    asking_first,
    counting,
    head_in,
    sessions_on,
    within,
)

from perdure.api import faces
from perdure.api.gateway import Answer
from perdure.api.sandbox import Sandbox
from perdure.authority.memory import MemoryStore
from perdure.kernel import limits
from perdure.kernel.errors import OutcomeUnknown, TooLarge
from perdure.kernel.ids import SessionId
from perdure.kernel.session.records import SessionRef

pytestmark = pytest.mark.sessions

REF = SessionRef(STORAGE, SessionId("talk"))
TALK = "/v1/sessions/talk"


@dataclass
class Talk:
    """A session behind the routes, and everything beneath it."""

    ports: HeldSessions
    store: MemoryStore
    objects: MemoryObjects
    sandbox: Sandbox
    ann: Caller

    def as_(self, role, actor="ann"):
        return replace(self.ann, authorizer=bearer(role, actor))

    @property
    def seq(self):
        return head_in(self.store, REF.partition).seq

    def run(self):
        """Go on with the session, as its function does."""
        sessions = self.ports.sessions
        driving = sessions.drive("talk", deadline=within(sessions))
        return self.sandbox._loop().run(driving)


def talking(script=answering, **more):
    store, objects = MemoryStore(), MemoryObjects()
    sessions = sessions_on(store, script=script, objects=objects, **more)
    ports = HeldSessions(sessions)

    @asynccontextmanager
    async def opening():
        yield ports

    sandbox = Sandbox(opening, faces.SESSIONS)
    ann = Caller(sandbox, authorizer=bearer("player"))
    made = ann("POST", "/v1/sessions", {"agent": "pilot", "session_id": "talk"})
    assert made.status == 201, made
    return Talk(ports, store, objects, sandbox, ann)


@pytest.fixture
def talk():
    made = talking()
    yield made
    made.sandbox.close()


@pytest.fixture
def asking():
    """A session whose run waits for a word on a call."""
    made = talking(asking_first, tools=[counting("launch", needs_approval=True)])
    made.ann("POST", f"{TALK}/send", {"input": "go", "send_id": "first"})
    made.run()
    yield made
    made.sandbox.close()


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


def test_transcript_of_another_lineage_is_refused(talk):
    own = talk.ann("GET", TALK).body["lineage"]

    good = talk.ann("GET", f"{TALK}/transcript", query=f"lineage={own}")
    refused = talk.ann("GET", f"{TALK}/transcript", query="lineage=another")

    assert good.status == 200
    assert (refused.status, refused.body["code"]) == (409, "lineage_changed")


def test_payload_that_is_gone_is_told_as_what_it_is(talk):
    talk.ann("POST", f"{TALK}/send", {"input": "x" * 100_000})
    talk.objects.held.clear()

    refused = talk.ann("GET", f"{TALK}/transcript")
    before = talk.ann("GET", f"{TALK}/transcript", query="limit=1")

    assert (refused.status, refused.body["code"]) == (500, "payload_missing")
    assert before.status == 200


def test_byte_that_has_flipped_is_found(talk):
    talk.ann("POST", f"{TALK}/send", {"input": "hello"})
    (key,) = [
        key
        for key in talk.store._records
        if key.partition == REF.partition and key.sort == "log/0000000000000000002"
    ]
    stored = talk.store._records[key]
    plain = bytes(stored.body).replace(b"hello", b"hullo")
    assert plain != stored.body, "a short record is stored as it is"
    talk.store._records[key] = stored._replace(body=plain)

    refused = talk.ann("GET", f"{TALK}/transcript")

    assert (refused.status, refused.body["code"]) == (500, "corrupt")


def test_events_go_on_behind_the_last_one_that_was_seen(talk):
    talk.ann("POST", f"{TALK}/send", {"input": "hello"})
    lineage = talk.ann("GET", TALK).body["lineage"]

    whole = text(talk.ann("GET", f"{TALK}/events"))
    rest = text(talk.ann("GET", f"{TALK}/events", query="after=0", last_event_id=f"{lineage}:1"))
    other = talk.ann("GET", f"{TALK}/events", last_event_id=f"{'x' * 22}:1")
    broken = talk.ann("GET", f"{TALK}/events", last_event_id="1")

    assert whole.startswith("retry: 1000\n\n")
    assert events(whole) == [(f"{lineage}:1", "journal_begun"), (f"{lineage}:2", "run_started")]
    assert events(rest) == [(f"{lineage}:2", "run_started")]
    assert (other.status, other.body["code"]) == (409, "lineage_changed")
    assert broken.body["code"] == "invalid_value"


def test_who_waits_for_events_is_answered_when_there_is_one(talk):
    quiet = text(talk.ann("GET", f"{TALK}/events", query="after=1&wait=0.5"))

    assert events(quiet) == []
    assert ": nothing yet" in quiet
    assert talk.ports.pauses == [0.25, 0.25]


def test_frame_larger_than_a_page_comes_alone_and_whole(talk):
    large = "x" * 300_000
    talk.ann("POST", f"{TALK}/send", {"input": large})

    first = talk.ann("GET", f"{TALK}/transcript", query="bytes=1000").body
    second = talk.ann("GET", f"{TALK}/transcript", query=f"bytes=1000&after={first['next']}").body

    assert [each["seq"] for each in first["frames"]] == [1]
    assert first["more"]
    assert [each["payload"]["input"] for each in second["frames"]] == [large]


def test_text_full_of_quotes_is_sent_in_a_spelling_that_fits():
    quotes = json.dumps({"text": '"' * 2_000_000}).encode()

    reply = Answer(200, quotes).event()

    assert reply["isBase64Encoded"]
    assert base64.b64decode(reply["body"]) == quotes
    with pytest.raises(TooLarge):
        Answer(200, quotes * 2).event()


def text(reply):
    assert reply.status == 200, reply.body
    assert reply.headers["content-type"] == "text/event-stream"
    return reply.body


def events(told):
    parts = [
        dict(line.split(": ", 1) for line in each.splitlines())
        for each in told.split("\n\n")
        if each
    ]
    return [(each["id"], each["event"]) for each in parts if "data" in each]
