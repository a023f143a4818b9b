"""The command line on a local directory: no server, the same words, the same codes."""

from __future__ import annotations

import json

import pytest

SPAWN = {"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}}


def lines(*commands):
    return "".join(json.dumps(command) + "\n" for command in commands)


def test_world_is_created_shown_and_listed(local):
    made = local("world", "create", "harbour", "--world-id", "h", "--every", "1m", "--json")

    shown = local("world", "show", "h", "--json")
    listed = local("worlds", "--json")

    assert (made.exit_code, shown.exit_code, listed.exit_code) == (0, 0, 0)
    assert made.json == shown.json
    assert listed.json == {"worlds": [made.json]}
    assert made.json["every_ms"] == 60_000


def test_people_see_tables(local, harbour):
    listed = local("worlds")

    heading, row = listed.out.splitlines()
    assert heading.split()[:3] == ["world_id", "name", "status"]
    assert row.split()[:3] == ["harbour", "harbour", "active"]


def test_commands_come_from_standard_input_line_by_line(local, harbour):
    run = local("submit", "harbour", "-", "--json", stdin=lines(SPAWN, SPAWN))

    assert run.exit_code == 0
    assert [each["entity_id"] for each in run.json["receipts"]] == [1, 2]


def test_commands_come_from_a_file_as_an_array(local, harbour, tmp_path):
    (tmp_path / "commands.json").write_text(json.dumps([SPAWN, SPAWN]))

    run = local("submit", "harbour", tmp_path / "commands.json", "--json")

    assert [each["entity_id"] for each in run.json["receipts"]] == [1, 2]


def test_submitting_again_under_one_id_does_nothing_twice(local, harbour):
    once = local("submit", "harbour", "-", "--batch-id", "a", "--json", stdin=lines(SPAWN))
    again = local("submit", "harbour", "-", "--batch-id", "a", "--json", stdin=lines(SPAWN))

    entities = [each["entity_id"] for run in (once, again) for each in run.json["receipts"]]
    assert entities == [1, 1]


def test_more_ticks_than_a_batch_holds_become_more_batches(local, harbour):
    commands = [{**SPAWN, "tick": number} for number in range(200)]

    run = local("submit", "harbour", "-", "--json", stdin=lines(*commands))

    assert run.json["batches"] == 3
    assert [each["tick"] for each in run.json["receipts"]] == list(range(200))


def test_more_bytes_than_a_batch_holds_become_more_batches(local, harbour):
    command = {"operation": "spawn", "components": {"Note": {"text": "x" * 60_000}}}

    run = local("submit", "harbour", "-", "--json", stdin=lines(*[command] * 150))

    assert run.exit_code == 0, run.err
    assert run.json["batches"] == 2


def test_nothing_is_sent_when_one_command_is_wrong(local, harbour):
    run = local("submit", "harbour", "-", stdin=lines(*[SPAWN] * 20, {"operation": "explode"}))

    assert run.exit_code == 1
    assert run.err.startswith("perdure: unknown_operation: ")
    assert local("world", "show", "harbour", "--json").json["pending_commands"] == 0


def test_day_from_commands_to_rows(local, harbour):
    later = {**SPAWN, "tick": 3}
    local(
        "submit",
        "harbour",
        "-",
        stdin=lines(SPAWN, later),
    )

    ran = local("tick", "harbour", "--to-tick", 5, "--json")
    state = local("query", "harbour", "--components", "Position", "--tick", 4, "--json")
    landed = local("land", "--json")
    moved = local(
        "query", "harbour", "--components", "Position", "--from-tick", 2, "--to-tick", 3, "--json"
    )

    assert ran.json == {
        "published_tick": 5,
        "ticks": 6,
        "applied": 2,
        "rejected": 0,
        "hook_failures": [],
    }
    assert [(row["entity_id"], row["position__x"]) for row in state.json["rows"]] == [
        (1, 6.0),
        (2, 3.0),
    ]
    assert landed.json == {"rows": 9, "files": 1, "events": 5, "entries": 8}
    assert [(row["tick"], row["entity_id"]) for row in moved.json["rows"]] == [
        (2, 1),
        (3, 1),
        (3, 2),
    ]


def test_rows_are_chosen_by_entity_condition_and_number(local, harbour):
    local("submit", "harbour", "-", stdin=lines(*[SPAWN] * 5))
    local("tick", "harbour")

    def entities(*options):
        run = local("query", "harbour", "--components", "Position", "--json", *options)
        return [row["entity_id"] for row in run.json["rows"]]

    assert entities("--entity", 4, "--entity", 2) == [2, 4]
    assert entities("--limit", 3) == [1, 2, 3]
    assert entities("--where", "position__x > 100") == []


def test_ticks_run_one_after_another(local, harbour):
    local("tick", "harbour")

    run = local("tick", "harbour", "--ticks", 2, "--json")

    assert (run.json["published_tick"], run.json["ticks"]) == (2, 2)


def test_command_is_shown_and_cancelled(local, harbour):
    local("submit", "harbour", "-", "--batch-id", "a", stdin=lines({**SPAWN, "tick": 9}))

    shown = local("command", "show", "harbour", "a-000000.0", "--json")
    cancelled = local("command", "cancel", "harbour", "a-000000.0", "--json")

    assert shown.json["status"] == "pending"
    assert (cancelled.json["status"], cancelled.json["code"]) == ("rejected", "cancelled")


def test_log_is_read(local, harbour):
    run = local("log", "harbour", "--json")

    assert [entry["kind"] for entry in run.json["entries"]] == ["created"]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (("world", "show", "nowhere"), 1, "not_found"),
        (("world", "show", "a/b"), 1, "invalid_id"),
        (("world", "show", "x" * 129), 1, "invalid_id"),
        (("world", "create", "", "--world-id", "new"), 1, "invalid_id"),
        (("world", "create", "harbour", "--world-id", "new"), 1, "name_taken"),
        (("world", "create", "quay", "--world-id", "harbour"), 1, "conflict"),
        (("log", "nowhere"), 1, "not_found"),
        (("tick", "nowhere"), 1, "not_found"),
        (("command", "show", "harbour", "unheard"), 1, "not_found"),
        (("command", "show", "harbour", "a/b"), 1, "invalid_id"),
        (("query", "harbour", "--components", "Position"), 1, "not_published"),
        (("query", "harbour", "--components", "Position", "--tick", "9"), 1, ""),
        (("submit", "nowhere", "-"), 1, "invalid_batch"),
        (("query", "harbour"), 2, "Missing option '--components'."),
        (("query", "harbour", "--components", "Position", "--tick", "soon"), 2, "--tick"),
        (("tick", "harbour", "--ticks", "0"), 2, "--ticks"),
        (("tick", "harbour", "--ticks", "1", "--to-tick", "1"), 2, "not both"),
        (("world", "create", "quay", "--every", "sometimes"), 2, "--every"),
        (("submit", "harbour", "no-such-file"), 2, "no-such-file"),
        (("worlds", "--colour", "red"), 2, "--colour"),
    ],
)
def test_bad_input_is_one_clear_line(local, harbour, arguments, exit_code, code):
    run = local(*arguments)

    assert run.exit_code == exit_code, run.err
    assert run.out == ""
    assert run.err.startswith("perdure: ")
    assert run.err.count("\n") == 1
    assert code in run.err


@pytest.mark.parametrize("text", ["{", "[1, 2", '{"operation": NaN}', "7\n8\n"])
def test_commands_that_are_none_are_one_clear_line(local, harbour, text):
    run = local("submit", "harbour", "-", stdin=text)

    assert run.exit_code == 1
    assert run.err.count("\n") == 1


def test_reading_a_directory_that_is_not_there_makes_none(local, root):
    run = local("worlds")

    assert run.exit_code == 3
    assert run.err == (
        f"perdure: store_unavailable: Expected a storage in {root}; found no such directory.\n"
    )
    assert not root.exists()


def test_reading_a_directory_without_a_storage_makes_none(local, root):
    root.mkdir()

    run = local("worlds")

    assert run.exit_code == 3
    assert list(root.iterdir()) == []


def test_catalog_that_was_cut_to_nothing_is_not_taken_for_a_storage_without_worlds(local, catalog):
    catalog.write_bytes(b"")

    run = local("worlds")

    assert run.exit_code == 3
    assert run.err.startswith("perdure: store_unavailable: ")
    assert catalog.name in run.err
    assert catalog.read_bytes() == b""


def test_application_that_does_not_exist_is_one_clear_line_and_makes_nothing(perdure, root):
    run = perdure("world", "create", "harbour", "--root", root, "--app", "no.such:app")

    assert run.exit_code == 1
    assert run.err.count("\n") == 1
    assert not root.exists()


def test_place_must_be_named_once(perdure, root):
    neither = perdure("worlds")
    both = perdure("worlds", "--root", root, "--url", "http://127.0.0.1:1")

    assert (neither.exit_code, both.exit_code) == (2, 2)


def test_address_where_nobody_listens_is_one_clear_line(perdure):
    run = perdure("worlds", "--url", "http://127.0.0.1:1")

    assert run.exit_code == 3
    assert run.err.count("\n") == 1
    assert run.err.startswith("perdure: unavailable: ")


def test_address_that_is_none_is_used_wrongly(perdure):
    assert perdure("worlds", "--url", "harbour").exit_code == 2
