"""The routes of jobs: who may ask for what, what is answered, and what is refused unchanged."""

from __future__ import annotations

import pytest
from tests.api.job_rig import BOATS, ROW, SYSTEM, blocked, boats_on

from perdure.api.decoding import cursor
from perdure.kernel import limits
from perdure.kernel.errors import OutcomeUnknown

pytestmark = pytest.mark.stores

LONG = "chores\n" + "9" * 5_000


@pytest.fixture
def boats():
    found = boats_on()
    yield found
    found.ann.sandbox.close()


# ------------------------------------------------------------------ starting


def test_job_is_started_once_by_its_id(boats):
    started = boats.ann("POST", BOATS, {**ROW, "key": "harbour"})
    before = boats.snapshot()
    again = boats.ann("POST", BOATS, {**ROW, "key": "harbour"})

    assert (started.status, again.status) == (202, 202)
    assert (started.body["phase"], started.body["restarts"]) == ("pending", 0)
    assert (started.body["key"], started.body["args"]["strokes"]) == ("harbour", 2)
    assert (started.body["replayed"], again.body["replayed"]) == (False, True)
    assert boats.ports.nudged == ["row/j-1"]
    assert boats.snapshot() == before


def test_job_that_begins_later_wakes_nobody_now(boats):
    now = boats.ports.jobs.means.now()
    later = boats.ann("POST", BOATS, {**ROW, "due_at": now + 3_600_000})
    nudged = list(boats.ports.nudged)
    past = boats.ann("POST", BOATS, {**ROW, "job_id": "j-2", "due_at": 0})
    boats.ann("POST", f"{BOATS}/row/j-1/abort", {})

    assert (later.status, past.status) == (202, 202)
    assert nudged == []
    assert boats.ports.nudged == ["row/j-2", "row/j-1"]


def test_id_may_come_as_the_idempotency_key(boats):
    body = {"name": "row", "args": {"strokes": 2}}

    started = boats.ann("POST", BOATS, body, idempotency_key="j-9")
    other = boats.ann("POST", BOATS, {**body, "job_id": "j-8"}, idempotency_key="j-9")

    assert (started.status, started.body["job_id"]) == (202, "j-9")
    assert (other.status, other.body["code"]) == (400, "invalid_value")


def test_start_without_an_id_is_told_the_one_that_was_drawn(boats, monkeypatch):
    async def lost(*_):
        raise OutcomeUnknown(expected="an answer", found="none")

    body = {"name": "row", "args": {"strokes": 2}}
    known = boats.ann("POST", BOATS, body).body["job_id"]
    monkeypatch.setattr(boats.store, "commit", lost)
    unknown = boats.ann("POST", BOATS, body)

    assert known
    assert (unknown.status, unknown.body["code"]) == (503, "outcome_unknown")
    assert unknown.body["job_id"] not in {None, known}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({**ROW, "args": {"strokes": 3}}, 409, "conflict"),
        ({**ROW, "key": "other"}, 409, "conflict"),
        ({**ROW, "name": "fly"}, 404, "unknown_job"),
        ({**ROW, "name": 7}, 400, "wrong_type"),
        ({**ROW, "job_id": "a/b"}, 400, "invalid_id"),
        ({**ROW, "job_id": ""}, 400, "invalid_id"),
        ({**ROW, "job_id": "new", "args": {"strokes": -1}}, 400, "out_of_range"),
        ({**ROW, "job_id": "new", "args": {"strokes": "many"}}, 400, "wrong_type"),
        ({**ROW, "job_id": "new", "args": {}}, 400, "missing_field"),
        ({**ROW, "job_id": "new", "args": {"strokes": 1, "oars": 2}}, 400, "unknown_field"),
        ({**ROW, "job_id": "new", "args": [1]}, 400, "wrong_type"),
        ({**ROW, "job_id": "new", "due_at": -1}, 400, "out_of_range"),
        ({**ROW, "job_id": "new", "due_at": limits.INTEGER_MAX + 1}, 400, "out_of_range"),
        ({**ROW, "job_id": "new", "due_at": 1.5}, 400, "wrong_type"),
        ({**ROW, "job_id": "new", "key": "k" * 2_001}, 413, "too_large"),
        ({"args": {"strokes": 1}}, 400, "missing_field"),
        ({**ROW, "colour": "red"}, 400, "unknown_field"),
    ],
)
def test_what_cannot_be_started_is_refused_and_writes_nothing(boats, body, status, code):
    boats.ann("POST", BOATS, ROW)
    before = boats.snapshot()

    refused = boats.ann("POST", BOATS, body)

    assert (refused.status, refused.body["code"]) == (status, code)
    assert boats.snapshot() == before
    assert boats.ports.nudged == ["row/j-1"]


def test_nothing_is_started_in_a_store_that_is_not_there(boats):
    before = boats.snapshot()

    refused = boats.ann("POST", "/v1/stores/none/jobs", ROW)

    assert (refused.status, refused.body["code"]) == (404, "not_found")
    assert boats.snapshot() == before


@pytest.mark.parametrize(
    ("store", "body"),
    [
        ("perdure.system", {"name": "perdure.trim", "args": {"grace": 5}}),
        ("perdure.system", {"name": "perdure.trim", "args": {"grace": "soon"}}),
        ("perdure.system", {"name": "perdure.export", "args": {"store": "a/b"}}),
        ("perdure.system", {"name": "perdure.land", "job_id": "a/b"}),
        ("perdure.other", {"name": "perdure.land"}),
    ],
)
def test_what_cannot_be_started_makes_no_store_either(boats, store, body):
    before = boats.snapshot()

    refused = boats.as_("admin")("POST", f"/v1/stores/{store}/jobs", body)

    assert refused.status in {400, 404}
    assert boats.snapshot() == before


def test_id_of_a_job_that_has_ended_is_not_used_again(boats):
    boats.ann("POST", BOATS, ROW)
    boats.run()

    same = boats.ann("POST", BOATS, ROW)
    other = boats.ann("POST", BOATS, {**ROW, "args": {"strokes": 3}})

    assert (same.body["phase"], same.body["replayed"]) == ("ended", True)
    assert (other.status, other.body["code"]) == (409, "conflict")


# ------------------------------------------------------------------ looking


def test_job_tells_where_it_stands_and_what_it_came_to(boats):
    boats.ann("POST", BOATS, ROW)
    pending = boats.ann("GET", f"{BOATS}/row/j-1").body
    boats.run()
    ended = boats.ann("GET", f"{BOATS}/row/j-1").body

    assert (pending["phase"], pending["state"]) == ("pending", {"strokes": 0})
    assert (ended["phase"], ended["state"], ended["held_until"]) == ("ended", None, None)
    assert ended["outcome"] == {"kind": "done", "result": {"strokes": 2}}
    assert ended["ended_at"] is not None


def test_half_of_a_pair_in_a_text_hides_no_job(boats):
    started = boats.ann("POST", BOATS, {**ROW, "key": "\ud800"})
    boats.ann("POST", f"{BOATS}/row/j-1/abort", {"reason": "\udfff"})

    told = boats.ann("GET", f"{BOATS}/row/j-1").body
    listed = boats.ann("GET", BOATS).body["jobs"]

    assert (started.status, started.body["key"]) == (202, "\ud800")
    assert (told["key"], told["abort"]) == ("\ud800", "\udfff")
    assert [each["job_id"] for each in listed] == ["j-1"]


def test_jobs_are_listed_a_page_at_a_time(boats):
    for number in range(5):
        boats.ann("POST", BOATS, {**ROW, "job_id": f"j-{number}"})
    boats.ann("POST", BOATS, {**ROW, "name": "sink", "job_id": "s"})

    found, following, pages = [], None, 0
    while pages == 0 or following:
        query = "limit=2" + (f"&next={following}" if following else "")
        page = boats.ann("GET", BOATS, query=query).body
        found += [each["job_id"] for each in page["jobs"]]
        following, pages = page.get("next"), pages + 1
    sinking = boats.ann("GET", BOATS, query="name=sink").body["jobs"]
    running = boats.ann("GET", BOATS, query="phase=running").body["jobs"]

    assert sorted(found) == ["j-0", "j-1", "j-2", "j-3", "j-4", "s"]
    assert pages >= 3
    assert [each["job_id"] for each in sinking] == ["s"]
    assert running == []


@pytest.mark.parametrize(
    ("path", "query", "status", "code"),
    [
        (f"{BOATS}/row/none", "", 404, "unknown_job"),
        (f"{BOATS}/fly/j-1", "", 404, "unknown_job"),
        ("/v1/stores/none/jobs/row/j-1", "", 404, "not_found"),
        ("/v1/stores/none/jobs", "", 404, "not_found"),
        (BOATS, "phase=asleep", 400, "invalid_value"),
        (BOATS, "limit=0", 400, "out_of_range"),
        (BOATS, "limit=101", 400, "out_of_range"),
        (BOATS, "name=fly", 404, "unknown_job"),
        (BOATS, "next=bm90aGluZw", 400, "invalid_value"),
        (BOATS, f"next={cursor('jobs boats None None None', 'x')}", 400, "invalid_cursor"),
        (BOATS, f"next={cursor('jobs boats None None None', LONG)}", 400, "invalid_cursor"),
        (BOATS, "colour=red", 400, "unknown_field"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(boats, path, query, status, code):
    boats.ann("POST", BOATS, ROW)

    refused = boats.ann("GET", path, query=query)

    assert (refused.status, refused.body["code"]) == (status, code)


# ------------------------------------------------------------------ ending


def test_aborted_job_is_marked_and_one_that_ended_is_terminal(boats):
    boats.ann("POST", BOATS, ROW)
    marked = boats.ann("POST", f"{BOATS}/row/j-1/abort", {"reason": "storm"})
    again = boats.ann("POST", f"{BOATS}/row/j-1/abort", {"owner": "chores"})
    boats.run()
    terminal = boats.ann("POST", f"{BOATS}/row/j-1/abort", {"owner": "chores"})

    assert (marked.status, marked.body["state"]) == (202, "marked")
    assert (again.body["state"], terminal.body["state"]) == ("marked", "terminal")
    outcome = boats.ann("GET", f"{BOATS}/row/j-1").body["outcome"]
    assert outcome["error"] == {"kind": "aborted", "reason": "storm"}
    assert boats.ports.nudged == ["row/j-1"] * 3


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (f"{BOATS}/row/none/abort", {}, 404, "unknown_job"),
        (f"{BOATS}/fly/j-1/abort", {}, 404, "unknown_job"),
        (f"{BOATS}/row/j-1/abort", {"reason": "r" * 2_001}, 413, "too_large"),
        (f"{BOATS}/row/j-1/abort", {"reason": 7}, 400, "wrong_type"),
        ("/v1/stores/none/jobs/row/j-1/abort", {}, 404, "not_found"),
    ],
)
def test_what_cannot_be_aborted_is_refused_and_writes_nothing(boats, path, body, status, code):
    boats.ann("POST", BOATS, ROW)
    before = boats.snapshot()

    refused = boats.ann("POST", path, body)

    assert (refused.status, refused.body["code"]) == (status, code)
    assert boats.snapshot() == before


def test_blocked_job_goes_on_once_somebody_says_so(boats):
    blocked(boats)
    stuck = boats.ann("GET", f"{BOATS}/row/j-1").body
    boats.run()

    retried = boats.ann("POST", f"{BOATS}/row/j-1/retry")
    again = boats.ann("POST", f"{BOATS}/row/j-1/retry")
    boats.run()

    assert (stuck["phase"], stuck["blocked"]) == ("blocked", "version")
    assert (retried.status, retried.body["phase"], retried.body["blocked"]) == (
        202,
        "pending",
        None,
    )
    assert (again.status, again.body["code"]) == (409, "conflict")
    assert boats.ann("GET", f"{BOATS}/row/j-1").body["phase"] == "ended"
    assert boats.ports.nudged == ["row/j-1"] * 2


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"{BOATS}/row/j-1/retry", 409, "conflict"),
        (f"{BOATS}/row/none/retry", 404, "unknown_job"),
        (f"{BOATS}/fly/j-1/retry", 404, "unknown_job"),
        ("/v1/stores/none/jobs/row/j-1/retry", 404, "not_found"),
    ],
)
def test_what_is_not_blocked_is_not_retried(boats, path, status, code):
    boats.ann("POST", BOATS, ROW)
    before = boats.snapshot()

    refused = boats.ann("POST", path)

    assert (refused.status, refused.body["code"]) == (status, code)
    assert boats.snapshot() == before


# ------------------------------------------------------------------ Perdure's own


def test_store_of_perdures_own_jobs_is_made_with_the_first_of_them(boats):
    operator = boats.as_("operator")
    none = operator("GET", SYSTEM)

    started = operator("POST", SYSTEM, {"name": "perdure.land", "job_id": "now"})
    listed = operator("GET", SYSTEM)

    assert (none.status, started.status, listed.status) == (404, 202, 200)
    assert [each["name"] for each in listed.body["jobs"]] == ["perdure.land"]


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("perdure.land", "operator"),
        ("perdure.trim", "operator"),
        ("perdure.export", "operator"),
        ("perdure.migrate", "admin"),
    ],
)
def test_who_starts_one_of_them_needs_the_role_for_what_it_does(boats, name, least):
    body = {"name": name, "job_id": "now"}
    if name == "perdure.migrate":
        body["args"] = {"to": "/elsewhere", "migration_id": "m"}
    if name == "perdure.export":
        body["args"] = {"store": "boats"}
    below = {"operator": "player", "admin": "operator"}[least]

    refused = boats.as_(below)("POST", SYSTEM, body)
    started = boats.as_(least)("POST", SYSTEM, body)
    kept = boats.as_(below)("POST", f"{SYSTEM}/{name}/now/abort", {})

    assert (refused.status, refused.body["code"]) == (403, "not_permitted")
    assert started.status == 202, started.body
    assert (kept.status, kept.body["code"]) == (403, "not_permitted")


@pytest.mark.parametrize("name", ["row", "perdure.fly"])
def test_no_other_job_is_started_there_and_no_store_made_for_it(boats, name):
    before = boats.snapshot()

    refused = boats.as_("admin")("POST", SYSTEM, {"name": name, "args": {"strokes": 1}})

    assert (refused.status, refused.body["code"]) == (404, "unknown_job")
    assert boats.snapshot() == before


@pytest.mark.parametrize("role", ["viewer", "player"])
def test_viewer_looks_and_starts_nothing(boats, role):
    caller = boats.as_(role)

    answered = {
        "start": caller("POST", BOATS, ROW).status,
        "list": caller("GET", BOATS).status,
        "abort": caller("POST", f"{BOATS}/row/j-1/abort", {}).status,
    }

    allowed = role == "player"
    assert answered == {
        "start": 202 if allowed else 403,
        "list": 200,
        "abort": 202 if allowed else 403,
    }
