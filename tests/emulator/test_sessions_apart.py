"""Runs that outlive their process: longer than one invocation, or killed in the midst of a call."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import contextmanager

import pytest
from tests.emulator.deployment import ROOT, deployed
from tests.emulator.pilots import DIARY, STEPS
from tests.emulator.test_sessions import PILOTS, awaited, begun, following, send, until_finished
from tests.support.apart import processes_of

pytestmark = [pytest.mark.cloud, pytest.mark.sessions, pytest.mark.slow]

SECONDS = 90
FUNCTION_SECONDS = 8
"""Of which a run may use what its last barrier and its last margin leave."""


@pytest.fixture
def hasty(tmp_path):
    """The project's template with little time for the function sessions."""
    text = (ROOT / "template.yaml").read_text(encoding="utf-8")
    changed, times = re.subn(
        r"(CodeUri: functions/sessions\n(?:.*\n){2})      Timeout: 900\n",
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
def running_apart(tmp_path, monkeypatch, template, *more):
    monkeypatch.setenv(DIARY, str(tmp_path / "diary"))
    monkeypatch.setenv("PERDURE_LEASE", "3s")
    options = (*PILOTS, "--template", str(template), *more)
    with deployed(tmp_path / "root", *options, log=tmp_path / "log") as running:
        yield running


def entries(tmp_path):
    diary = tmp_path / "diary"
    return [line.split() for line in diary.read_text().splitlines()] if diary.exists() else []


def noted(tmp_path, *words):
    """Wait until a tool has noted something; return the process it ran in."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        for process, *said in entries(tmp_path):
            if tuple(said) == words:
                return int(process)
        time.sleep(0.02)
    raise AssertionError(entries(tmp_path))


@pytest.mark.parametrize("apart", [(), ("--isolate",)], ids=["in a thread", "isolated"])
def test_a_run_that_is_longer_than_one_invocation_goes_on_in_the_next(
    tmp_path, monkeypatch, hasty, apart
):
    with running_apart(tmp_path, monkeypatch, hasty, *apart) as running:
        talk = begun(running, "rows")
        with following(running, talk) as found:
            send(running, talk, send_id="first")
            taken = until_finished(found)

    strokes = [said for _, *said in entries(tmp_path)]
    assert strokes == [["row", str(number)] for number in range(STEPS)]
    assert [frame["seq"] for _, _, frame in taken] == list(range(1, len(taken) + 1))
    assert taken[-1][2]["payload"]["reason"] == "completed"
    assert "resume_started" in [kind for kind, _, _ in taken]
    assert '"state":"out_of_time"' in (tmp_path / "log").read_text()


def test_a_process_killed_in_mid_call_leaves_an_effect_unknown_and_it_is_not_made_again(
    tmp_path, monkeypatch, hasty
):
    hold = tmp_path / "diary.hold"
    hold.touch()
    with running_apart(tmp_path, monkeypatch, hasty, "--isolate") as running:
        talk = begun(running, "sounds")
        with following(running, talk) as found:
            send(running, talk, send_id="first")
            process = noted(tmp_path, "sound", "3")
            assert process in processes_of(running.process.pid, "sessions")
            os.kill(process, signal.SIGKILL)
            hold.unlink()
            taken = until_finished(found)

    results = [frame["payload"] for kind, _, frame in taken if kind == "tool_result"]
    assert [each["outcome"] for each in results] == ["unknown", "unknown"]
    assert taken[-1][2]["payload"]["reason"] == "interrupted"
    assert [said for _, *said in entries(tmp_path)] == [["sound", "3"]]


def test_a_process_killed_in_a_call_without_effect_makes_it_again(tmp_path, monkeypatch, hasty):
    hold = tmp_path / "diary.hold"
    hold.touch()
    with running_apart(tmp_path, monkeypatch, hasty, "--isolate") as running:
        talk = begun(running, "looks")
        with following(running, talk) as found:
            send(running, talk, send_id="first")
            os.kill(noted(tmp_path, "look", "9"), signal.SIGKILL)
            hold.unlink()
            taken = until_finished(found)
        awaited(running, talk, "idle")

    assert [said for _, *said in entries(tmp_path)] == [["look", "9"]] * 2
    assert taken[-1][2]["payload"]["reason"] == "completed"
