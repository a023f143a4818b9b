"""Consumers and history on the command line, on a storage in a local directory."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.lifecycle

SPAWN = {"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}}
GONE = {"operation": "despawn", "entity_id": 77, "command_id": "gone"}


def lines(*commands):
    return "".join(json.dumps(command) + "\n" for command in commands)


def test_a_reader_is_added_acknowledged_listed_and_removed(local, harbour):
    added = local("consumers", "add", "harbour", "hook", "--required", "--json")
    read = local("consumers", "acknowledge", "harbour", "hook", "1", "--json")
    listed = local("consumers", "list", "harbour", "--json")
    shown = local("consumers", "list", "harbour")
    removed = local("consumers", "remove", "harbour", "hook", "--json")
    after = local("consumers", "list", "harbour")

    assert added.json == {"name": "hook", "seq": 0, "lag": 2, "required": True}
    assert read.json == {"name": "hook", "seq": 1, "lag": 1, "required": True}
    assert listed.json == {"consumers": [read.json]}
    assert [line.split() for line in shown.out.splitlines()][1] == ["hook", "1", "1", "True"]
    assert removed.json == {"removed": "hook"}
    assert after.out == "nobody reads the log yet\n"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("acknowledge", "harbour", "hook", "99"), 1, "out_of_range"),
        (("acknowledge", "harbour", "nobody", "1"), 1, "not_found"),
        (("acknowledge", "harbour", "hook", "-1"), 2, ""),
        (("acknowledge", "harbour", "hook"), 2, ""),
        (("add", "nowhere", "hook"), 1, "not_found"),
        (("add", "harbour", "x" * 33), 1, "invalid_id"),
        (("remove", "harbour", "audit"), 1, "invalid"),
        (("list", "nowhere"), 1, "not_found"),
    ],
)
def test_what_is_refused_is_told_with_its_code(local, harbour, arguments, code, told):
    local("consumers", "add", "harbour", "hook")

    run = local("consumers", *arguments)

    assert run.exit_code == code
    assert told in run.err


def test_history_is_read_as_far_as_it_has_landed(local, harbour):
    local("submit", "harbour", "-", "--batch-id", "b", stdin=lines(SPAWN, GONE))
    local("tick", "harbour")

    before = local("history", "harbour")
    landed = local("land", "--json")
    told = local("history", "harbour", "--json")
    some = local("history", "harbour", "--kind", "rejected", "--to-tick", "0", "--json")
    shown = local("history", "harbour", "--limit", "2")

    assert (before.out, before.err) == (
        "no such events\n",
        "As far as it has landed: entry 0 of 3 of the log.\n",
    )
    assert (landed.json["events"], landed.json["entries"]) == (5, 3)
    kinds = [event["kind"] for event in told.json["events"]]
    assert kinds == ["created", "queued", "queued", "applied", "rejected"]
    assert [event["code"] for event in some.json["events"]] == ["entity_not_found"]
    assert [line.split()[3] for line in shown.out.splitlines()[1:]] == ["created", "queued"]
    assert shown.err == ""


def test_history_of_more_than_a_page_is_read_whole(local, harbour):
    local("submit", "harbour", "-", "--json", stdin=lines(*[SPAWN] * 1_200))
    local("land")

    told = local("history", "harbour", "--limit", "5000", "--json")
    few = local("history", "harbour", "--limit", "1100", "--json")

    assert len(told.json["events"]) == 1_201
    assert len(few.json["events"]) == 1_100


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("nowhere",), 1, "not_found"),
        (("harbour", "--kind", "exploded"), 1, "invalid_value"),
        (("harbour", "--from-tick", "-1"), 2, ""),
        (("harbour", "--from-at", "yesterday"), 2, ""),
    ],
)
def test_history_that_cannot_be_asked_is_refused(local, harbour, arguments, code, told):
    run = local("history", *arguments)

    assert run.exit_code == code
    assert told in run.err


def test_instants_are_given_as_people_write_them(local, harbour):
    local("land")

    old = local("history", "harbour", "--to-at", "2001-01-01", "--json")
    new = local("history", "harbour", "--from-at", "2001-01-01 12:00:00", "--json")

    assert (old.json["events"], len(new.json["events"])) == ([], 1)
