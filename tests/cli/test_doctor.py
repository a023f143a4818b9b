"""Doctor: what is broken is told in one line with what to do, and nothing is touched."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path

import pytest
from tests.emulator.deployment import deployed, key_of
from tests.house.sources import ROOT
from tests.support.answers import answering, silent

from perdure.api.checkup_settings import KNOWN, storage_key_check, variables_check
from perdure.api.settings import local as storage_in
from perdure.api.settings import place
from perdure.authority.sqlite_schema import open_database
from perdure.kernel.places import catalog_partition

pytestmark = pytest.mark.cloud

NOBODY = 65_534
NOT_SETTINGS = {"PERDURE_DYNAMODB_LOCAL", "PERDURE_TEST_DIARY"}
"""Read by tests only."""

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


def findings_of(run, check):
    return [each for each in run.json["findings"] if each["check"] == check]


def only(run, check):
    (found,) = findings_of(run, check)
    return found


def levels(run):
    return {each["check"]: each["level"] for each in run.json["findings"]}


def everything_in(directory):
    """Names, times and bytes; of the memory that processes share by a file, its name only."""
    return {
        path: None
        if path.name.endswith("-shm")
        else (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in sorted([directory, *directory.rglob("*")])
    }


# ------------------------------------------------------------------ a storage of this machine


def test_storage_that_is_well_is_one_line_a_check_and_stays_untouched(local, root, harbour):
    local("tick", "harbour", "--ticks", 2)
    local("land")
    before = everything_in(root)

    run = local("doctor")

    assert (run.exit_code, run.err) == (0, "")
    assert {line[:4].strip() for line in run.out.splitlines()} == {"ok", "skip"}
    told = [line.split()[1] for line in run.out.splitlines()]
    assert len(told) == len(set(told))
    assert everything_in(root) == before


def test_storage_that_a_writer_has_open_is_read_beside_it(local, root, catalog):
    with open_database(catalog, busy_ms=1) as writer:
        writer.execute("SELECT count(*) FROM record").fetchone()
        local("world", "create", "quay", "--world-id", "quay")
        assert catalog.with_name(f"{catalog.name}-wal").stat().st_size > 0
        before = everything_in(root)

        run = local("doctor", "--json")

        assert everything_in(root) == before
    writer.close()
    assert only(run, "worlds")["found"] == "2 of 2 worlds go on, none waits"


def test_probe_of_writes_leaves_the_directory_as_it_was(local, root, harbour):
    before = {path.name for path in root.rglob("*")}

    run = local("doctor", "--write", "--json")

    assert only(run, "directory-write")["level"] == "ok"
    assert {path.name for path in root.rglob("*")} == before


def test_storage_key_is_the_second_part_of_its_partitions(local, root, harbour):
    run = local("doctor", "--json")

    _, key = catalog_partition(storage_in(root).storage).split("/")
    assert len(key) == 22
    assert only(run, "storage-key")["found"].startswith(f"{key};")


@pytest.mark.parametrize("level", ["", "debug", "WARNING"])
def test_level_of_the_log_that_is_one_is_well(level):
    (found,) = variables_check({"POWERTOOLS_LOG_LEVEL": level}).ask()

    assert found.level == "ok"


def test_storage_key_of_a_local_authority_is_not_called_the_templates(local, harbour):
    found = only(local("doctor", "--json"), "storage-key")["found"]

    assert found.endswith("; the template's parameter StorageKey is that of a storage in a table")


def test_storage_key_of_a_table_is_the_templates_parameter():
    (found,) = storage_key_check(place("s3://lake", table="table")).ask()

    assert found.found.endswith(" is the template's parameter StorageKey")


def test_catalog_that_is_empty_is_not_to_be_made_anew(local, catalog):
    catalog.write_bytes(b"")

    run = local("doctor", "--json")

    assert run.exit_code == 1
    assert "an empty file" in only(run, "directory")["found"]
    assert only(run, "directory")["remedy"].startswith(f"restore {catalog.name} from a copy")


def test_authority_of_a_bucket_that_is_not_on_this_machine_asks_for_the_table(
    perdure, monkeypatch, tmp_path
):
    monkeypatch.setenv("PERDURE_CATALOG_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    run = perdure("doctor", "--storage", "s3://lake", "--json")

    assert only(run, "directory")["remedy"].startswith("name the table of this storage, --table")


def test_directory_that_is_not_there_is_told_with_what_makes_it_and_is_not_made(local, root):
    run = local("doctor", "--json")

    assert run.exit_code == 1
    assert "no such directory" in only(run, "directory")["found"]
    made_by = f"make it: perdure world create NAME --root {root}"
    assert only(run, "directory")["remedy"].endswith(made_by)
    assert levels(run)["catalog"] == levels(run)["worlds"] == "skip"
    assert not root.exists()


def test_directory_that_cannot_be_written_is_told_with_a_remedy(perdure, request):
    # Not in tmp_path: nobody else may look into that.
    directory = Path(tempfile.mkdtemp(prefix="perdure-doctor-"))
    request.addfinalizer(lambda: shutil.rmtree(directory))
    there = ("--root", directory / "root", "--app", "tests.emulator.harbour:app")
    perdure("world", "create", "harbour", *there)
    perdure("doctor", *there)  # whoever comes now need not be able to read its modules
    directory.chmod(0o755)
    (directory / "root" / "default").chmod(0o555)

    if os.geteuid() == 0:  # who may write everywhere
        os.seteuid(NOBODY)
        request.addfinalizer(lambda: os.seteuid(0))
    run = perdure("doctor", *there, "--json")

    assert run.exit_code == 1
    assert "cannot be written" in only(run, "directory")["found"]
    assert "chmod" in only(run, "directory")["remedy"]


def test_catalog_of_a_newer_version_asks_for_that_version(local, catalog):
    with sqlite3.connect(catalog) as database:
        database.execute("UPDATE meta SET value = 99 WHERE name = 'schema'")
    database.close()

    run = local("doctor", "--json")

    assert run.exit_code == 1
    assert only(run, "catalog")["found"].startswith("newer_schema: ")
    assert "install" in only(run, "catalog")["remedy"]
    assert levels(run)["worlds"] == "skip"


def test_catalog_that_is_no_database_is_corrupt(local, catalog):
    catalog.write_bytes(b"no database" * 1_000)

    run = local("doctor", "--json")

    assert run.exit_code == 1
    assert only(run, "catalog")["found"].startswith("corrupt: ")


def test_catalog_with_a_damaged_page_is_corrupt(local, catalog):
    with sqlite3.connect(catalog) as database:
        (page,) = database.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'record'"
        ).fetchone()
    database.close()
    with catalog.open("r+b") as file:
        file.seek((page - 1) * 4_096 + 8)
        file.write(b"\xff" * 64)

    run = local("doctor", "--json")

    assert only(run, "catalog")["found"].startswith("corrupt: ")


def test_catalog_without_a_log_is_warned_of_and_left_so(local, root, catalog):
    with sqlite3.connect(catalog) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    database.close()
    before = everything_in(root)

    run = local("doctor", "--json")

    assert only(run, "catalog")["level"] == "warn"
    assert everything_in(root) == before


@pytest.mark.parametrize("content", [b"", b"no database" * 1_000])
def test_catalog_of_tables_that_is_none_fails_and_is_left_so(local, root, catalog, content):
    tables = catalog.parent / "iceberg.db"
    tables.write_bytes(content)

    run = local("doctor", "--json")

    assert only(run, "tables")["level"] == "fail"
    assert tables.read_bytes() == content


def test_application_that_does_not_load_is_named(perdure, root, harbour):
    run = perdure("doctor", "--root", root, "--app", "nowhere.app:app", "--json")

    assert run.exit_code == 1
    assert "nowhere.app" in only(run, "application")["found"]
    assert "PERDURE_APP" in only(run, "application")["remedy"]


# ------------------------------------------------------------------ settings and secrets


def test_variable_that_nothing_reads_is_pointed_out_with_the_name_it_may_be(
    local, harbour, monkeypatch
):
    monkeypatch.setenv("PERDURE_NAMESPAC", "default")
    monkeypatch.setenv("PERDURE_COLOUR", "blue")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    monkeypatch.setenv("AWS_SECRET_ACESS_KEY", SECRET)

    run = local("doctor", "--json")

    told = {each["found"].split()[0]: each["remedy"] for each in findings_of(run, "variables")}
    assert told.keys() == {"AWS_SECRET_ACESS_KEY", "PERDURE_COLOUR", "PERDURE_NAMESPAC"}
    assert told["PERDURE_NAMESPAC"] == "rename it to PERDURE_NAMESPACE"
    assert run.exit_code == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PERDURE_TICKS", "ticks"),
        ("PERDURE_TABLES", "s3"),
        ("PERDURE_QUOTA_PLAYER", "many"),
        ("AWS_ENDPOINT_URL", "localhost:4566"),
        ("POWERTOOLS_LOG_LEVEL", "LOUD"),
        ("LOG_LEVEL", "10"),
    ],
)
def test_variable_that_cannot_be_read_fails(name, value):
    (found,) = variables_check({name: value}).ask()

    assert found.level == "fail"
    assert name in found.found


def test_every_variable_that_anything_reads_is_known():
    sources = [
        path
        for folder in ("shared", "emulator", "functions")
        for path in (ROOT / folder).rglob("*.py")
    ]
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in [*sources, ROOT / "template.yaml"]
    )

    read = set(re.findall(r"\bPERDURE_[A-Z_]+[A-Z]\b", text))

    assert "PERDURE_STORAGE" in read
    assert read - KNOWN - NOT_SETTINGS == set()


def test_settings_that_name_no_storage_fail_and_say_where_to_name_one(perdure):
    run = perdure("doctor", "--storage", "ftp://somewhere", "--json")

    assert run.exit_code == 1
    assert only(run, "settings")["found"].startswith("invalid_value: ")


@pytest.mark.parametrize(
    "options",
    [(), ("--root", "a", "--storage", "file:///a"), ("--url", "localhost"), ("--table", "t")],
)
def test_use_that_names_no_place_or_two_is_wrong(perdure, monkeypatch, options):
    monkeypatch.delenv("PERDURE_STORAGE", raising=False)

    run = perdure("doctor", *options)

    assert (run.exit_code, run.out) == (2, "")


def test_secret_is_in_no_line(perdure, monkeypatch, root, harbour):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("PERDURE_TICKS", SECRET)
    monkeypatch.setenv("PERDURE_QUOTA_PLAYER", SECRET)

    run = perdure(
        "doctor", "--root", root, "--app", SECRET, "--url", f"http://ann:{SECRET}@127.0.0.1:9"
    )

    assert run.exit_code == 1
    assert SECRET not in run.out + run.err
    assert "[hidden]" in run.out


# ------------------------------------------------------------------ an address


def test_deployment_is_asked_over_http_and_its_token_is_read(perdure, root, monkeypatch):
    monkeypatch.delenv("PERDURE_TOKEN", raising=False)
    monkeypatch.delenv("PERDURE_STORAGE", raising=False)
    with deployed(root) as running:
        running.http.post("/v1/worlds", json={"name": "reef", "world_id": "reef"})
        there = ("doctor", "--json", "--url", str(running.http.base_url))
        good = perdure("token", "--role", "viewer", "--actor", "ann", "--root", root).out.strip()
        late = key_of(root).token(
            actor="ann", role="admin", tenant="default", now_seconds=1, seconds=1
        )
        well, expired, nobody, odd = (
            perdure(*there, *more)
            for more in (("--token", good), ("--token", late), (), ("--token", "odd"))
        )

    assert well.exit_code == 0, well.out
    assert levels(well)["address"] == levels(well)["address-clock"] == "ok"
    assert only(well, "token")["found"].startswith("role viewer, tenant default; it expires 20")
    assert findings_of(well, "worlds")[0]["found"] == "1 of 1 worlds go on, none waits"
    assert [run.exit_code for run in (expired, nobody, odd)] == [1, 1, 1]
    assert only(expired, "token")["found"].startswith("it expired ")
    assert "perdure token" in only(nobody, "token")["remedy"]
    assert levels(odd)["worlds"] == "skip"


def test_address_that_hangs_costs_a_few_seconds_and_may_pass(perdure):
    with silent() as url:
        began = time.monotonic()
        run = perdure("doctor", "--url", url, "--json")
        took = time.monotonic() - began

    assert run.exit_code == 3
    assert "does not answer" in only(run, "address")["found"]
    assert took < 60


def test_address_of_something_else_is_no_deployment(perdure):
    with answering(lambda *_: (200, b"<html>", 0), time.time) as url:
        run = perdure("doctor", "--url", url, "--json")

    assert run.exit_code == 1
    assert "no deployment" in only(run, "address")["found"]
