"""`perdure session`: an agent on a local directory, driven by the very command that sends."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.sessions

APP = "tests.support.talking:app"


@pytest.fixture
def talk(perdure, root):
    """Run ``perdure session`` on a storage with one session, ``t``."""

    def run(*arguments, stdin=""):
        return perdure("session", *arguments, "--root", root, "--app", APP, stdin=stdin)

    made = run("create", "pilot", "--session-id", "t", "--json")
    assert (made.exit_code, made.json["seq"]) == (0, 1), made.err
    return run


def test_what_is_sent_is_answered_in_the_same_process(talk):
    sent = talk("send", "t", "hello")
    shown = talk("show", "t", "--json")
    listed = talk("list")

    assert sent.exit_code == 0, sent.err
    assert "You said hello." in sent.out
    assert "completed" in sent.out
    assert (shown.json["run_state"], shown.json["runs"]) == ("idle", 1)
    assert listed.out.splitlines()[1].split()[:2] == ["t", "pilot"]


def test_send_again_under_its_id_changes_nothing(talk):
    once = talk("send", "t", "-", "--send-id", "a", "--json", stdin="hello")
    again = talk("send", "t", "-", "--send-id", "a", "--json", stdin="hello")
    other = talk("send", "t", "goodbye", "--send-id", "a")

    assert (once.exit_code, once.json["state"]) == (0, "idle")
    assert once.json["runs"] == [{"run_id": "a", "reason": "completed", "code": None}]
    assert (again.json["state"], again.json["replayed"]) == ("finished", True)
    assert other.exit_code == 1
    assert other.err.startswith("perdure: send_id_reuse: ")


def test_call_that_needs_a_word_waits_for_it(talk):
    sent = talk("send", "t", "launch", "--json")
    (call,) = sent.json["waiting_calls"]
    approved = talk("approve", "t", call, "--json")
    run = talk("run", "t")
    denied = talk("deny", "t", call)

    assert sent.json["state"] == "paused"
    assert (approved.exit_code, approved.json["decision"]) == (0, "approved")
    assert '→ launch({"where": "north"})' in run.out
    assert '← completed: {"launched": "north"}' in run.out
    assert "the session is idle" in run.out
    assert (denied.exit_code, denied.err.split()[1]) == (1, "already_decided:")


def test_run_is_cancelled_and_a_send_taken_back(talk):
    talk("send", "t", "launch", "--send-id", "a", "--json")
    cancelled = talk("cancel", "t", "--now", "--json")
    queued = talk("send", "t", "more", "--send-id", "b", "--only", "--json")
    back = talk("retract", "t", "b", "--json")
    run = talk("run", "t", "--json")
    none = talk("cancel", "t")

    assert (cancelled.exit_code, cancelled.json["run_id"]) == (0, "a")
    assert (queued.json["state"], back.json["state"]) == ("pending", "retracted")
    assert run.json["runs"] == [{"run_id": "a", "reason": "cancelled", "code": None}]
    assert none.exit_code == 2


def test_transcript_is_read_a_page_at_a_time(talk):
    talk("send", "t", "look")
    page = talk("transcript", "t", "--limit", "2", "--json")
    rest = talk("transcript", "t", "--after", "2")
    other = talk("transcript", "t", "--lineage", "another")

    assert [each["seq"] for each in page.json["frames"]] == [1, 2]
    assert page.json["more"]
    assert "tool_dispatch_intent" in rest.out
    assert (other.exit_code, other.err.split()[1]) == (1, "lineage_changed:")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (("send", "nowhere", "x"), 1, "not_found"),
        (("send", "t", "x", "--delivery", "shout"), 1, "unknown_delivery"),
        (("create", "nobody"), 1, "unknown_agent"),
        (("show", "a/b"), 1, "invalid_id"),
        (("send", "t"), 2, None),
    ],
)
def test_refusals_have_their_code_and_exit_code(talk, arguments, exit_code, code):
    found = talk(*arguments)

    assert found.exit_code == exit_code
    assert code is None or found.err.startswith(f"perdure: {code}: ")


def test_what_was_only_sent_is_gone_on_with_later(talk):
    sent = talk("steer", "t", "hello", "--json")
    run = talk("run", "t")

    assert sent.json["state"] == "active"
    assert "You said hello." in run.out
