"""Sessions over HTTP as a black box: a run with an approval, its events, who may do what, a restart."""

from __future__ import annotations

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count

import httpx
import pytest
from tests.emulator.deployment import bearer, deployed
from tests.emulator.pilots import DIARY

pytestmark = [pytest.mark.cloud, pytest.mark.sessions]

PILOTS = ("--app", "tests.emulator.pilots:app")
STREAM = {"Accept": "text/event-stream"}
SECONDS = 120

_NAMES = count(1)

RUN_WITH_APPROVAL = [
    "journal_begun",
    "run_started",
    "step_started",
    "model_attempt_finished",
    "model_step_finished",
    "approval_requested",
    "approval_resolved",
    "resume_started",
    "tool_batch_started",
    "tool_dispatch_intent",
    "tool_result",
    "tool_batch_finished",
    "turn_finished",
    "step_started",
    "model_attempt_finished",
    "model_step_finished",
    "turn_finished",
    "run_finished",
]


@pytest.fixture(scope="module")
def pilots(tmp_path_factory):
    """One emulator for all tests that leave it running."""
    place = tmp_path_factory.mktemp("pilots")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DIARY, str(place / "diary"))
        with deployed(place / "root", *PILOTS, log=place / "log") as running:
            yield running


@pytest.fixture
def talk(pilots):
    """The path of a new session of ann's, with an agent that asks for leave."""
    return begun(pilots, "asks")


def begun(running, agent):
    name = f"talk-{next(_NAMES)}"
    told = {"agent": agent, "session_id": name}
    made = running.http.post("/v1/sessions", json=told, headers=bearer(running.root, "player"))
    assert made.status_code == 201, made.text
    return f"/v1/sessions/{name}"


def send(running, talk, text="go", **more):
    said = {"input": text, **more}
    return running.http.post(f"{talk}/send", json=said, headers=bearer(running.root, "player"))


def awaited(running, talk, state):
    """Return a session once its run is in a state."""
    until = time.monotonic() + SECONDS
    while (found := running.http.get(talk).json())["run_state"] != state:
        assert time.monotonic() < until, found
        time.sleep(0.05)
    return found


@contextmanager
def following(running, talk, **headers):
    """Yield the events of a session as they come."""
    asked = {**STREAM, **headers}
    with running.http.stream("GET", f"{talk}/events", headers=asked) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"] == "text/event-stream"
        yield events(reply.iter_lines())


def events(lines):
    said = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name:
            said[name] = value
        elif "data" in said:
            yield said["event"], said["id"], json.loads(said["data"])
            said = {}


def until_finished(found):
    """Take events up to the end of a run."""
    taken = []
    for each in found:
        taken.append(each)
        if each[0] == "run_finished":
            return taken
    raise AssertionError(f"the stream has ended: {taken}")


def allow(running, talk, state="paused"):
    (waiting,) = awaited(running, talk, state)["waiting_calls"]
    path = f"{talk}/approvals/{waiting['call_key']}"
    return running.http.post(path, json={"decision": "approved"})


# ------------------------------------------------------------------ a run, and who follows it


def test_a_stream_shows_every_fact_of_a_run_in_its_order_up_to_the_end(pilots, talk):
    with following(pilots, talk) as found:
        sent = send(pilots, talk, send_id="first")
        assert (sent.status_code, sent.json()["state"]) == (202, "active")
        assert allow(pilots, talk).json()["decision"] == "approved"
        taken = until_finished(found)

    assert [kind for kind, _, _ in taken] == RUN_WITH_APPROVAL
    assert [frame["seq"] for _, _, frame in taken] == list(range(1, len(taken) + 1))
    assert taken[-1][2]["payload"]["reason"] == "completed"
    assert awaited(pilots, talk, "idle")["seq"] == len(taken)
    again = send(pilots, talk, send_id="first").json()
    assert (again["state"], again["replayed"]) == ("finished", True)


def test_a_stream_goes_on_behind_the_event_that_a_client_had_last(pilots, talk):
    with following(pilots, talk) as found:
        send(pilots, talk)
        taken = [next(found) for _ in range(3)]

    with following(pilots, talk, **{"Last-Event-ID": taken[-1][1]}) as found:
        _, _, frame = next(found)

    assert frame["seq"] == 4


def test_who_asks_for_no_stream_gets_what_there_is_and_an_end(pilots, talk):
    reply = pilots.http.get(f"{talk}/events")

    assert [kind for kind, _, _ in events(reply.text.splitlines())] == ["journal_begun"]


def test_others_are_answered_while_many_follow_and_a_run_goes_on(pilots):
    drifting, adrift = begun(pilots, "drifts"), pilots.root.parent / "diary.adrift"
    adrift.touch()

    with ThreadPoolExecutor(12) as pool:
        follow = [pool.submit(lambda: _whole(pilots, drifting)) for _ in range(12)]
        try:
            send(pilots, drifting)
            other = begun(pilots, "asks")
            send(pilots, other)
            allow(pilots, other)
            awaited(pilots, other, "idle")
            assert pilots.http.get(drifting).json()["run_state"] == "active"
        finally:
            adrift.unlink()
        taken = [each.result(SECONDS) for each in follow]

    assert all(each == taken[0] for each in taken)
    assert awaited(pilots, drifting, "idle")["seq"] == len(taken[0])


def _whole(running, talk):
    with following(running, talk) as found:
        return [frame["seq"] for _, _, frame in until_finished(found)]


# ------------------------------------------------------------------ who may do what


def test_a_viewer_reads_and_sends_nothing(pilots, talk):
    viewer = bearer(pilots.root, "viewer")

    sent = pilots.http.post(f"{talk}/send", json={"input": "go"}, headers=viewer)

    assert (sent.status_code, sent.json()["code"]) == (403, "not_permitted")
    assert pilots.http.get(f"{talk}/transcript", headers=viewer).json()["seq"] == 1
    nobody = httpx.get(pilots.http.base_url.join(talk), trust_env=False)
    assert nobody.status_code == 401


def test_another_player_is_not_its_owner_and_no_player_decides(pilots, talk):
    bob, ann = bearer(pilots.root, "player", "bob"), bearer(pilots.root, "player")
    send(pilots, talk)
    (waiting,) = awaited(pilots, talk, "paused")["waiting_calls"]
    decision = (f"{talk}/approvals/{waiting['call_key']}", {"decision": "approved"})

    sent = pilots.http.post(f"{talk}/send", json={"input": "go"}, headers=bob)
    cancelled = pilots.http.post(f"{talk}/cancel", json={"run_id": "x"}, headers=bob)
    decided = pilots.http.post(decision[0], json=decision[1], headers=ann)

    assert (sent.status_code, sent.json()["code"]) == (403, "not_owner")
    assert (cancelled.status_code, cancelled.json()["code"]) == (403, "not_owner")
    assert (decided.status_code, decided.json()["code"]) == (403, "not_permitted")
    assert awaited(pilots, talk, "paused")["seq"] == 6


# ------------------------------------------------------------------ an emulator that stops


def test_a_session_survives_a_restart_and_its_followers_do_not_keep_the_emulator(
    tmp_path, monkeypatch
):
    monkeypatch.setenv(DIARY, str(tmp_path / "diary"))
    with deployed(tmp_path / "root", *PILOTS, log=tmp_path / "log") as running:
        talk = begun(running, "asks")
        send(running, talk, send_id="first")
        awaited(running, talk, "paused")
        with following(running, talk) as found:
            before = [next(found) for _ in range(6)]
            exit_code, _, _ = running.stop(signal.SIGTERM)
            assert list(found) == []
    said = (tmp_path / "log").read_text()

    with deployed(tmp_path / "root", *PILOTS, log=tmp_path / "log") as running:
        with following(running, talk, **{"Last-Event-ID": before[-1][1]}) as found:
            assert allow(running, talk).status_code == 200
            after = until_finished(found)
        running.stop(signal.SIGTERM)

    assert exit_code == 0
    assert "graceful shutdown exceeded" not in said
    assert [kind for kind, _, _ in [*before, *after]] == RUN_WITH_APPROVAL
    assert (tmp_path / "diary").read_text().split()[1:] == ["launch", "dawn"]
