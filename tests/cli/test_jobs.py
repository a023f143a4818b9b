"""`perdure jobs`: jobs of a local storage, done by the very command that asks, and Perdure's own."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.stores

APP = "tests.support.chores:app"


@pytest.fixture
def chores(perdure, root):
    """Run ``perdure jobs`` on a storage with a document store, ``boats``."""

    def run(*arguments):
        return perdure("jobs", *arguments, "--root", root, "--app", APP)

    made = perdure("stores", "create", "boats", "--root", root, "--app", APP)
    assert made.exit_code == 0, made.err
    return run


def test_job_is_started_shown_done_and_listed(chores):
    started = chores("start", "boats", "row", "--args", '{"strokes": 3}', "--job-id", "a", "--json")
    listed = chores("list", "boats", "--json")
    done = chores("run", "--json")
    shown = chores("show", "boats", "row", "a", "--json")
    ended = chores("list", "boats", "--phase", "ended")

    assert (started.exit_code, started.json["phase"]) == (0, "pending"), started.err
    assert [each["job_id"] for each in listed.json["jobs"]] == ["a"]
    assert done.json["jobs"] == [{"store": "boats", "job": "row/a", "state": "ended"}]
    assert shown.json["outcome"] == {"kind": "done", "result": {"strokes": 3}}
    assert ended.out.splitlines()[1].split()[:3] == ["row", "a", "ended"]


def test_watched_job_is_done_in_the_same_process(chores):
    watched = chores("start", "boats", "row", "--args", '{"strokes": 2}', "--watch")

    assert watched.exit_code == 0, watched.err
    assert watched.out.splitlines()[0] == "ended null"


def test_start_again_under_its_id_changes_nothing(chores):
    arguments = ("start", "boats", "row", "--args", '{"strokes": 1}', "--job-id", "a", "--json")
    chores(*arguments)
    again = chores(*arguments)
    other = chores("start", "boats", "row", "--args", '{"strokes": 9}', "--job-id", "a")

    assert again.json["replayed"] is True
    assert (other.exit_code, other.err.split()[1]) == (1, "conflict:")


def test_job_that_is_due_later_is_left_until_then(chores):
    chores("start", "boats", "row", "--args", '{"strokes": 1}', "--in", "1h", "--job-id", "a")
    done = chores("run")

    assert done.out.strip() == "no job is due"
    assert chores("show", "boats", "row", "a", "--json").json["phase"] == "pending"


def test_job_that_is_due_behind_the_calendar_is_told_of(chores):
    far = ("--args", '{"strokes": 1}', "--in", "99999999d", "--job-id", "far")
    started = chores("start", "boats", "row", *far)
    shown = chores("show", "boats", "row", "far")

    assert (started.exit_code, shown.exit_code) == (0, 0), started.err
    assert "pending" in shown.out


def test_aborted_job_ends_with_the_reason(chores):
    chores("start", "boats", "row", "--args", '{"strokes": 1}', "--job-id", "a")
    marked = chores("abort", "boats", "row", "a", "--reason", "storm", "--json")
    chores("run")
    shown = chores("show", "boats", "row", "a", "--json")

    assert marked.json == {"job_id": "a", "state": "marked"}
    assert shown.json["outcome"]["error"] == {"kind": "aborted", "reason": "storm"}


def test_job_whose_code_is_gone_is_shown_and_dropped_by_its_owner(chores, perdure, root):
    chores("start", "boats", "row", "--args", '{"strokes": 1}', "--job-id", "a")

    def other(*arguments):  # another application, which declares no jobs
        return perdure("jobs", *arguments, "--root", root)

    unknown = other("abort", "boats", "row", "a")
    shown = other("show", "boats", "row", "a", "--owner", "chores", "--json")
    dropped = other("abort", "boats", "row", "a", "--owner", "chores", "--json")

    assert (unknown.exit_code, unknown.err.split()[1]) == (1, "unknown_job:")
    assert (shown.json["phase"], dropped.json["state"]) == ("pending", "marked")
    assert chores("run").out.strip() == "no job is due"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (("start", "boats", "fly"), 1, "unknown_job"),
        (("start", "boats", "row", "--args", "{"), 2, "no JSON"),
        (("start", "boats", "row", "--args", "[]"), 2, "a JSON object"),
        (("start", "boats", "row", "--args", "{}"), 1, "missing_field"),
        (("start", "none", "row", "--args", '{"strokes": 1}'), 1, "not_found"),
        (("show", "boats", "row", "never"), 1, "unknown_job"),
        (("abort", "boats", "row", "never"), 1, "unknown_job"),
        (("list", "none"), 1, "not_found"),
        (("start", "a/b", "row"), 1, "invalid_id"),
        (("run", "--for", "5s"), 2, "less than 10s"),
    ],
)
def test_what_cannot_be_done_is_said(chores, arguments, exit_code, said):
    run = chores(*arguments)

    assert run.exit_code == exit_code
    assert said in run.err


def test_a_deployment_does_its_jobs_itself(perdure):
    run = perdure("jobs", "run", "--url", "http://127.0.0.1:1")

    assert (run.exit_code, "by itself" in run.err) == (2, True)


def test_store_is_exported_by_a_job_of_perdures_own_and_made_again_of_that(
    chores, perdure, tmp_path
):
    chores("start", "boats", "row", "--args", '{"strokes": 2}', "--watch")
    args = json.dumps({"store": "boats"})
    start = ("start", "perdure.system", "perdure.export", "--args", args, "--json")

    done = chores(*start, "--watch").json["outcome"]
    none = chores(*start[:4], '{"store": "none"}', "--json", "--watch").json["outcome"]
    there = ("--root", tmp_path / "there")
    imported = perdure("stores", "import", "boats", done["result"]["at"], *there, "--json")

    assert done["kind"] == "done", done
    assert imported.exit_code == 0, imported.err
    assert imported.json["sha256"] == done["result"]["sha256"]
    assert none["error"]["error"]["code"] == "not_found"


@pytest.mark.slow
def test_storage_is_moved_by_a_job_of_its_own_and_another_store_keeps_it(perdure, root, tmp_path):
    there = ("--root", root, "--app", "tests.emulator.harbour:app")
    made = perdure("world", "create", "harbour", "--world-id", "h", *there)
    args = json.dumps({"to": str(tmp_path / "there"), "migration_id": "m"})
    start = ("jobs", "start", "perdure.system", "perdure.migrate", "--args", args)
    perdure("tick", "h", *there)
    perdure("land", *there)

    moved = perdure(*start, "--job-id", "m", "--watch", "--json", *there)
    again = perdure(*start, "--job-id", "m", "--json", *there)
    worlds = perdure("worlds", "--root", tmp_path / "there", "--app", there[3], "--json")

    assert made.exit_code == 0, made.err
    assert (moved.exit_code, moved.json["phase"]) == (0, "ended"), moved.err + moved.out
    assert moved.json["outcome"]["kind"] == "done", moved.json
    assert moved.json["outcome"]["result"]["worlds"] == 1
    assert again.json["replayed"] is True
    assert [each["world_id"] for each in worlds.json["worlds"]] == ["h"]
    stores = perdure("stores", "list", "--root", tmp_path / "there", "--app", there[3], "--json")
    assert stores.json["stores"] == [], "jobs stay where they were"
