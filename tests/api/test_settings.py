"""Settings: what the environment says, and what it must not leave out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.emulator.harbour import Cargo, Position, app

import perdure
from perdure.api.settings import NAMESPACE_DEFAULT, local, place, settings
from perdure.api.wiring import catalog_path, made, run_id
from perdure.api.wiring_lake import lake
from perdure.kernel.component import table_id
from perdure.kernel.errors import InvalidId, InvalidValue
from perdure.kernel.ids import Instant, Token
from perdure.lake.audit import AUDIT_TABLE


def test_directory_is_served_by_sqlite():
    found = settings({"PERDURE_STORAGE": "file:///data/a%20b/", "PERDURE_NAMESPACE": "team"})

    assert (found.backend, found.root, found.namespace) == ("sqlite", Path("/data/a b"), "team")
    assert catalog_path(found) == Path("/data/a b/team/.perdure-catalog-sqlite.db")


def test_bucket_is_served_by_dynamodb():
    found = settings({"PERDURE_STORAGE": "s3://lake/worlds", "PERDURE_TABLE": "authority"})

    assert (found.backend, found.table, found.namespace) == ("dynamodb", "authority", "default")


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ({}, InvalidValue),
        ({"PERDURE_STORAGE": "/data"}, InvalidValue),
        ({"PERDURE_STORAGE": "ftp://lake"}, InvalidValue),
        ({"PERDURE_STORAGE": "s3://"}, InvalidValue),
        ({"PERDURE_STORAGE": "file://elsewhere/data"}, InvalidValue),
        ({"PERDURE_STORAGE": "s3://lake?key=secret"}, InvalidValue),
        ({"PERDURE_STORAGE": "file:///data", "PERDURE_NAMESPACE": "a/b"}, InvalidId),
        ({"PERDURE_STORAGE": "file:///data", "PERDURE_NAMESPACE": ""}, InvalidId),
    ],
)
def test_settings_that_name_no_storage_are_refused(variables, error):
    with pytest.raises(error):
        settings(variables)


@pytest.mark.lifecycle
@pytest.mark.parametrize(
    "spelling",
    [
        "file:///data/a b",
        "file:///data/a%20b/",
        "file://localhost/data/./a%20b",
        "file:///x/../data/a%20b",
    ],
)
def test_equivalent_file_uris_name_one_storage(spelling):
    found = settings({"PERDURE_STORAGE": spelling})

    assert found == settings({"PERDURE_STORAGE": "file:///data/a%20b"})
    assert catalog_path(found) == Path("/data/a b/default/.perdure-catalog-sqlite.db")


@pytest.mark.lifecycle
@pytest.mark.parametrize("spelling", ["s3://lake/worlds", "s3://lake/worlds/", "s3://lake//worlds"])
def test_local_catalog_of_remote_data_is_a_pure_function_of_the_storage(spelling, tmp_path):
    home = {"PERDURE_CATALOG_DIR": str(tmp_path)}

    found = settings({"PERDURE_STORAGE": spelling, **home})

    assert found.backend == "sqlite"
    assert catalog_path(found).parent == tmp_path
    assert catalog_path(found) == catalog_path(
        settings({"PERDURE_STORAGE": "s3://lake/worlds", **home, "PERDURE_APP": "other:app"})
    )
    assert catalog_path(found) != catalog_path(
        settings({"PERDURE_STORAGE": spelling, **home, "PERDURE_NAMESPACE": "team"})
    )


@pytest.mark.lifecycle
def test_local_catalog_of_remote_data_lies_at_home_unless_told():
    found = catalog_path(settings({"PERDURE_STORAGE": "s3://lake"}))

    assert found.parent == Path("~/.perdure/catalogs").expanduser()
    assert len(found.stem) == 24


@pytest.mark.lifecycle
def test_credentials_are_no_part_of_a_storage_and_are_not_repeated():
    with pytest.raises(InvalidValue) as refused:
        settings({"PERDURE_STORAGE": "s3://key:hunter2@lake/worlds"})

    assert "hunter2" not in str(refused.value)


@pytest.mark.lifecycle
@pytest.mark.parametrize("namespace", ["..", ".", "../team", "a/b", "", "a\nb"])
@pytest.mark.parametrize("as_uri", [True, False])
def test_no_namespace_leads_out_of_its_storage(tmp_path, monkeypatch, namespace, as_uri):
    where = tmp_path.as_uri() if as_uri else str(tmp_path)
    monkeypatch.setenv("PERDURE_NAMESPACE", namespace)

    for said in (namespace, None):
        with pytest.raises(InvalidId):
            place(where, namespace=said)


def test_settings_are_read_back_from_what_they_spell(tmp_path):
    chosen = local(tmp_path / "ü %41", app="a:b", namespace="team")

    assert settings(chosen.environment()) == chosen


def test_a_lease_is_what_the_environment_says_and_is_passed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("PERDURE_LEASE", "2s")

    chosen = local(tmp_path)

    assert (chosen.lease_ms, settings(chosen.environment()).lease_ms) == (2_000, 2_000)
    assert settings({"PERDURE_STORAGE": "file:///data"}).lease_ms is None


@pytest.mark.parametrize("given", ["99ms", "16m", "2", "soon"])
def test_a_lease_that_no_fence_can_have_is_refused(given):
    with pytest.raises(InvalidValue):
        settings({"PERDURE_STORAGE": "file:///data", "PERDURE_LEASE": given})


async def test_writers_of_every_face_hold_their_fences_as_long_as_the_environment_says(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PERDURE_LEASE", "2s")

    async with lake(made(local(tmp_path, app="tests.emulator.harbour:app"))) as ports:
        served = ports._ticker.lease_ms
    async with perdure.open(tmp_path.as_uri(), app=app) as storage:
        embedded = storage.ticker.lease_ms

    assert (served, embedded) == (2_000, 2_000)


def test_storages_that_differ_in_one_part_are_different_storages():
    base = {"PERDURE_STORAGE": "s3://lake", "PERDURE_TABLE": "a", "PERDURE_NAMESPACE": "x"}
    others = [
        base | {"PERDURE_STORAGE": "s3://pond"},
        base | {"PERDURE_NAMESPACE": "y"},
        {"PERDURE_STORAGE": "file:///lake", "PERDURE_NAMESPACE": "x"},
    ]

    identities = {settings(variables).storage for variables in (base, *others)}

    assert len(identities) == 4


def test_run_is_named_by_a_uuid_of_its_time():
    named = run_id(Instant(0x017F22E279B0), Token("f" * 32))

    assert named == "017f22e2-79b0-7fff-bfff-ffffffffffff"


BUCKET = "arn:aws:s3tables:eu-west-1:123456789012:bucket/tables-1"
IN_A_TABLE_BUCKET = {
    "PERDURE_STORAGE": "s3://lake/worlds",
    "PERDURE_TABLE": "authority",
    "PERDURE_TABLES": BUCKET,
}


@pytest.mark.cloud
@pytest.mark.parametrize("named", [None, "", "glue"])
def test_tables_are_in_glue_unless_a_table_bucket_is_named(named):
    variables = {} if named is None else {"PERDURE_TABLES": named}

    found = settings({"PERDURE_STORAGE": "s3://lake", "PERDURE_TABLE": "authority", **variables})

    assert (found.tables, found.is_in_table_bucket) == ("glue", False)
    assert "PERDURE_TABLES" not in found.environment()


@pytest.mark.cloud
def test_a_table_bucket_is_another_storage_and_is_passed_on():
    found = settings(IN_A_TABLE_BUCKET)
    in_glue = settings({**IN_A_TABLE_BUCKET, "PERDURE_TABLES": "glue"})

    assert found.is_in_table_bucket
    assert found.storage != in_glue.storage
    assert found.fingerprint != in_glue.fingerprint
    assert settings(found.environment()) == found


@pytest.mark.cloud
def test_a_directory_has_its_tables_beside_it_whatever_is_named():
    found = settings({**IN_A_TABLE_BUCKET, "PERDURE_STORAGE": "file:///data"})

    assert (found.tables, found.table) == ("glue", None)


@pytest.mark.cloud
@pytest.mark.parametrize(
    "named",
    [
        "hive",
        "GLUE",
        "tables-1",
        "arn:aws:s3:::lake",
        "arn:aws:s3tables:eu-west-1:123456789012:bucket/",
        "arn:aws:s3tables:eu-west-1:123456789012:bucket/Tables",
        "arn:aws:s3tables:eu-west-1:123456789012:bucket/t-1/table/x",
    ],
)
def test_a_catalog_that_is_neither_is_refused(named):
    with pytest.raises(InvalidValue, match="PERDURE_TABLES"):
        settings({**IN_A_TABLE_BUCKET, "PERDURE_TABLES": named})


@pytest.mark.cloud
@pytest.mark.parametrize("namespace", ["Team", "team-1", "team.1", "_team", "team_", "aws_team"])
def test_a_namespace_that_a_table_bucket_cannot_hold_is_refused_at_once(namespace):
    with pytest.raises(InvalidValue, match="S3 Tables"):
        settings({**IN_A_TABLE_BUCKET, "PERDURE_NAMESPACE": namespace})

    settings({**IN_A_TABLE_BUCKET, "PERDURE_TABLES": "", "PERDURE_NAMESPACE": namespace})


@pytest.mark.cloud
def test_names_of_namespaces_and_tables_are_such_as_a_table_bucket_takes():
    """Where a name has a hyphen or a capital, S3 Tables refuses the first landing."""
    allowed = re.compile(r"[a-z0-9]([a-z0-9_]{0,253}[a-z0-9])?")

    for name in (NAMESPACE_DEFAULT, AUDIT_TABLE, table_id([Cargo.component, Position.component])):
        assert allowed.fullmatch(name)
