"""`perdure stores export`, `import` and `replicate`: from one directory to a file, and to another."""

from __future__ import annotations

import json

import boto3
import pytest
from tests.support.ministack import account

pytestmark = pytest.mark.stores


@pytest.fixture
def stores(perdure, root):
    """Run ``perdure stores`` on a storage with one document store and two documents in it."""

    def run(*arguments, where=root):
        return perdure("stores", *arguments, "--root", where)

    run("create", "notes")
    for key in ("a", "b"):
        made = run("put", "notes", f"me/desk/note/{key}", f'"{key}"', "--history", "rewindable")
        assert made.exit_code == 0, made.err
    return run


def test_export_becomes_the_same_store_elsewhere(stores, tmp_path):
    elsewhere, file = tmp_path / "elsewhere", tmp_path / "notes.export"

    exported = stores("export", "notes", file, "--json")
    imported = stores("import", "copy", file, "--json", where=elsewhere)
    again = stores("export", "copy", tmp_path / "again.export", "--json", where=elsewhere)
    changed = stores("put", "copy", "me/desk/note/a", '"c"', where=elsewhere)

    assert exported.exit_code == 0, exported.err
    assert (exported.json["seq"], exported.json["documents"]) == (2, 2)
    assert imported.json == exported.json
    assert again.json["sha256"] == exported.json["sha256"]
    assert changed.exit_code == 0, changed.err
    assert json.loads(stores("get", "copy", "2", "--at", "1", where=elsewhere).out) == "a"


def test_replica_has_what_its_source_has_and_takes_no_commits_until_it_is_promoted(
    stores, tmp_path
):
    elsewhere = tmp_path / "elsewhere"

    once = stores("replicate", "notes", "--to", elsewhere, "--once", "--json")
    stores("put", "notes", "me/desk/note/a", '"later"')
    more = stores("replicate", "notes", "--to", elsewhere, "--once")
    read = stores("get", "notes", "me/desk/note/a", where=elsewhere)
    refused = stores("put", "notes", "me/desk/note/a", "1", where=elsewhere)
    promoted = stores("promote", "notes", "--json", where=elsewhere)
    taken = stores("put", "notes", "me/desk/note/a", "1", where=elsewhere)

    assert once.exit_code == 0, once.err
    assert (once.json["seq"], once.json["commits"]) == (2, 0)
    assert more.out.startswith("commit 3 of 3")
    assert json.loads(read.out) == "later"
    assert (refused.exit_code, refused.err.split()[1]) == (1, "follows_source:")
    assert (promoted.json["seq"], taken.exit_code) == (3, 0)


def test_replica_that_begins_with_an_export_goes_on_with_the_log(stores, tmp_path):
    elsewhere, file = tmp_path / "elsewhere", tmp_path / "notes.export"
    stores("export", "notes", file)
    stores("import", "copy", file, "--follows", where=elsewhere)
    stores("put", "notes", "me/desk/note/a", '"later"')

    followed = stores("replicate", "notes", "--to", elsewhere, "--as", "copy", "--once", "--json")

    assert (followed.exit_code, followed.json["seq"]) == (0, 3), followed.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("export", "nowhere", "{tmp}/new"), "not_found"),
        (("export", "notes", "{tmp}/taken"), "conflict"),
        (("export", "notes", "s3://bucket"), "invalid_value"),
        (("import", "notes", "{tmp}/good"), "not_empty"),
        (("import", "new", "{tmp}/nothing"), "not_found"),
        (("import", "new", "{tmp}/taken"), "invalid_export"),
        (("import", "new", "{tmp}/short"), "export_truncated"),
        (("replicate", "nowhere", "--to", "{tmp}/other", "--once"), "not_found"),
        (("replicate", "notes", "--to", "{root}", "--once"), "not_a_follower"),
        (("import", "perdure.system", "{tmp}/good"), "invalid_id"),
        (("import", "perdure.other", "{tmp}/good", "--follows"), "invalid_id"),
        (("replicate", "notes", "--to", "{root}", "--as", "perdure.x", "--once"), "invalid_id"),
        (("promote", "nowhere"), "not_found"),
        (("discard", "nowhere"), "not_found"),
        (("discard", "notes"), "not_empty"),
    ],
)
def test_refusals_have_their_code_and_leave_everything_as_it_was(
    stores, root, tmp_path, arguments, code
):
    good = tmp_path / "good"
    stores("export", "notes", good)
    (tmp_path / "taken").write_text("notes\n")
    (tmp_path / "short").write_bytes(b"".join(good.read_bytes().splitlines(keepends=True)[:-1]))

    refused = stores(*(each.format(tmp=tmp_path, root=root) for each in arguments))

    assert (refused.exit_code, refused.err.split()[1]) == (1, f"{code}:")
    assert stores("show", "notes", "--json").json["seq"] == 2
    assert [each["store_id"] for each in stores("list", "--json").json["stores"]] == ["notes"]


@pytest.mark.cloud
@pytest.mark.slow
def test_export_to_a_bucket_is_imported_from_there(stores, aws, monkeypatch):
    for name, value in {
        "AWS_ENDPOINT_URL": aws,
        "AWS_ACCESS_KEY_ID": account(),
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(
        Bucket="backups", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )

    exported = stores("export", "notes", "s3://backups/of/notes", "--json")
    taken = stores("put", "notes", "me/desk/note/a", '"later"')
    other = stores("export", "notes", "s3://backups/of/notes")
    imported = stores("import", "copy", "s3://backups/of/notes", "--json")
    nothing = stores("import", "more", "s3://backups/of/nothing")

    names = [each["Key"] for each in client.list_objects_v2(Bucket="backups")["Contents"]]
    client.close()
    assert (exported.exit_code, taken.exit_code) == (0, 0), exported.err
    assert all(name.startswith("of/notes/") for name in names)
    assert (other.exit_code, other.err.split()[1]) == (1, "conflict:")
    assert imported.json == exported.json
    assert (nothing.exit_code, nothing.err.split()[1]) == (1, "not_found:")
