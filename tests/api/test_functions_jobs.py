"""The function `jobs`: what is started is a message, what a message names is gone on with."""

from __future__ import annotations

import json
import os
import time

import pytest
from tests.api.rig import SCHEDULED, Context
from tests.api.test_functions import Functions
from tests.support.chores import DIARY
from tests.support.queue import PaperQueue, record

from perdure.api import wiring_queue
from perdure.kernel.errors import StoreUnavailable

pytestmark = pytest.mark.stores

NAME = "Jobs.fifo"
ARN = f"arn:aws:sqs:eu-central-1:123456789012:{NAME}"
JOBS = "/v1/stores/boats/jobs"
MINUTE_MS = 60_000

KEPT_MS = 8_000
"""Of an invocation's time, for the orderly end of a job."""

ROWED = 36
STOPS = 10


@pytest.fixture
def chores(monkeypatch, tmp_path):
    """Functions with a queue of jobs, and a document store ``boats``."""
    for name in [name for name in os.environ if name.startswith(("PERDURE_", "AWS_"))]:
        monkeypatch.delenv(name)
    (tmp_path / "default").mkdir()
    monkeypatch.setenv("PERDURE_APP", "tests.support.chores:app")
    monkeypatch.setenv("PERDURE_STORAGE", tmp_path.as_uri())
    monkeypatch.setenv(DIARY, str(tmp_path / "diary"))
    functions = Functions(PaperQueue(NAME))
    monkeypatch.setattr(wiring_queue, "opened", lambda _: PaperQueue())
    monkeypatch.setattr(wiring_queue, "opened_for_jobs", lambda _: functions.queue)
    functions.http("api", "POST", "/v1/stores", {"store_id": "boats"})
    yield functions
    functions.close()


def start(functions, job="j-1", *, name="row", args=None, **more):
    body = {"name": name, "args": args or {"strokes": 2}, "job_id": job, **more}
    return functions.http("jobs", "POST", JOBS, body)


def handed_out(functions, *, remaining_ms=MINUTE_MS, **more):
    """Hand out what was sent, and return which messages are to come again."""
    taken, functions.queue.sent = functions.queue.sent, []
    records = [record(each.body, group=each.group, arn=ARN, **more) for each in taken]
    context = Context(remaining_ms=remaining_ms)
    return functions.module("jobs").handler({"Records": records}, context)["batchItemFailures"]


def told(functions, job="j-1", name="row"):
    return functions.http("jobs", "GET", f"{JOBS}/{name}/{job}")


def rowed(job):
    return 0 if job["state"] is None else job["state"]["strokes"]


def looked(functions):
    return functions.module("dispatch").handler(SCHEDULED, Context(remaining_ms=MINUTE_MS))


def diary(tmp_path):
    return [line.split()[1:] for line in (tmp_path / "diary").read_text().splitlines()]


def test_what_is_started_becomes_a_message_by_which_it_is_done(chores, tmp_path):
    started = start(chores)
    (message,) = chores.queue.sent
    failed = handed_out(chores)
    again = start(chores)

    body = {"job": "j-1", "name": "row", "owner": "chores", "store": "boats"}
    assert json.loads(message.body) == body
    assert message.group.startswith("d/")
    assert (started["phase"], started["replayed"], failed) == ("pending", False, [])
    assert (again["phase"], again["replayed"]) == ("ended", True)
    assert again["outcome"] == {"kind": "done", "result": {"strokes": 2}}
    assert chores.queue.sent == []
    assert diary(tmp_path)[-1] == ["finish", "j-1", "done"]


def test_message_that_was_lost_is_made_good_by_the_next_dispatch(chores):
    chores.queue.failure = StoreUnavailable(expected="a queue", found="none")
    start(chores)
    chores.queue.failure = None

    found = looked(chores)
    failed = handed_out(chores)
    later = looked(chores)

    assert (found["jobs"], later["jobs"], found["failed"]) == (1, 0, [])
    assert failed == []
    assert told(chores)["phase"] == "ended"


def test_an_orderly_end_of_an_invocation_is_no_restart_however_often(chores, tmp_path):
    start(chores, args={"strokes": ROWED, "seconds": 0.02})

    stops, job_ms, found = [], 50, told(chores)
    while found["phase"] != "ended":
        assert handed_out(chores, remaining_ms=KEPT_MS + job_ms) == []
        before, found = rowed(found), told(chores)
        if rowed(found) > before:
            stops.append(found)
        # As long as this machine, busy as it is, needs for a stroke or a few.
        job_ms = 2 * job_ms if rowed(found) == before else job_ms
        job_ms = max(50, job_ms // 2) if rowed(found) > before + 3 else job_ms

    assert len(stops) > STOPS
    assert {each["phase"] for each in stops[:-1]} == {"stopped"}
    assert {each["restarts"] for each in stops} == {0}
    assert [each["held_until"] for each in stops] == [None] * len(stops)
    strokes = [int(said[2]) for said in diary(tmp_path) if said[0] == "stroke"]
    assert strokes == list(range(1, ROWED + 1))
    assert {said[2] for said in diary(tmp_path) if said[0] == "begin"} == {"0"}


def test_an_invocation_without_time_for_an_orderly_end_begins_nothing(chores, tmp_path):
    start(chores)

    failed = handed_out(chores, remaining_ms=7_000)

    assert failed == []
    assert [json.loads(each.body)["job"] for each in chores.queue.sent] == ["j-1"]
    assert told(chores)["phase"] == "pending"
    assert not (tmp_path / "diary").exists()


def test_job_that_is_due_later_waits_for_it(chores):
    due_at = time.time_ns() // 1_000_000 + 3_600_000
    started = start(chores, due_at=due_at)
    sent = list(chores.queue.sent)
    found = looked(chores)

    assert started["due_at"] == due_at
    assert (sent, found["jobs"], chores.queue.sent) == ([], 0, [])
    assert told(chores)["phase"] == "pending"


def test_job_that_is_due_soon_comes_again_by_its_own_message(chores):
    start(chores, due_at=time.time_ns() // 1_000_000 + 5_000)

    failed = handed_out(chores)

    (put_back,) = failed
    (ms,) = chores.queue.put_back().values()
    assert put_back["itemIdentifier"]
    assert 0 < ms <= 5_000


def test_jobs_of_one_store_do_not_wait_for_each_other(chores):
    start(chores, "a")
    start(chores, "b")

    groups = {each.group for each in chores.queue.sent}

    assert len(groups) == 2


def test_message_that_makes_no_sense_comes_again_and_is_not_served(chores):
    job = {"store": "boats", "owner": "chores", "name": "row", "job": "j-1"}
    bodies = ["{", '{"session":"t"}', json.dumps({**job, "hint": "0001/x/y"})]
    bodies.append(json.dumps({**job, "name": "nobody"}))
    bodies.append(json.dumps({**job, "owner": "another"}))
    records = [record(body, group=f"d/{body}", arn=ARN) for body in bodies]

    reply = chores.module("jobs").handler({"Records": records}, Context(remaining_ms=MINUTE_MS))

    assert len(reply["batchItemFailures"]) == len(bodies)


@pytest.mark.parametrize("store", ["boats", "nowhere"])
def test_message_for_a_job_that_is_gone_is_done_with(chores, store):
    body = json.dumps({"store": store, "owner": "chores", "name": "row", "job": "gone"})

    reply = chores.module("jobs").handler(
        {"Records": [record(body, arn=ARN)]}, Context(remaining_ms=MINUTE_MS)
    )

    assert reply["batchItemFailures"] == []


def test_aborted_job_ends_as_aborted(chores, tmp_path):
    start(chores, args={"strokes": 5, "seconds": 0.02})

    marked = chores.http("jobs", "POST", f"{JOBS}/row/j-1/abort", {"reason": "storm"})
    messages = len(chores.queue.sent)
    handed_out(chores)
    again = chores.http("jobs", "POST", f"{JOBS}/row/j-1/abort", {"reason": "calm"})

    assert (marked["state"], again["state"], messages) == ("marked", "terminal", 2)
    error = {"kind": "aborted", "reason": "storm"}
    assert told(chores)["outcome"] == {"kind": "failed", "error": error}
    assert diary(tmp_path) == [["finish", "j-1", "failed"]]


def test_job_that_raises_is_told_of_with_its_error(chores):
    start(chores, name="sink")
    handed_out(chores)

    outcome = told(chores, name="sink")["outcome"]

    assert outcome["kind"] == "failed"
    assert outcome["error"]["kind"] == "threw"
    assert "the bilge is full" in outcome["error"]["error"]["message"]


@pytest.mark.slow
def test_perdure_lands_and_trims_as_jobs_of_its_own(chores):
    system = "/v1/stores/perdure.system/jobs"
    for name in ("perdure.land", "perdure.trim"):
        chores.http("jobs", "POST", system, {"name": name, "job_id": "now"})

    handed_out(chores)

    landed = chores.http("jobs", "GET", f"{system}/perdure.land/now")
    trimmed = chores.http("jobs", "GET", f"{system}/perdure.trim/now")
    ended = chores.http("jobs", "GET", system, query="phase=ended")
    assert landed["outcome"]["kind"] == trimmed["outcome"]["kind"] == "done"
    assert landed["outcome"]["result"]["rows"] == 0
    assert sorted(each["name"] for each in ended["jobs"]) == ["perdure.land", "perdure.trim"]
