"""Nobody may do more than their part: each function's policies beside the calls it can make."""

from __future__ import annotations

import re

import pytest
from tests.cloud.policies import Role
from tests.cloud.rendered import functions, listed, of_type, statements
from tests.cloud.rights import CALLS, OF_A_CALL, PLACES, TRACES
from tests.house.sources import ROOT

from perdure.authority.packing import Pointer
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.ids import (
    DocumentStoreId,
    SessionId,
    StorageId,
    Tick,
    Token,
    WorldId,
    short_hash,
)
from perdure.kernel.places import (
    LANES,
    WorldRef,
    landing_partition,
    quota_partition,
    wake_partition,
)
from perdure.kernel.records import manifest_key
from perdure.kernel.session.records import SessionRef

pytestmark = pytest.mark.cloud

STORAGE = StorageId("s3://bucket#perdure#dynamodb")
REF = WorldRef(STORAGE, WorldId("w"))
SESSION = SessionRef(STORAGE, SessionId("talk"))
NOTES = DocumentStoreRef(STORAGE, DocumentStoreId("notes"))
MANIFEST = manifest_key(REF.partition, Tick(0)).partition
ROLES = {name: f"{name.title()}Role" for name in functions()}

PERMISSIONS = {
    "ApiRole": {
        "AuthorityRead",
        "AuthorityCommit",
        "ManifestsOfOthers",
        "SessionsOfOthers",
        "ArchiveRead",
        "KeyForReading",
        "KeyForWriting",
    },
    "QueryRole": {"AuthorityRead", "LakeRead", "KeyForReading"},
    "DispatchRole": {
        "AuthorityRead",
        "AuthorityCommit",
        "WorldsAndHints",
        "TicksSend",
        "SessionsSend",
        "JobsSend",
        "KeyForReading",
        "KeyForWriting",
    },
    "TickRole": {
        "AuthorityRead",
        "AuthorityCommit",
        "SessionsOfOthers",
        "LakeRead",
        "TickWrite",
        "TicksSend",
        "TicksReceive",
        "KeyForReading",
        "KeyForWriting",
    },
    "LandRole": {
        "AuthorityRead",
        "AuthorityCommit",
        "ManifestsOfOthers",
        "SessionsOfOthers",
        "LakeRead",
        "LakeLand",
        "KeyForReading",
        "KeyForWriting",
    },
    "SessionsRole": {
        "AuthorityRead",
        "AuthorityCommit",
        "LakeRead",
        "TickWrite",
        "SessionsObjects",
        "SessionsSend",
        "SessionsReceive",
        "KeyForReading",
        "KeyForWriting",
    },
    "JobsRole": {
        "AuthorityRead",
        "AuthorityCommit",
        "ManifestsOfOthers",
        "SessionsOfOthers",
        "LakeRead",
        "LakeLand",
        "KeyForReading",
        "KeyForWriting",
    },
    "ScheduleRole": set(),
}
POLICIES_MAX = 10
"""Managed policies of a role. Source: IAM, quotas, the default."""


def allowed():
    return [(name, each) for name, each in statements() if each["Effect"] == "Allow"]


def test_no_permission_is_given_on_everything():
    wide = [
        (name, statement)
        for name, statement in allowed()
        if any("*" in action for action in listed(statement["Action"]))
        or ("*" in listed(statement.get("Resource", [])) and statement["Action"] != TRACES)
        or "*" in listed(statement.get("Principal", []))
    ]

    assert wide == []


def test_each_role_has_its_part_and_no_managed_policy_of_others():
    given = {
        name: {policy["Ref"] for policy in role["Properties"].get("ManagedPolicyArns", [])}
        for name, role in of_type("AWS::IAM::Role").items()
    }

    assert given == PERMISSIONS


def test_no_role_has_more_policies_than_an_account_allows():
    attached = [
        role["Ref"]
        for policy in of_type("AWS::IAM::ManagedPolicy").values()
        for role in policy["Properties"].get("Roles", [])
    ]

    for name, role in of_type("AWS::IAM::Role").items():
        named = role["Properties"].get("ManagedPolicyArns", [])
        assert len(named) + attached.count(name) <= POLICIES_MAX, name


def test_each_function_has_a_role_of_its_own():
    roles = [each["Role"]["GetAtt"] for each in functions().values()]

    assert sorted(roles) == sorted(f"{name.title()}Role.Arn" for name in functions())


def test_every_call_of_the_code_is_one_whose_permissions_are_known():
    library = ROOT / "shared" / "perdure"
    modules = ("authority/dynamodb.py", "lake/s3.py", "api/wiring_queue_aws.py")

    called = {
        name
        for module in modules
        for name in re.findall(
            r"_client\.(?:get_paginator\(\")?(\w+)", (library / module).read_text(encoding="utf-8")
        )
    } - {"get_paginator"}

    assert called == OF_A_CALL.keys()
    assert set().union(*OF_A_CALL.values()) <= set().union(*CALLS.values())


@pytest.mark.parametrize("function", sorted(CALLS))
def test_a_function_may_do_what_it_does_and_nothing_else(function):
    assert Role(ROLES[function]).allowed() == CALLS[function]


@pytest.mark.parametrize("function", sorted(PLACES))
@pytest.mark.parametrize("action", ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"])
def test_a_function_reaches_objects_only_where_it_has_something_to_do(function, action):
    reached = {
        each.removeprefix("Lake/perdure/").removesuffix("/*")
        for each in Role(ROLES[function]).resources_of(action)
    }

    assert reached == PLACES[function].get(action, set())


@pytest.mark.parametrize("function", sorted(CALLS))
def test_a_function_decrypts_by_the_services_that_hold_data_and_not_by_itself(function):
    role = Role(ROLES[function])

    assert role.may("kms:Decrypt", "Key", kms__ViaService=["dynamodb.AWS::Region.AWS::URLSuffix"])
    assert not role.may("kms:Decrypt", "Key")
    assert not role.may("kms:Decrypt", "Key", kms__ViaService=["lambda.AWS::Region.AWS::URLSuffix"])


def test_no_table_bucket_is_reached_unless_one_is_named():
    arn = "arn:aws:s3tables:eu-central-1:123456789012:bucket/tables"

    without, within = Role("LandRole"), Role("LandRole", TableBucket=arn)

    assert not [each for each in without.allowed() if each.startswith("s3tables:")]
    assert within.may("s3tables:UpdateTableMetadataLocation", f"{arn}/table/1")
    assert not within.may("s3tables:UpdateTableMetadataLocation", f"{arn}-of-others/table/1")
    reader = Role("QueryRole", TableBucket=arn)
    assert reader.may("s3tables:GetTableData", f"{arn}/table/1")
    assert not reader.may("s3tables:PutTableData", f"{arn}/table/1")


# ------------------------------------------------------------------ manifests


def put(role: Role, key: str, *, enclosed: bool) -> bool:
    keys = {"dynamodb__LeadingKeys": [key]}
    if enclosed:
        keys["dynamodb__EnclosingOperation"] = ["TransactWriteItems"]
    return role.may("dynamodb:PutItem", "Authority", **keys)


def test_manifests_are_in_a_partition_of_their_own():
    assert MANIFEST.startswith("m/")


@pytest.mark.parametrize("function", ["tick", "sessions"])
def test_a_manifest_is_written_inside_of_a_transaction_only(function):
    tick = Role(ROLES[function])

    assert put(tick, MANIFEST, enclosed=True)
    assert not put(tick, MANIFEST, enclosed=False)
    assert put(tick, REF.partition, enclosed=False)


@pytest.mark.parametrize("function", ["api", "dispatch", "land", "jobs"])
def test_no_function_that_ticks_no_world_writes_manifests(function):
    role = Role(ROLES[function])

    assert not put(role, MANIFEST, enclosed=True)
    assert not put(role, MANIFEST, enclosed=False)
    assert put(role, REF.partition, enclosed=True)


@pytest.mark.parametrize("function", sorted(set(CALLS) - {"query"}))
def test_nobody_deletes_a_manifest(function):
    role = Role(ROLES[function])

    assert not role.may("dynamodb:DeleteItem", "Authority", dynamodb__LeadingKeys=[MANIFEST])
    assert role.may("dynamodb:DeleteItem", "Authority", dynamodb__LeadingKeys=[REF.partition])


def test_dispatch_writes_heads_and_hints_alone():
    role = Role("DispatchRole")

    assert put(role, REF.partition, enclosed=True)
    assert put(role, REF.wake, enclosed=True)
    assert put(role, SESSION.partition, enclosed=True)
    assert put(role, SESSION.wake, enclosed=True)
    assert not put(role, REF.catalog, enclosed=True)
    assert not put(role, quota_partition(REF.partition, "ann"), enclosed=True)


# ------------------------------------------------------------------ one storage of a table


PARTITIONS = {
    "catalog": REF.catalog,
    "world": REF.partition,
    "session": SESSION.partition,
    "wake of sessions": SESSION.wake,
    "document store": NOTES.partition,
    "manifests": MANIFEST,
    "quota": quota_partition(REF.partition, "ann"),
    "wake": wake_partition(7),
    "body": Pointer.to(b"large", Token("t")).keys[0].partition,
    **{lane: landing_partition(STORAGE, lane) for lane in LANES},
}
OTHERS = {
    "catalog": WorldRef(StorageId("other"), REF.world).catalog,
    "world": WorldRef(StorageId("other"), REF.world).partition,
    "session": SessionRef(StorageId("other"), SESSION.session).partition,
    "document store": DocumentStoreRef(StorageId("other"), NOTES.store).partition,
    "landing": landing_partition(StorageId("other")),
    "quota": quota_partition(WorldRef(StorageId("other"), REF.world).partition, "ann"),
}


@pytest.mark.parametrize("function", sorted(CALLS))
@pytest.mark.parametrize("kind", sorted(PARTITIONS))
def test_a_function_that_knows_its_storage_reads_all_of_it(function, kind):
    role = Role(ROLES[function], StorageKey=short_hash(STORAGE))

    keys = [PARTITIONS[kind]]

    assert role.may("dynamodb:GetItem", "Authority", dynamodb__LeadingKeys=keys)


@pytest.mark.parametrize("function", sorted(CALLS))
@pytest.mark.parametrize("kind", sorted(OTHERS))
def test_a_function_that_knows_its_storage_reaches_no_other(function, kind):
    role = Role(ROLES[function], StorageKey=short_hash(STORAGE))

    keys = [OTHERS[kind]]

    assert not role.may("dynamodb:Query", "Authority", dynamodb__LeadingKeys=keys)
    assert not role.may(
        "dynamodb:BatchGetItem", "Authority", dynamodb__LeadingKeys=[*keys, REF.partition]
    )
    assert not role.may("dynamodb:PutItem", "Authority", dynamodb__LeadingKeys=keys)


@pytest.mark.parametrize("function", sorted(CALLS))
def test_a_request_without_keys_is_not_taken_for_one_with_the_right_keys(function):
    role = Role(ROLES[function], StorageKey=short_hash(STORAGE))

    assert not role.may("dynamodb:Query", "Authority")


@pytest.mark.parametrize("function", sorted(CALLS))
def test_no_function_scans_or_changes_the_table_itself(function):
    role = Role(ROLES[function])

    for action in ("Scan", "UpdateItem", "BatchWriteItem", "UpdateTable", "DeleteTable"):
        assert not role.may(f"dynamodb:{action}", "Authority", dynamodb__LeadingKeys=[MANIFEST])
