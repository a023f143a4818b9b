"""Reading sessions over HTTP: transcripts a page at a time, and events behind the last one seen."""

from __future__ import annotations

import base64
import json

import pytest
from tests.api.session_rig import REF, TALK

from perdure.api.gateway import Answer
from perdure.kernel.errors import TooLarge

pytestmark = pytest.mark.sessions


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
