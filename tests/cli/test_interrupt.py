"""Ctrl-C at a command: what it held is let go before the process ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
from tests.emulator.harbour import app
from tests.support.children import child

import perdure
from perdure.kernel.fence import TakeFence
from perdure.kernel.ids import Holder
from perdure.kernel.records import head_key
from perdure.kernel.view import Reads

HARBOUR = "tests.emulator.harbour:app"


async def head_of(root, world):
    async with perdure.open(root.as_uri(), app=app) as storage:
        ref = storage.worlds.ref(world)
        view = await storage.ticker.means.authority.view(Reads(keys=(head_key(ref.partition),)))
        return view.get(head_key(ref.partition))


async def may_be_taken(root, world):
    async with perdure.open(root.as_uri(), app=app) as storage:
        request = TakeFence(storage.worlds.ref(world), Holder("next"), 1_000)
        return await storage.ticker.means.authority.execute(request)


def running(*words):
    """Run a command that Ctrl-C reaches, also where this process was told to ignore it."""
    return child(
        [sys.executable, "-m", "perdure.cli.main", *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize("pause_seconds", [0.0, 0.05, 0.3])
def test_ctrl_c_in_a_run_of_ticks_lets_the_fence_go(local, root, harbour, pause_seconds):
    words = ["tick", "harbour", "--ticks", "100000", "--root", str(root), "--app", HARBOUR]
    with running(*words) as run:
        while asyncio.run(head_of(root, "harbour")).published < 20:
            assert run.poll() is None, run.communicate()
            time.sleep(0.05)
        time.sleep(pause_seconds)

        run.send_signal(signal.SIGINT)
        _, told = run.communicate(timeout=120)

    assert run.returncode not in {0, -signal.SIGINT}, told
    assert "Traceback" not in told
    grip = asyncio.run(may_be_taken(root, "harbour"))
    assert grip.head.drain.starts == 0
