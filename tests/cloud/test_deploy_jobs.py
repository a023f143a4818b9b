"""Jobs, exports and replicas where they are deployed: started over HTTP, woken, killed, read, and followed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import deployed as deployment
from tests.support.children import child
from tests.support.deployed import until
from tests.support.ministack import ROOT

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.stores,
    pytest.mark.slow,
    pytest.mark.xdist_group("deploy"),
]

NOTE = {"owner": "notes", "namespace": "desk", "kind": "note", "history": "rewindable"}
SECONDS = 420
"""Of which a death takes most: a claim's minute, and that of the message."""

SOON_MS = 8_000
"""Sooner than dispatch comes: the message itself waits."""

LATER_MS = 75_000
"""Later than a message waits: the hint of its minute is found by the schedule."""


def store(admin, name: str) -> str:
    """Return the path of a new document store."""
    made = admin.post("/v1/stores", json={"store_id": name})
    assert made.status_code == 201, made.text
    return f"/v1/stores/{name}"


def started(admin, path: str, name: str, job: str, **more: Any) -> dict[str, Any]:
    answer = admin.post(f"{path}/jobs", json={"name": name, "job_id": job, **more})
    assert answer.status_code == 202, answer.text
    return answer.json()


def told(admin, path: str, name: str, job: str) -> dict[str, Any]:
    answer = admin.get(f"{path}/jobs/{name}/{job}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def ended(admin, path: str, name: str, job: str) -> dict[str, Any]:
    """Return a job once it has ended."""

    def found() -> Any:
        job_now = told(admin, path, name, job)
        return job_now if job_now["phase"] == "ended" else None

    try:
        return until(found, SECONDS)
    except AssertionError:
        raise AssertionError(told(admin, path, name, job)) from None


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def boats(admin) -> str:
    """A store in which jobs were started: what each waits for passes for all of them at once."""
    boats = store(admin, "boats")
    started(admin, boats, "stumble", "dies", args={"deaths": 1})
    started(admin, boats, "count", "later", args={"to": 1}, due_at=now_ms() + LATER_MS)
    started(admin, boats, "count", "soon", args={"to": 2}, due_at=now_ms() + SOON_MS)
    started(admin, boats, "sink", "sinks", args={"to": 1})
    return boats


def test_a_job_that_raises_ends_with_its_error(admin, boats):
    outcome = ended(admin, boats, "sink", "sinks")["outcome"]

    assert outcome["error"]["error"]["message"] == "the bilge is full"


def test_a_job_that_is_aborted_while_it_runs_ends(admin, boats):
    # While it runs the stand-in hands out no other message: its queues know no groups.
    started(admin, boats, "count", "aborted", args={"to": 10_000, "seconds": 0.5})
    until(lambda: (told(admin, boats, "count", "aborted")["state"] or {}).get("count"), SECONDS)

    marked = admin.post(f"{boats}/jobs/count/aborted/abort", json={"reason": "storm"})
    outcome = ended(admin, boats, "count", "aborted")["outcome"]

    assert marked.json()["state"] == "marked"
    assert outcome == {"kind": "failed", "error": {"kind": "aborted", "reason": "storm"}}


@pytest.mark.parametrize(("job", "to"), [("soon", 2), ("later", 1)])
def test_a_job_begins_when_it_is_due_and_not_before(admin, boats, job, to):
    due_at = told(admin, boats, "count", job)["due_at"]

    done = ended(admin, boats, "count", job)

    assert done["outcome"] == {"kind": "done", "result": {"count": to}}
    assert (done["restarts"], done["epoch"]) == (0, 1)
    assert due_at is None or done["ended_at"] >= due_at


def test_a_job_whose_process_dies_is_restarted_and_that_is_counted(admin, boats, stack):
    done = ended(admin, boats, "stumble", "dies")
    again = started(admin, boats, "stumble", "dies", args={"deaths": 1})

    assert done["outcome"] == {"kind": "done", "result": {"restarts": 1}}
    assert (done["restarts"], done["epoch"]) == (1, 2)
    assert (again["replayed"], again["outcome"]) == (True, done["outcome"])


def test_what_is_asked_of_no_job_is_refused(admin, boats):
    unknown = admin.get(f"{boats}/jobs/count/nobody")
    other = admin.post(f"{boats}/jobs", json={"name": "count", "job_id": "soon", "args": {"to": 9}})

    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_job")
    assert (other.status_code, other.json()["code"]) == (409, "conflict")


# ------------------------------------------------------------------ exports and replicas


def noted(admin, path: str, *texts: str) -> list[int]:
    """Write documents, each in a commit, and return their ids."""
    ids = []
    for text in texts:
        write = {"write": "document.create", **NOTE, "key": text, "value": text}
        answer = admin.post(f"{path}/commits", json={"writes": [write]})
        assert answer.status_code == 201, answer.text
        ids += answer.json()["ids"]
    return ids


def values(admin, path: str, ids: list[int]) -> list[Any]:
    return [admin.get(f"{path}/documents/{id}").json()["value"] for id in ids]


@pytest.fixture(scope="module")
def root(stack) -> tuple[str, ...]:
    return (f"s3://{stack.resources['Lake']}", stack.resources["Authority"])


def environment(stack) -> dict[str, str]:
    """Return what somebody with the account's keys has in the environment."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(stack.place.log.parent),
        "PYTHONPATH": os.pathsep.join((str(ROOT / "shared"), str(ROOT))),
        "PERDURE_NAMESPACE": "perdure",
        "AWS_ENDPOINT_URL": stack.place.address,
        "AWS_ACCESS_KEY_ID": deployment.ACCOUNT,
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": deployment.REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "perdure.cli.main", "stores", *arguments, "--json"]


def perdure(stack, *arguments: str) -> Any:
    run = subprocess.run(
        command(*arguments),
        env=environment(stack),
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_a_store_is_exported_to_the_bucket_by_a_job_and_imported_under_another_name(
    admin, stack, root
):
    desk = store(admin, "desk")
    ids = noted(admin, desk, "a", "b", "c")
    started(admin, "/v1/stores/perdure.system", "perdure.export", "desk", args={"store": "desk"})
    outcome = ended(admin, "/v1/stores/perdure.system", "perdure.export", "desk")["outcome"]
    noted(admin, desk, "later")

    assert outcome["kind"] == "done", outcome
    exported = outcome["result"]
    uri, table = root
    imported = perdure(stack, "import", "copy", exported["at"], "--root", uri, "--table", table)

    assert exported["at"].startswith(f"{uri}/perdure/export/")
    assert (imported["sha256"], imported["seq"]) == (exported["sha256"], 3)
    assert values(admin, "/v1/stores/copy", ids) == ["a", "b", "c"]
    assert noted(admin, "/v1/stores/copy", "mine")


@pytest.fixture
def following(stack, root) -> Iterator[subprocess.Popen[str]]:
    """A process that keeps a replica at a store which is written to."""
    uri, table = root
    ends = ("--root", uri, "--table", table, "--to", uri, "--to-table", table)
    with child(
        command("replicate", "live", *ends, "--as", "mirror"),
        env=environment(stack),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


def test_a_replica_follows_a_store_that_is_written_to_shows_its_lag_and_is_promoted(
    admin, stack, root, request
):
    live = store(admin, "live")
    ids = noted(admin, live, "a", "b")
    process = request.getfixturevalue("following")
    lags = [json.loads(process.stdout.readline())]
    while lags[-1]["commits"]:
        lags.append(json.loads(process.stdout.readline()))
    write = {"write": "document.create", **NOTE, "key": "mine", "value": "mine"}
    refused = admin.post("/v1/stores/mirror/commits", json={"writes": [write]})
    ids += noted(admin, live, "c", "d", "e")
    while lags[-1]["seq"] < 5:
        lags.append(json.loads(process.stdout.readline()))
    process.send_signal(signal.SIGINT)
    process.wait(SECONDS)
    uri, table = root
    promoted = perdure(stack, "promote", "mirror", "--root", uri, "--table", table)

    assert {lag["seq"] + lag["commits"] == lag["source_seq"] for lag in lags} == {True}
    assert (refused.status_code, refused.json()["code"]) == (409, "follows_source")
    assert promoted == {"store_id": "mirror", "seq": 5}
    assert values(admin, "/v1/stores/mirror", ids) == ["a", "b", "c", "d", "e"]
    assert noted(admin, "/v1/stores/mirror", "mine")
