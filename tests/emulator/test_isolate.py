"""`perdure dev --isolate` as a black box: functions die, and whoever asked is told what is known."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.emulator.deployment import ROOT, deployed, refused
from tests.emulator.test_front import asked
from tests.support.apart import processes_of

from perdure.kernel.errors import TooLarge
from perdure_emulator.runtime_api import Died, FunctionFailed
from perdure_emulator.sandboxes import Throttled

pytestmark = pytest.mark.cloud

SPAWN = {"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}}
STUCK = ("--isolate", "--app", "tests.emulator.stuck:app")
SECONDS = 120
WORLD = "/v1/worlds/reef"


@pytest.mark.parametrize(
    ("raised", "method", "status", "code"),
    [
        (Died("it ended", has_begun=True), "POST", 503, "outcome_unknown"),
        (Died("it ended", has_begun=True), "GET", 503, "store_unavailable"),
        (Died("it ended", has_begun=False), "POST", 503, "store_unavailable"),
        (Throttled("ApiFunction"), "POST", 429, "contended"),
        (TooLarge(expected="less", found="more"), "POST", 413, "too_large"),
        (FunctionFailed("Runtime.ImportModuleError", "no app"), "POST", 500, "internal"),
    ],
    ids=str,
)
def test_caller_of_a_function_that_failed_is_told_what_is_known(raised, method, status, code):
    reply, _ = asked(method, "/v1/worlds", raises=raised)

    assert (reply.status_code, reply.json()["code"]) == (status, code)
    assert ("retry-after" in reply.headers) is (status in {429, 503})


def eventually(found):
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        result = found()
        if result:
            return result
        time.sleep(0.02)
    raise AssertionError(f"not within {SECONDS} s")


def stuck_in_a_tick(running):
    """Ask for a tick that never ends, and return when it has begun."""
    running.http.post("/v1/worlds", json={"name": "reef", "world_id": "reef"})
    sent = running.http.post(f"{WORLD}/commands", json={"commands": [SPAWN]})
    assert sent.status_code == 202
    asking = ThreadPoolExecutor(1)
    asked = asking.submit(running.http.post, f"{WORLD}/tick", json={"ticks": 1})
    asking.shutdown(wait=False)
    said = iter(running.process.stderr.readline, "")
    assert any(line == "TickFunction: stuck\n" for line in said)
    return asked


def everybody_of(emulator):
    return processes_of(emulator, "api") + processes_of(emulator, "tick")


def are_gone(processes):
    return not any(Path(f"/proc/{each}").exists() for each in processes)


def test_function_killed_in_a_tick_leaves_its_outcome_unknown_and_the_others_alive(tmp_path):
    with deployed(tmp_path / "root", *STUCK) as running:
        asked = stuck_in_a_tick(running)
        (process,) = processes_of(running.process.pid, "tick")

        os.kill(process, signal.SIGKILL)

        reply = asked.result(SECONDS)
        assert (reply.status_code, reply.json()["code"]) == (503, "outcome_unknown")
        assert f"process {process} was killed by signal 9" in reply.json()["detail"]
        assert running.http.get(WORLD).json()["pending_commands"] == 1
        everybody = everybody_of(running.process.pid)
        exit_code, out, err = running.stop(signal.SIGTERM)

    assert exit_code == 0, err
    assert out == "perdure has stopped; everything acknowledged is on disk\n"
    assert everybody
    assert are_gone(everybody)


@pytest.mark.slow
def test_nobody_is_left_when_the_emulator_is_killed(tmp_path):
    with deployed(tmp_path / "root", *STUCK) as running:
        asked = stuck_in_a_tick(running)
        everybody = everybody_of(running.process.pid)
        assert len(everybody) >= 2

        running.process.kill()

        eventually(lambda: are_gone(everybody))
        assert asked.exception(SECONDS) is not None


@pytest.mark.parametrize(
    ("handler", "found"),
    [(None, "a handler file"), ("import no_such_module\n", "Runtime.ImportModuleError")],
    ids=["no file", "no module"],
)
def test_api_that_does_not_load_is_one_clear_line(tmp_path, handler, found):
    (tmp_path / "functions" / "api").mkdir(parents=True)
    if handler is not None:
        (tmp_path / "functions" / "api" / "app.py").write_text(handler)
    template = tmp_path / "template.yaml"
    template.write_text((ROOT / "template.yaml").read_text())

    run = refused(tmp_path / "root", "--port", "0", "--isolate", "--template", str(template))

    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    assert last.startswith("perdure: invalid_value: ")
    assert found in last
    assert "Traceback" not in last
