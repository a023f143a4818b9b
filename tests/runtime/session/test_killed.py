"""SIGKILL at each step of a session on SQLite: another process ends it as the effect classes say."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter

import pytest
from tests.house.sources import ROOT, environment
from tests.runtime.session.test_deaths import EFFECTS, KINDS

pytestmark = pytest.mark.sessions

# After an effectful call: not only in the slow suite.
OFTEN = {("after", 10)}
PLACES = [
    pytest.param(when, place, marks=[] if (when, place) in OFTEN else [pytest.mark.slow])
    for when in ("before", "after")
    for place in range(1, len(KINDS) + 1)
]


def lived(directory, place, when):
    return subprocess.run(
        [sys.executable, "-m", "tests.runtime.session.living", directory, str(place), when],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(("when", "place"), PLACES)
def test_a_killed_process_leaves_a_session_that_another_one_ends(when, place, tmp_path):
    killed = lived(tmp_path, place, when)
    after = lived(tmp_path, 0, when)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert after.returncode == 0, after.stderr
    frames = json.loads(after.stdout)
    effects = Counter(map(tuple, map(json.loads, (tmp_path / "effects").read_text().splitlines())))
    assert all(times == 1 for (name, _), times in effects.items() if EFFECTS[name] == "effectful")
    ends = [payload["reason"] for kind, payload in frames if kind == "run_finished"]
    unknown = [
        payload
        for kind, payload in frames
        if kind == "tool_result" and payload["outcome"] == "unknown"
    ]
    assert len(ends) == 2
    assert ("interrupted" in ends) == bool(unknown)
    if "interrupted" not in ends:
        assert {name for name, _ in effects} == set(EFFECTS)
