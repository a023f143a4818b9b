"""The parts of a tick can still be told, and its syncs are counted."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.bench
def test_a_tick_of_one_segment_syncs_its_file_its_directory_and_the_commit():
    # In a process of its own: what is timed stays wrapped.
    command = [sys.executable, "-m", "tests.bench.tick_parts", "--ticks", "2"]

    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert told.splitlines()[-1] == "3 syncs and 3 hops to other threads a tick"
