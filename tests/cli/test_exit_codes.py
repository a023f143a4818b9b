"""Exit codes: the family of an error decides, whichever command met it and however it came."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.emulator.deployment import refused
from tests.support.errors import kinds

from perdure.kernel import errors
from perdure.kernel.errors import Refused, Unavailable

SPAWN = json.dumps({"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}})

COMMANDS = [
    ("worlds",),
    ("world", "create", "quay"),
    ("world", "show", "harbour"),
    ("log", "harbour"),
    ("submit", "harbour", "-"),
    ("command", "show", "harbour", "b.0"),
    ("command", "cancel", "harbour", "b.0"),
    ("query", "harbour", "--components", "Position"),
    ("processors", "list", "harbour"),
    ("hooks", "remove", "harbour", "look_out"),
    ("resources", "add", "harbour", "chart"),
    ("tick", "harbour"),
    ("land",),
]


@contextmanager
def answering(status, body):
    """A server that gives one answer to everything; its address."""

    class Same(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Same) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def one_line(run, exit_code, code):
    assert run.exit_code == exit_code, run.err
    assert run.out == ""
    assert run.err.startswith(f"perdure: {code}: ")
    assert run.err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_storage_of_a_newer_version_is_refused_by_every_command(local, catalog, command):
    with sqlite3.connect(catalog) as database:
        database.execute("UPDATE meta SET value = 99 WHERE name = 'schema'")
    database.close()

    one_line(local(*command, stdin=SPAWN), 1, "newer_schema")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_storage_that_is_corrupt_is_refused_by_every_command(local, catalog, command):
    catalog.write_bytes(b"no database" * 1_000)

    one_line(local(*command, stdin=SPAWN), 1, "corrupt")


def test_storage_that_is_corrupt_is_refused_by_the_emulator_too(root, catalog):
    catalog.write_bytes(b"no database" * 1_000)

    run = refused(root, "--port", "0")

    assert run.returncode == 1
    assert run.stderr.startswith("perdure: corrupt: ")
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [each for each in COMMANDS if each[1:2] != ("create",)])
def test_root_that_is_missing_is_unavailable_to_every_command(local, root, command):
    one_line(local(*command, stdin=SPAWN), 3, "store_unavailable")
    assert not root.exists()


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        *((kind, 1) for kind in kinds(Refused)),
        *((kind, 3) for kind in kinds(Unavailable)),
    ],
)
@pytest.mark.parametrize("status", [409, 500])
def test_family_of_an_answered_code_decides_and_not_its_status(perdure, kind, exit_code, status):
    body = json.dumps({"code": kind.code, "detail": "Expected this; found that."}).encode()

    with answering(status, body) as url:
        run = perdure("worlds", "--url", url)

    one_line(run, exit_code, kind.code)


@pytest.mark.parametrize(
    ("status", "exit_code"), [(404, 1), (403, 1), (429, 3), (500, 3), (503, 3)]
)
def test_answer_of_the_gateway_itself_has_no_code_and_its_status_decides(
    perdure, status, exit_code
):
    with answering(status, b'{"message": "No"}') as url:
        run = perdure("worlds", "--url", url)

    one_line(run, exit_code, "refused_by_the_gateway")


def test_submission_that_is_refused_says_so_and_how_to_go_on_in_one_line(local, harbour):
    run = local("submit", "nowhere", "-", "--batch-id", "b", stdin=SPAWN)

    one_line(run, 1, "not_found")
    assert run.err.endswith(" 0 of 1 batches are accepted; to go on: --batch-id b\n")


def test_failure_with_much_to_say_is_told_in_one_line(perdure, root):
    there = ("--root", root, "--app", "tests.cli.failing:app")
    perdure("world", "create", "reef", "--world-id", "reef", *there)
    perdure("submit", "reef", "-", *there, stdin=SPAWN)

    run = perdure("tick", "reef", *there)

    one_line(run, 3, errors.TickFailed.code)
    assert "aground at low tide on a reef" in run.err
