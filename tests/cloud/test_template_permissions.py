"""Nobody may do more than their part: each function's policies beside the calls it can make."""

from __future__ import annotations

import pytest
from tests.cloud.rendered import functions, listed, of_type, statements

pytestmark = pytest.mark.cloud

PERMISSIONS = {
    "ApiRole": {
        "AuthorityRead",
        "AuthorityCommit",
        "ManifestsOfOthers",
        "ArchiveRead",
        "KeyForReading",
        "KeyForWriting",
    },
    "QueryRole": {"AuthorityRead", "LakeRead", "KeyForReading"},
    "DispatchRole": {
        "AuthorityRead",
        "AuthorityCommit",
        "HintsOnly",
        "TicksSend",
        "KeyForReading",
        "KeyForWriting",
    },
    "TickRole": {
        "AuthorityRead",
        "AuthorityCommit",
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
        "LakeRead",
        "LakeLand",
        "KeyForReading",
        "KeyForWriting",
    },
    "ScheduleRole": set(),
}
TRACES = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
"""All that may be done to everything: X-Ray knows no resources that could be named."""


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


def test_each_function_has_a_role_of_its_own():
    roles = [each["Role"]["GetAtt"] for each in functions().values()]

    assert sorted(roles) == sorted(f"{name.title()}Role.Arn" for name in functions())
