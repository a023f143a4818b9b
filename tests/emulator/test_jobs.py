"""Jobs over HTTP as a black box: done, stopped in order time after time, and killed in the midst."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from tests.emulator.deployment import ROOT, bearer, deployed, environment
from tests.support.chores import DIARY

pytestmark = [pytest.mark.cloud, pytest.mark.stores, pytest.mark.slow]

CHORES = ("--app", "tests.support.chores:app")
JOBS = "/v1/stores/boats/jobs"
SECONDS = 120

FUNCTION_SECONDS = 9
"""Of which a job has one: the rest is kept for its orderly end."""

STOPS = 10


@pytest.fixture
def hasty(tmp_path):
    """The project's template with little time for the function jobs."""
    text = (ROOT / "template.yaml").read_text(encoding="utf-8")
    changed, times = re.subn(
        r"(CodeUri: functions/jobs\n(?:.*\n){2,3})      Timeout: 900\n",
        rf"\1      Timeout: {FUNCTION_SECONDS}\n",
        text,
    )
    assert times == 1
    # Apart, a function has the variables of its template and no other.
    level = "        POWERTOOLS_LOG_LEVEL: INFO\n"
    assert level in changed
    changed = changed.replace(level, f"{level}        {DIARY}: {tmp_path / 'diary'}\n")
    (tmp_path / "template.yaml").write_text(changed, encoding="utf-8")
    (tmp_path / "functions").symlink_to(ROOT / "functions")
    return tmp_path / "template.yaml"


@contextmanager
def running(tmp_path, monkeypatch, *more):
    monkeypatch.setenv(DIARY, str(tmp_path / "diary"))
    monkeypatch.setenv("PERDURE_LEASE", "2s")
    with deployed(tmp_path / "root", *CHORES, *more, log=tmp_path / "log") as found:
        yield found


def begun(deployment, **args):
    made = deployment.http.post("/v1/stores", json={"store_id": "boats"})
    assert made.status_code == 201, made.text
    told = {"name": "row", "job_id": "j", "args": args}
    started = deployment.http.post(JOBS, json=told)
    assert started.status_code == 202, started.text


def told(deployment):
    found = deployment.http.get(f"{JOBS}/row/j")
    assert found.status_code == 200, found.text
    return found.json()


def awaited(deployment, wanted):
    """Return the job once it is as wanted."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        found = told(deployment)
        if wanted(found):
            return found
        time.sleep(0.1)
    raise AssertionError(found)


def is_ended(job):
    return job["phase"] == "ended"


def diary(tmp_path):
    return [line.split()[1:] for line in (tmp_path / "diary").read_text().splitlines()]


@pytest.mark.parametrize("apart", [(), ("--isolate",)], ids=["in a thread", "isolated"])
def test_a_job_that_is_longer_than_ten_invocations_has_no_restart(
    tmp_path, monkeypatch, hasty, apart
):
    strokes = 120
    with running(tmp_path, monkeypatch, "--template", str(hasty), *apart) as deployment:
        begun(deployment, strokes=strokes, seconds=0.1)
        ended = awaited(deployment, is_ended)

    begins = [said for said in diary(tmp_path) if said[0] == "begin"]
    rowed = [int(said[2]) for said in diary(tmp_path) if said[0] == "stroke"]
    assert (ended["outcome"]["kind"], ended["restarts"]) == ("done", 0)
    assert len(begins) > STOPS
    assert {said[2] for said in begins} == {"0"}
    assert rowed == list(range(1, strokes + 1))
    assert [said for said in diary(tmp_path) if said[0] == "finish"] == [["finish", "j", "done"]]


def test_a_job_whose_server_is_killed_goes_on_in_the_next_and_ends_once(tmp_path, monkeypatch):
    strokes = 60
    with running(tmp_path, monkeypatch) as deployment:
        begun(deployment, strokes=strokes, seconds=0.1)
        awaited(deployment, lambda job: job["state"] and job["state"]["strokes"] >= 5)
        deployment.process.send_signal(signal.SIGKILL)
        deployment.process.wait()
    # The queue died with the server: its hint alone tells of the job, once a minute.
    with running(tmp_path, monkeypatch, "--speed", "60") as deployment:
        ended = awaited(deployment, is_ended)
        again = deployment.http.post(
            JOBS,
            json={"name": "row", "job_id": "j", "args": {"strokes": strokes, "seconds": 0.1}},
        )

    said = diary(tmp_path)
    rowed = [int(each[2]) for each in said if each[0] == "stroke"]
    assert [each for each in said if each[0] == "begin"] == [
        ["begin", "j", "0"],
        ["begin", "j", "1"],
    ]
    assert sorted(set(rowed)) == list(range(1, strokes + 1))
    assert len(rowed) - len(set(rowed)) <= 1, "but for the stroke in which it was killed"
    assert [each for each in said if each[0] == "finish"] == [["finish", "j", "done"]]
    assert ended["outcome"] == {"kind": "done", "result": {"strokes": strokes}}
    assert (again.status_code, again.json()["replayed"]) == (202, True)


def test_a_server_that_is_stopped_gives_its_job_back_in_order(tmp_path, monkeypatch):
    strokes = 60
    with running(tmp_path, monkeypatch) as deployment:
        begun(deployment, strokes=strokes, seconds=0.1)
        awaited(deployment, lambda job: job["state"] and job["state"]["strokes"] >= 5)
        code, _, _ = deployment.stop(signal.SIGINT)
    with running(tmp_path, monkeypatch, "--speed", "60") as deployment:
        ended = awaited(deployment, is_ended)

    begins = [said for said in diary(tmp_path) if said[0] == "begin"]
    assert code == 0, (tmp_path / "log").read_text()
    assert begins == [["begin", "j", "0"]] * 2
    assert ended["outcome"]["kind"] == "done"


def perdure(deployment, *arguments):
    """Run `perdure jobs` against a deployment."""
    token = bearer(deployment.root, "operator")["Authorization"].removeprefix("Bearer ")
    url = str(deployment.http.base_url)
    return subprocess.run(
        [sys.executable, "-m", "perdure.cli.main", "jobs", *arguments, "--url", url],
        env={**environment(), "PERDURE_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


def test_perdure_lands_as_a_job_that_is_watched_from_the_command_line(tmp_path, monkeypatch):
    with running(tmp_path, monkeypatch) as deployment:
        watched = perdure(deployment, "start", "perdure.system", "perdure.land", "--watch")
        refused = perdure(deployment, "run")

    assert "ended" in watched.stdout, watched.stderr
    assert watched.returncode == 0
    assert refused.returncode == 2
