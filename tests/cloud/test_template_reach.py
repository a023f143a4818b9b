"""How far each role reaches: through which services it uses the key, whose logs, whose tables."""

from __future__ import annotations

import pytest
from tests.cloud.policies import Role
from tests.cloud.rendered import functions, listed, of_type, statements

pytestmark = pytest.mark.cloud

ROLES = {name: f"{name.title()}Role" for name in functions()}
SCHEDULED = {
    name
    for name, each in functions().items()
    if any(event["Type"] == "ScheduleV2" for event in each.get("Events", {}).values())
}

DECRYPTS_OF = {
    "api": {"dynamodb", "s3"},
    "query": {"dynamodb", "s3"},
    "dispatch": {"dynamodb", "sqs"},
    "tick": {"dynamodb", "s3", "sqs"},
    "land": {"dynamodb", "s3"},
    "sessions": {"dynamodb", "s3", "sqs"},
    "jobs": {"dynamodb", "s3", "sqs"},
}
"""Whose data each function reads; who sends to a queue decrypts, too. Source: SQS, key management."""

ENCRYPTS_IN = {
    "api": {"dynamodb"},
    "dispatch": {"dynamodb", "sqs"},
    "tick": {"dynamodb", "s3", "sqs"},
    "land": {"dynamodb", "s3"},
    "sessions": {"dynamodb", "s3", "sqs"},
    "jobs": {"dynamodb", "s3", "sqs"},
}
"""Where each function writes data."""

USES = [
    *(("kms:Decrypt", name, each) for name, found in DECRYPTS_OF.items() for each in sorted(found)),
    *(
        ("kms:GenerateDataKey", name, each)
        for name, found in ENCRYPTS_IN.items()
        for each in sorted(found)
    ),
]

GLUE = "arn:AWS::Partition:glue:AWS::Region:AWS::AccountId"
OURS = {f"{GLUE}:catalog", f"{GLUE}:database/Tables", f"{GLUE}:table/Tables/*"}
GLUE_ACTIONS = {
    "glue:GetDatabase": {"query", "tick", "land", "sessions", "jobs"},
    "glue:GetTable": {"query", "tick", "land", "sessions", "jobs"},
    "glue:GetTables": {"query", "tick", "land", "sessions", "jobs"},
    "glue:CreateDatabase": {"land", "jobs"},
    "glue:CreateTable": {"land", "jobs"},
    "glue:UpdateTable": {"land", "jobs"},
}
"""Who asks Glue for what; a request is checked against catalog, database and table, all of them."""

TABLE_BUCKET = "arn:aws:s3tables:eu-central-1:123456789012:bucket/tables"
READS = {
    "s3tables:GetTableBucket",
    "s3tables:GetNamespace",
    "s3tables:ListTables",
    "s3tables:GetTable",
    "s3tables:GetTableMetadataLocation",
    "s3tables:GetTableData",
}
LANDS = {
    "s3tables:CreateNamespace",
    "s3tables:CreateTable",
    "s3tables:PutTableData",
    "s3tables:UpdateTableMetadataLocation",
}
OF_THE_BUCKET = {
    "s3tables:GetTableBucket",
    "s3tables:GetNamespace",
    "s3tables:ListTables",
    "s3tables:CreateNamespace",
}
"""Asked of a bucket, all others of a table. Source: actions of S3 Tables, service authorization."""

IN_A_TABLE_BUCKET = {
    "api": set(),
    "dispatch": set(),
    "query": READS,
    "tick": READS,
    "land": READS | LANDS,
    "sessions": READS,
    "jobs": READS | LANDS,
}


# ------------------------------------------------------------------ the key


@pytest.mark.parametrize(("action", "function", "service"), USES)
def test_a_function_uses_the_key_through_every_service_whose_data_it_has(action, function, service):
    role = Role(ROLES[function])

    assert role.may(action, "Key", kms__ViaService=[f"{service}.AWS::Region.AWS::URLSuffix"])


@pytest.mark.parametrize("function", sorted(ROLES))
def test_a_function_uses_no_key_but_that_of_the_stack(function):
    role = Role(ROLES[function])

    for action in ("kms:Decrypt", "kms:GenerateDataKey"):
        assert role.resources_of(action) <= {"Key"}


# ------------------------------------------------------------------ logs, and who is whom


@pytest.mark.parametrize("function", sorted(ROLES))
def test_a_function_writes_to_its_own_logs(function):
    group = functions()[function]["LoggingConfig"]["LogGroup"]["Ref"]

    written = {
        resource
        for action in ("logs:CreateLogStream", "logs:PutLogEvents")
        for resource in Role(ROLES[function]).resources_of(action)
    }

    assert written == {group}


def test_schedules_invoke_the_functions_that_have_one_and_no_other():
    invoked = Role("ScheduleRole").resources_of("lambda:InvokeFunction")

    assert invoked == {f"{name.title()}Function" for name in SCHEDULED}
    for name in SCHEDULED:
        (event,) = functions()[name]["Events"].values()
        assert event["Properties"]["RoleArn"] == {"GetAtt": "ScheduleRole.Arn"}


def test_a_role_is_taken_by_the_service_it_is_for():
    trusted = {
        name: [
            (each["Effect"], each["Action"], each["Principal"], each.get("Condition"))
            for each in role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        ]
        for name, role in of_type("AWS::IAM::Role").items()
    }

    of_functions = ("Allow", "sts:AssumeRole", {"Service": "lambda.amazonaws.com"}, None)
    # Schedules of other accounts are made by the same service: they must not borrow the role.
    ours = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    of_schedules = ("Allow", "sts:AssumeRole", {"Service": "scheduler.amazonaws.com"}, ours)
    assert trusted == {
        **{role: [of_functions] for role in ROLES.values()},
        "ScheduleRole": [of_schedules],
    }


# ------------------------------------------------------------------ tables


def test_a_star_stands_only_behind_something_that_has_a_name():
    stars = [
        (name, resource)
        for name, each in statements()
        if each["Effect"] == "Allow" and each.get("Resource") != "*"
        for resource in listed(each.get("Resource", []))
        if isinstance(resource, dict) and "*" in str(resource.get("Sub", ""))
    ]

    assert len(stars) > 10
    for name, resource in stars:
        before = resource["Sub"].partition("*")[0].replace("${AWS::", "")
        assert "${" in before, f"{name}: {resource['Sub']}"


@pytest.mark.parametrize("action", sorted(GLUE_ACTIONS))
def test_glue_is_asked_about_our_database_and_about_tables_in_it(action):
    reached = {name: Role(role).resources_of(action) for name, role in ROLES.items()}

    assert reached == {name: OURS if name in GLUE_ACTIONS[action] else set() for name in ROLES}


@pytest.mark.parametrize("function", sorted(IN_A_TABLE_BUCKET))
def test_a_function_does_in_a_table_bucket_what_it_does_with_tables(function):
    role = Role(ROLES[function], TableBucket=TABLE_BUCKET)

    given = {action for action in role.allowed() if action.startswith("s3tables:")}

    assert given == IN_A_TABLE_BUCKET[function]
    for action in given:
        reached = role.resources_of(action)
        assert reached <= {TABLE_BUCKET, f"{TABLE_BUCKET}/table/*"}
        assert reached >= (
            {TABLE_BUCKET} if action in OF_THE_BUCKET else {f"{TABLE_BUCKET}/table/*"}
        )
