"""The emulator is started, listened to and stopped; the reader is another process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from airspace.client import Problem
from airspace.processes import LOG_FILE, emulator, read_back, token


def program(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    return (sys.executable, str(path))


LISTENS = """
import os, signal, sys
print("starting", sys.argv[1:], flush=True)
print("perdure is listening on http://127.0.0.1:4711", os.getpid(), flush=True)
print("x" * 200_000, flush=True)
print("one more word", file=sys.stderr, flush=True)
open(sys.argv[3] + "/pid", "w").write(str(os.getpid()))
signal.pause()
"""

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LISTENS


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pid_in(root: Path) -> int:
    return int((root / "pid").read_text())


def wait_for(path: Path) -> None:
    while not (path.exists() and path.read_text()):
        pass


@pytest.mark.parametrize("text", [LISTENS, STUBBORN])
def test_the_emulator_is_gone_when_the_block_is_left(tmp_path, monkeypatch, text):
    monkeypatch.setattr("airspace.processes.STOP_SECONDS", 0.3)

    with emulator(tmp_path, command=program(tmp_path, text)) as address:
        wait_for(tmp_path / "pid")
        was_running = is_running(pid_in(tmp_path))

    assert address == "http://127.0.0.1:4711"
    assert was_running
    assert not is_running(pid_in(tmp_path))


def test_the_emulator_is_stopped_when_the_work_fails(tmp_path):
    def interrupted():
        with emulator(tmp_path, command=program(tmp_path, LISTENS)):
            wait_for(tmp_path / "pid")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert not is_running(pid_in(tmp_path))


def test_all_that_the_emulator_says_is_in_its_log(tmp_path):
    with emulator(tmp_path, command=program(tmp_path, LISTENS)):
        wait_for(tmp_path / "pid")

    log = (tmp_path / LOG_FILE).read_text()
    assert str(["dev", "--root", str(tmp_path), "--port", "0"]) in log
    assert "one more word" in log
    assert log.count("x") >= 200_000


def test_an_emulator_that_does_not_start_is_reported_with_its_last_words(tmp_path):
    failing = program(tmp_path, "import sys; sys.exit('expected a writable root; found none')")

    with (
        pytest.raises(Problem, match="expected a writable root; found none"),
        emulator(tmp_path, command=failing),
    ):
        pytest.fail("it listens")


def test_a_token_is_asked_of_the_command_line(tmp_path):
    said = program(tmp_path, "import sys; print(*sys.argv[1:])")

    words = token(tmp_path, command=said).split()

    assert words[:3] == ["token", "--role", "admin"]
    assert words[-2:] == ["--root", str(tmp_path)]


def test_a_token_that_is_not_given_is_reported(tmp_path):
    failing = program(tmp_path, "import sys; sys.exit('expected a storage; found none')")

    with pytest.raises(Problem, match="expected a storage; found none"):
        token(tmp_path, command=failing)


QUERY = """
import json, sys
assert sys.argv[1:] == ["query", "w", "--components", "Position", "--from-tick", "0",
                        "--to-tick", "1499", "--root", sys.argv[-2], "--json"], sys.argv
row = {"entity_id": 7, "tick": 480, "position__latitude": 40.5, "position__longitude": -73.5}
print(json.dumps({"rows": [row | {"is_active": True}, row | {"is_active": False, "tick": 481}]}))
"""


def test_only_live_rows_are_sightings(tmp_path):
    sightings = read_back(tmp_path, "w", command=program(tmp_path, QUERY))

    assert sightings.entity_ids.tolist() == [7]
    assert sightings.ticks.tolist() == [480]
    assert (sightings.latitudes.tolist(), sightings.longitudes.tolist()) == ([40.5], [-73.5])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import sys; sys.exit('not_found: no such world')", "not_found: no such world"),
        ("import sys; sys.exit(3)", "it said nothing"),
        ("print('hello')", "printed no rows"),
        ("print('{}')", "printed no rows"),
        ("print('{\"rows\": []}')", "found no position"),
    ],
)
def test_a_query_that_brings_nothing_is_reported(tmp_path, text, message):
    with pytest.raises(Problem, match=message):
        read_back(tmp_path, "w", command=program(tmp_path, text))
