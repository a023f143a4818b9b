"""The end of an emulator whose function has none: a bounded wait, or at once, and nothing lost."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager

import httpx
import pytest
from tests.emulator.deployment import deployed

from perdure_emulator.dev import CLOSE_SECONDS, GRACE_SECONDS

SPAWN = {"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}}
HURRY = httpx.Timeout(120, read=2)
STUCK = ("--app", "tests.emulator.stuck:app")


@contextmanager
def stuck(root):
    """An emulator in which a tick has begun that never ends; who asked for it has gone."""
    with deployed(root, *STUCK) as running:
        running.http.post("/v1/worlds", json={"name": "reef", "world_id": "reef"})
        sent = running.http.post("/v1/worlds/reef/commands", json={"commands": [SPAWN]})
        assert sent.status_code == 202
        with pytest.raises(httpx.ReadTimeout):
            running.http.post("/v1/worlds/reef/tick", json={"ticks": 1}, timeout=HURRY)
        assert running.process.stdout.readline() == "stuck\n"
        yield running


@pytest.mark.slow
def test_function_that_never_returns_is_waited_for_so_long_and_named(tmp_path):
    with stuck(tmp_path / "root") as running:
        began = time.monotonic()
        exit_code, out, err = running.stop(signal.SIGTERM)
        took = time.monotonic() - began

    assert (exit_code, out) == (130, "")
    assert "Traceback" not in err
    assert err.splitlines()[-1] == (
        "perdure: stopped without TickFunction, which does not come to an end;"
        " everything acknowledged is on disk"
    )
    assert CLOSE_SECONDS <= took < GRACE_SECONDS + CLOSE_SECONDS + 60
    with deployed(tmp_path / "root", *STUCK) as running:
        assert running.http.get("/v1/worlds/reef").json()["pending_commands"] == 1


@pytest.mark.parametrize("signals", [("SIGINT", "SIGTERM"), ("SIGTERM", "SIGINT")])
def test_second_signal_ends_the_emulator_at_once(tmp_path, signals):
    with stuck(tmp_path / "root") as running:
        running.process.send_signal(getattr(signal, signals[0]))
        began = time.monotonic()
        exit_code, out, err = running.stop(getattr(signal, signals[1]))
        took = time.monotonic() - began

    assert (exit_code, out) == (130, "")
    assert err == "perdure: interrupted; everything acknowledged is on disk\n"
    assert took < CLOSE_SECONDS + GRACE_SECONDS


@pytest.mark.slow
@pytest.mark.cloud
def test_tick_that_a_queue_asked_for_is_done_with_and_asks_for_the_next_before_the_queues_end(
    tmp_path,
):
    reef = {"name": "reef", "world_id": "reef", "every": "1s"}
    with deployed(
        tmp_path / "root", "--app", "tests.emulator.slow:app", "--speed", "60"
    ) as running:
        running.http.post("/v1/worlds", json=reef)
        running.http.post("/v1/worlds/reef/commands", json={"commands": [SPAWN]})
        assert running.process.stdout.readline() == "slow\n"
        assert running.process.stdout.readline() == "slow\n"

        exit_code, _, err = running.stop(signal.SIGTERM)

    assert exit_code == 0
    assert '"world":"reef"' in err
    assert "not_sent" not in err
    assert "Traceback" not in err
