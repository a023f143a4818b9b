"""`perdure verify` and `perdure land --trim`: what was kept is proved, and what may go goes."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

pytestmark = pytest.mark.lifecycle

SPAWN = {"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}}


@pytest.fixture
def lived(local, harbour):
    """A world with a few ticks behind it."""
    local("submit", "harbour", "-", stdin=json.dumps(SPAWN))
    assert local("tick", "harbour", "--ticks", "4").exit_code == 0


def test_a_sound_world_verifies_with_exit_code_0(local, lived):
    run = local("verify", "harbour", "--json")
    part = local("verify", "harbour", "--from-tick", "1", "--to-tick", "2", "--json")
    shown = local("verify", "harbour")

    assert (run.exit_code, run.json) == (0, {"checked_ticks": 4, "findings": []})
    assert (part.exit_code, part.json["checked_ticks"]) == (0, 2)
    assert (shown.exit_code, shown.out.split()) == (0, ["checked_ticks", "4", "findings", "0"])


def test_a_flipped_byte_is_named_with_exit_code_1(local, lived, catalog):
    with closing(sqlite3.connect(catalog)) as database, database:
        query = "SELECT partition, sort, body FROM record WHERE sort LIKE 'manifest/%2'"
        ((partition, sort, body),) = database.execute(query).fetchall()
        body = body[:50] + bytes([body[50] ^ 1]) + body[51:]
        change = "UPDATE record SET body = ? WHERE partition = ? AND sort = ?"
        database.execute(change, (body, partition, sort))

    run = local("verify", "harbour", "--json")
    shown = local("verify", "harbour")

    (finding,) = run.json["findings"]
    assert (run.exit_code, shown.exit_code) == (1, 1)
    assert (finding["kind"], finding["where"]) == ("manifest", "manifest 2")
    assert "manifest 2" in shown.out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("verify", "nowhere"), "not_found"),
        (("verify", "harbour", "--to-tick", "4"), "not_published"),
        (("verify", "harbour", "--from-tick", "3", "--to-tick", "1"), "invalid"),
        (("land", "--trim", "--grace", "1m"), "invalid"),
        (("land", "--trim", "--grace", "soon"), "invalid_value"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_code(local, lived, arguments, code):
    run = local(*arguments)

    assert (run.exit_code, run.err.split(": ")[1]) == (1, code)


def test_a_dry_run_without_a_trim_is_used_wrongly(local, lived):
    assert local("land", "--dry-run").exit_code == 2


def test_landing_and_trimming_tell_what_they_did(local, lived):
    would = local("land", "--trim", "--dry-run", "--json")
    run = local("land", "--trim", "--grace", "15m", "--json")

    nothing = dict.fromkeys(
        ("segments", "checkpoints", "orphans", "bytes", "undecided", "archived"), 0
    )
    unlanded = dict.fromkeys(("rows", "files", "events", "entries"), 0)
    landed = {"rows": 4, "files": 1, "events": 3, "entries": 6}
    assert (would.exit_code, would.json) == (0, {**unlanded, **nothing})
    assert (run.exit_code, run.json) == (0, {**landed, **nothing})
    assert local("verify", "harbour").exit_code == 0
