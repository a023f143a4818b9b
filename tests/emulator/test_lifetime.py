"""The life of an emulator: it starts or says why not, stops when told, and survives a kill."""

from __future__ import annotations

import signal
import socket
import sqlite3
import time

import httpx
import pytest
from click.testing import CliRunner
from tests.emulator.deployment import deployed, refused

from perdure_emulator.dev import dev

SECONDS = 120
SPAWN = {"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}}


def create(http, **fields):
    reply = http.post("/v1/worlds", json={"name": "harbour", "world_id": "harbour", **fields})
    assert reply.status_code == 201, reply.text


def one_line(run, exit_code, *parts):
    assert run.returncode == exit_code, run.stderr
    assert run.stderr.count("\n") == 1, run.stderr
    assert run.stderr.startswith("perdure: ")
    for part in parts:
        assert part in run.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_emulator_that_is_told_to_stop_says_so_and_keeps_everything(tmp_path, number):
    with deployed(tmp_path / "root") as running:
        create(running.http)
        exit_code, out, err = running.stop(number)

    assert (exit_code, err) == (0, "")
    assert out == "perdure has stopped; everything acknowledged is on disk\n"
    with deployed(tmp_path / "root") as running:
        assert running.http.get("/v1/worlds/harbour").status_code == 200


def test_request_in_hand_is_answered_before_the_emulator_stops(tmp_path):
    with deployed(tmp_path / "root") as running:
        create(running.http)
        running.http.post("/v1/worlds/harbour/commands", json={"commands": [SPAWN]})
        with running.http.stream("POST", "/v1/worlds/harbour/tick", json={"to_tick": 200}) as reply:
            running.process.send_signal(signal.SIGTERM)
            answered = reply.read()

        assert b'"published_tick":200' in answered
        assert running.process.wait(30) == 0


@pytest.mark.slow
def test_what_was_acknowledged_before_a_kill_is_there_after_it_once(tmp_path):
    acknowledged = []
    with deployed(tmp_path / "root") as running:
        create(running.http)
        for number in range(100):
            body = {"commands": [SPAWN], "batch_id": f"b{number}"}
            reply = running.http.post("/v1/worlds/harbour/commands", json=body)
            acknowledged.append(reply.json()["receipts"])
        running.process.kill()
        running.process.wait()

    with deployed(tmp_path / "root") as running:
        for number, receipts in enumerate(acknowledged):
            body = {"commands": [SPAWN], "batch_id": f"b{number}"}
            again = running.http.post("/v1/worlds/harbour/commands", json=body).json()
            assert again["replayed"]
            assert [each["entity_id"] for each in again["receipts"]] == [
                each["entity_id"] for each in receipts
            ]
        ran = running.http.post("/v1/worlds/harbour/tick", json={"to_tick": 0}).json()
        assert ran["applied"] == 100


def test_world_with_a_schedule_ticks_by_itself(tmp_path):
    with deployed(tmp_path / "root", "--speed", "120") as running:
        create(running.http, every_ms=1_000)

        until = time.monotonic() + SECONDS
        while running.http.get("/v1/worlds/harbour").json()["published_tick"] is None:
            assert time.monotonic() < until, f"no tick in {SECONDS} seconds"
            running.http.get("/v1/worlds/harbour/log", params={"after": 1, "wait": 1})


def test_port_in_use_is_one_clear_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = refused(tmp_path / "root", "--port", str(port))

    one_line(run, 3, f"port {port}", "address already in use")


def test_root_below_nothing_is_one_clear_line_and_is_not_made(tmp_path):
    run = refused(tmp_path / "missing" / "root", "--port", "0")

    one_line(run, 3, str(tmp_path / "missing" / "root"), "no such file or directory")
    assert not (tmp_path / "missing").exists()


def test_root_that_cannot_be_written_is_one_clear_line(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "default").write_text("in the way")

    one_line(refused(tmp_path / "root", "--port", "0"), 3, str(tmp_path / "root"))


def test_newer_schema_is_one_clear_line(tmp_path):
    with deployed(tmp_path / "root") as running:
        running.stop(signal.SIGTERM)
    (file,) = (tmp_path / "root").rglob(".perdure-catalog-sqlite.db")
    with sqlite3.connect(file) as database:
        database.execute("UPDATE meta SET value = 99 WHERE name = 'schema'")
    database.close()

    one_line(refused(tmp_path / "root", "--port", "0"), 1, "newer_schema")


@pytest.mark.parametrize(("option", "given"), [("--speed", "nan"), ("--port", "65536")])
def test_number_that_is_none_is_used_wrongly_and_makes_nothing(tmp_path, option, given):
    options = {"--port": "0", option: given}

    run = refused(tmp_path / "root", *(word for each in options.items() for word in each))

    one_line(run, 2, option)
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    ("option", "given"),
    [
        *(("--speed", each) for each in ("nan", "inf", "0", "-1", "-inf", "fast")),
        *(("--port", each) for each in ("-1", "65536", "http")),
    ],
)
def test_no_storage_is_made_for_a_number_that_is_none(tmp_path, monkeypatch, option, given):
    made = []
    monkeypatch.setattr("perdure_emulator.dev.made", made.append)

    run = CliRunner().invoke(dev, ["--root", str(tmp_path / "root"), option, given])

    assert run.exit_code == 2, run.output
    assert option in run.output
    assert made == []


def test_application_that_does_not_exist_is_one_clear_line(tmp_path):
    run = refused(tmp_path / "root", "--port", "0", "--app", "no.such:app")

    one_line(run, 1, "no.such")
    assert not (tmp_path / "root").exists()


def test_template_that_is_none_is_one_clear_line(tmp_path):
    (tmp_path / "template.yaml").write_text("- nothing\n")

    run = refused(tmp_path / "root", "--port", "0", "--template", str(tmp_path / "template.yaml"))

    one_line(run, 1, "template.yaml")


def test_emulator_listens_on_loopback_only(tmp_path):
    with deployed(tmp_path / "root") as running:
        port = running.http.base_url.port
        with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
            socket.create_connection((_own_address(), port), timeout=2)


def _own_address():
    """An address of this machine that is not loopback; loopback's second one if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.2"
        return probe.getsockname()[0]


def test_client_that_goes_away_leaves_the_emulator_running(tmp_path):
    with deployed(tmp_path / "root") as running:
        create(running.http)
        params, hurry = {"after": 1, "wait": 20}, httpx.Timeout(SECONDS, read=0.2)
        with pytest.raises(httpx.ReadTimeout):
            running.http.get("/v1/worlds/harbour/log", params=params, timeout=hurry)

        assert running.http.get("/healthz").json() == {"status": "ok"}
