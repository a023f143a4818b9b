"""The routes of jobs: what is paid for, and what becomes of jobs that no code declares any more."""

from __future__ import annotations

import pytest
from tests.api.job_rig import BOATS, ROW, SYSTEM, blocked, boats_on

from perdure.kernel.documents.jobs.records import JobAddress
from perdure.kernel.documents.jobs.start import StartJob
from perdure.kernel.ids import JobId, Token

pytestmark = pytest.mark.stores


@pytest.fixture
def boats():
    found = boats_on()
    yield found
    found.ann.sandbox.close()


@pytest.fixture
def quota(boats, monkeypatch):
    """Gives players so many units, in a window that no test outlives."""

    def given(units):
        monkeypatch.setenv("PERDURE_QUOTA_PLAYER", str(units))
        monkeypatch.setenv("PERDURE_QUOTA_WINDOW_MS", str(10**12))
        boats.ann.sandbox._access = None  # as a process that starts now

    return given


# ------------------------------------------------------------------ what no code declares


def undeclared(boats):
    """Let a job be there that another application, or an older one, has declared."""
    address = JobAddress("ferries", "sail", JobId("old"))
    ref = boats.ports.jobs.ref("boats")
    asked = StartJob(ref, address, Token("old"), version=1, fingerprint="old", args={})
    boats.ann.sandbox._loop().run(boats.ports.jobs.means.authority.execute(asked.checked()))


def test_job_that_no_code_declares_is_told_of_and_dropped_by_its_owner(boats):
    undeclared(boats)
    one = f"{BOATS}/sail/old"
    listed = boats.ann("GET", BOATS, query="owner=ferries").body["jobs"]
    unnamed = boats.ann("POST", f"{one}/abort", {})
    told = boats.ann("GET", one, query="owner=ferries")
    aborted = boats.ann("POST", f"{one}/abort", {"owner": "ferries", "reason": "sold"})
    after = boats.ann("GET", one, query="owner=ferries").body

    assert [each["job_id"] for each in listed] == ["old"]
    assert (unnamed.status, unnamed.body["code"]) == (404, "unknown_job")
    assert (told.status, told.body["phase"]) == (200, "pending")
    assert (aborted.status, aborted.body["state"]) == (202, "marked")
    assert after["outcome"]["error"] == {"kind": "aborted", "reason": "sold"}
    assert boats.ports.nudged == []


def test_owner_of_a_job_is_held_to_what_it_is(boats):
    boats.ann("POST", BOATS, ROW)
    one = f"{BOATS}/row/j-1/abort"
    before = boats.snapshot()

    other = boats.ann("POST", one, {"owner": "ferries"})
    wrong = boats.ann("POST", one, {"owner": "a b"})
    system = boats.ann("POST", f"{SYSTEM}/perdure.never/x/abort", {"owner": "perdure"})

    assert (other.status, other.body["code"]) == (404, "unknown_job")
    assert (wrong.status, wrong.body["code"]) == (400, "invalid_id")
    assert (system.status, system.body["code"]) == (403, "not_permitted")
    assert boats.snapshot() == before


# ------------------------------------------------------------------ paying


def test_aborting_is_paid_for_once_and_only_if_it_changes_something(boats, quota):
    quota(2)
    for name in ("j-1", "j-2", "j-3"):
        boats.ann("POST", BOATS, {**ROW, "job_id": name})

    def aborted(name):
        return boats.ann("POST", f"{BOATS}/row/{name}/abort", {})

    statuses = [aborted("j-1").status for _ in range(5)]
    unknown = aborted("none")
    statuses.append(aborted("j-2").status)
    before = boats.snapshot()
    refused = aborted("j-3")

    assert statuses == [202] * 6
    assert unknown.status == 404
    assert (refused.status, refused.body["code"]) == (429, "quota_exceeded")
    assert boats.snapshot() == before


def test_retrying_costs_as_much_as_starting(boats, quota):
    blocked(boats)
    quota(9)
    dear = boats.ann("POST", f"{BOATS}/row/j-1/retry")
    quota(10)
    paid = boats.ann("POST", f"{BOATS}/row/j-1/retry")

    assert (dear.status, dear.body["code"]) == (413, "too_large")
    assert paid.status == 202
