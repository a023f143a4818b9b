"""The template keeps its word: it lints, nothing is open, nobody may do more than their part."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.house.sources import ROOT

import perdure.api
from perdure.api import faces
from perdure.api.operations import LEAST_ROLE

# One worker runs this module, so the environment below is made once.
pytestmark = pytest.mark.xdist_group("sam")

TEMPLATE = ROOT / "template.yaml"
PERMISSIONS = {
    "ApiRole": {"AuthorityRead", "AuthorityCommit", "ArchiveRead"},
    "QueryRole": {"AuthorityRead", "LakeRead"},
    "TickRole": {"AuthorityRead", "AuthorityCommit", "LakeRead", "LakePut"},
    "LandRole": {"AuthorityRead", "AuthorityCommit", "LakeRead", "LakePut", "LakeLand"},
}
FACES = {"Api": faces.API, "Query": faces.QUERY, "Tick": faces.TICK, "Land": faces.LAND}
ROUTES = {
    f"{route.method} {route.path.replace('<', '{').replace('>', '}')}": function
    for function, routes in FACES.items()
    for route in routes
}


class Loader(yaml.SafeLoader):
    """Reads the short forms of CloudFormation's functions as ``{name: arguments}``."""


def short_form(loader: Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.SequenceNode):
        return {suffix: loader.construct_sequence(node, deep=True)}
    return {suffix: loader.construct_scalar(node)}


Loader.add_multi_constructor("!", short_form)


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    text = TEMPLATE.read_text(encoding="utf-8")
    return yaml.load(text, Loader=Loader)["Resources"]


def of_type(resources: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the resources of one type, by logical id; there is at least one."""
    found = {name: each for name, each in resources.items() if each["Type"] == kind}
    assert found, kind
    return found


def statements(resources: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every policy statement that allows something, with the resource it stands in."""
    for name, each in resources.items():
        properties = each.get("Properties", {})
        documents = [properties.get("PolicyDocument"), properties.get("AssumeRolePolicyDocument")]
        documents += [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
        for document in filter(None, documents):
            for statement in document["Statement"]:
                if statement["Effect"] == "Allow":
                    yield name, statement


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.fixture(scope="module")
def sam():
    """The folder of sam's and cfn-lint's programs, made ready if it is not."""
    subprocess.run([ROOT / "scripts" / "setup", "sam"], check=True, capture_output=True)
    return ROOT / ".venv-sam" / "bin"


@pytest.mark.parametrize(
    "command",
    [
        ("sam", "validate", "--lint", "--region", "eu-central-1", "--template", TEMPLATE),
        ("cfn-lint", TEMPLATE),
    ],
    ids=["sam", "cfn-lint"],
)
def test_linter_finds_nothing(sam, command, tmp_path):
    home = {"HOME": str(tmp_path), "SAM_CLI_TELEMETRY": "0", "AWS_EC2_METADATA_DISABLED": "true"}

    run = subprocess.run(
        [sam / command[0], *command[1:]],
        cwd=tmp_path,
        env={**os.environ, **home},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr


def test_every_function_has_its_handler_file_role_and_build_target(resources):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^build-(\w+Function):", makefile, re.MULTILINE))
    targets |= set(re.findall(r"build-with-arrow,(\w+Function),", makefile))

    functions = of_type(resources, "AWS::Serverless::Function")

    assert functions.keys() == targets
    for name, function in functions.items():
        properties = function["Properties"]
        assert (ROOT / properties["CodeUri"] / "app.py").is_file(), properties["CodeUri"]
        assert properties["Role"] == {"GetAtt": name.replace("Function", "Role.Arn")}


def test_no_permission_is_given_on_everything(resources):
    wide = [
        (name, statement)
        for name, statement in statements(resources)
        if any("*" in action for action in listed(statement["Action"]))
        or "*" in listed(statement.get("Resource", []))
        or "*" in listed(statement.get("Principal", []))
    ]

    assert wide == []


def test_each_role_has_its_part_and_no_managed_policy_of_others(resources):
    roles = of_type(resources, "AWS::IAM::Role")

    given = {
        name: {policy["Ref"] for policy in role["Properties"]["ManagedPolicyArns"]}
        for name, role in roles.items()
    }

    assert given == PERMISSIONS


def test_routes_are_the_published_ones_and_none_is_open(resources):
    routes = [
        each["Properties"] for each in of_type(resources, "AWS::ApiGatewayV2::Route").values()
    ]

    targets = {
        route["RouteKey"]: re.search(r"\{(\w+)Integration\}", route["Target"]["Sub"])[1]
        for route in routes
    }

    assert targets == ROUTES
    (authorizer,) = of_type(resources, "AWS::ApiGatewayV2::Authorizer")
    assert {route["AuthorizationType"] for route in routes} == {"JWT"}
    assert [route["AuthorizerId"] for route in routes] == [{"Ref": authorizer}] * len(routes)


def test_tokens_are_those_of_the_issuer_for_the_audience_that_a_deployment_names(resources):
    (authorizer,) = of_type(resources, "AWS::ApiGatewayV2::Authorizer").values()

    assert authorizer["Properties"]["AuthorizerType"] == "JWT"
    assert authorizer["Properties"]["IdentitySource"] == ["$request.header.Authorization"]
    trusted = authorizer["Properties"]["JwtConfiguration"]
    assert trusted == {"Issuer": {"Ref": "Issuer"}, "Audience": {"Ref": "Audience"}}


def test_each_route_is_answered_by_one_function():
    declared = [
        route
        for module in pkgutil.iter_modules(perdure.api.__path__, "perdure.api.")
        if module.name.startswith("perdure.api.routes_")
        for route in importlib.import_module(module.name).ROUTES
    ]

    answered = [route for routes in FACES.values() for route in routes]

    assert len(answered) == len(ROUTES) == len(declared)
    assert {id(route) for route in answered} == {id(route) for route in declared}


def test_each_route_asks_for_an_operation_of_the_table():
    asked = {route.operation for routes in FACES.values() for route in routes}

    assert asked <= set(LEAST_ROLE)


def test_records_survive_mistakes(resources):
    for table in of_type(resources, "AWS::DynamoDB::Table").values():
        properties = table["Properties"]

        assert table["DeletionPolicy"] == table["UpdateReplacePolicy"] == "Retain"
        assert properties["DeletionProtectionEnabled"] is True
        assert properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
        assert properties["SSESpecification"]["SSEEnabled"] is True
        assert properties["BillingMode"] == "PAY_PER_REQUEST"


def test_objects_are_private_encrypted_and_travel_over_tls(resources):
    denied = [
        statement["Condition"]
        for policy in of_type(resources, "AWS::S3::BucketPolicy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
    ]

    assert {"Bool": {"aws:SecureTransport": "false"}} in denied
    for bucket in of_type(resources, "AWS::S3::Bucket").values():
        properties = bucket["Properties"]
        assert bucket["DeletionPolicy"] == "Retain"
        assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
        assert properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]


def test_logs_end(resources):
    groups = of_type(resources, "AWS::Logs::LogGroup")
    functions = of_type(resources, "AWS::Serverless::Function")

    assert all("RetentionInDays" in group["Properties"] for group in groups.values())
    written = {
        each["Properties"]["LoggingConfig"]["LogGroup"]["Ref"] for each in functions.values()
    }
    assert written <= groups.keys()


def test_due_work_is_looked_for_on_schedule(resources):
    schedules = {
        name: [
            event["Properties"]["ScheduleExpression"]
            for event in function["Properties"].get("Events", {}).values()
        ]
        for name, function in of_type(resources, "AWS::Serverless::Function").items()
    }

    assert schedules["TickFunction"] == ["rate(1 minute)"]
    assert schedules["LandFunction"] == ["rate(5 minutes)"]
