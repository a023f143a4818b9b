"""Sessions in the template: a queue of their own, time for a run, and no reach but what is named."""

from __future__ import annotations

import pytest
from infra import cost_model
from tests.cloud.policies import Role
from tests.cloud.rendered import functions, of_type, resources, template

from perdure.kernel.ids import SessionId, StorageId, short_hash
from perdure.kernel.places import WorldRef
from perdure.kernel.session.journal import payload_name
from perdure.kernel.session.records import SessionRef, session_wake_partition

pytestmark = [pytest.mark.cloud, pytest.mark.sessions]

STORAGE = StorageId("s3://bucket#perdure#dynamodb")
SESSION = SessionRef(STORAGE, SessionId("talk"))
OTHERS = SessionRef(StorageId("other"), SessionId("talk"))

VISIBILITY_FACTOR = 6
"""Times a function's time-out that a message stays hidden. Source: Lambda, using SQS as a source."""

MODEL = "arn:aws:bedrock:eu-central-1::foundation-model/a-model"
TOOL = "arn:aws:lambda:eu-central-1:123456789012:function:a-tool"
SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:a-key-AbCdEf"
PARAMETER = "arn:aws:ssm:eu-central-1:123456789012:parameter/a-key"


def event():
    (found,) = functions()["sessions"]["Events"].values()
    return found


# ------------------------------------------------------------------ its queue


def test_a_session_comes_in_its_order_and_nobody_waits_behind_its_run():
    queue = resources()["Sessions"]["Properties"]

    source = event()["Properties"]

    assert queue["FifoQueue"] is True
    assert queue["ContentBasedDeduplication"] is False
    assert queue["DeduplicationScope"] == "messageGroup"
    assert event()["Type"] == "SQS"
    assert source["Queue"] == {"GetAtt": "Sessions.Arn"}
    assert source["BatchSize"] == 1
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["ScalingConfig"] == {"MaximumConcurrency": {"Ref": "SessionsWorkersMax"}}


def test_a_message_of_a_session_is_hidden_as_lambda_asks_and_dies_before_it_is_forgotten():
    queue = resources()["Sessions"]["Properties"]
    hidden = template()["Parameters"]["SessionsVisibilitySeconds"]["Default"]

    tries = queue["RedrivePolicy"]["maxReceiveCount"]

    assert queue["VisibilityTimeout"] == {"Ref": "SessionsVisibilitySeconds"}
    assert hidden == VISIBILITY_FACTOR * functions()["sessions"]["Timeout"]
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == {"GetAtt": "SessionsDead.Arn"}
    assert queue["MessageRetentionPeriod"] > tries * hidden


def test_only_who_sends_or_receives_sessions_knows_their_queue():
    told = {
        name
        for name, each in functions().items()
        if "PERDURE_SESSIONS" in each["Environment"]["Variables"]
    }
    may = {
        name
        for name in functions()
        if Role(f"{name.title()}Role").may("sqs:SendMessage", "Sessions")
    }

    assert told == may == {"dispatch", "sessions"}


def test_nothing_but_the_functions_own_messages_is_taken_by_it():
    role = Role("SessionsRole")

    assert role.may("sqs:ReceiveMessage", "Sessions")
    assert not role.may("sqs:ReceiveMessage", "Ticks")
    assert not role.may("sqs:SendMessage", "Ticks")


def test_an_idle_deployment_pays_for_looks_into_the_queue_of_sessions_and_for_alarms_alone():
    sources = [
        each
        for function in functions().values()
        for each in function.get("Events", {}).values()
        if each["Type"] == "SQS"
    ]

    assert len(sources) == cost_model.QUEUES
    assert "sessions" not in cost_model.IDLE.invocations
    assert not [each for each in functions().values() if "ProvisionedConcurrencyConfig" in each]
    assert event()["Type"] != "ScheduleV2"


# ------------------------------------------------------------------ its records and objects


@pytest.mark.parametrize("function", ["api", "tick", "land"])
def test_who_has_nothing_to_do_with_sessions_writes_none_and_deletes_none(function):
    role = Role(f"{function.title()}Role")

    for action in ("dynamodb:PutItem", "dynamodb:DeleteItem"):
        assert not role.may(action, "Authority", dynamodb__LeadingKeys=[SESSION.partition])
        world = WorldRef(STORAGE, "w").partition
        assert role.may(action, "Authority", dynamodb__LeadingKeys=[world])


@pytest.mark.parametrize("function", ["dispatch", "sessions"])
def test_who_has_writes_them_and_their_hints_in_its_own_storage_alone(function):
    role = Role(f"{function.title()}Role", StorageKey=short_hash(STORAGE))

    for partition in (SESSION.partition, session_wake_partition(0)):
        assert role.may("dynamodb:PutItem", "Authority", dynamodb__LeadingKeys=[partition])
    others = {"dynamodb__LeadingKeys": [OTHERS.partition]}
    assert not role.may("dynamodb:PutItem", "Authority", **others)
    assert not role.may("dynamodb:Query", "Authority", **others)


def test_payloads_of_journals_are_reached_by_the_function_sessions_and_no_other():
    name = f"Lake/perdure/{payload_name(SESSION, 'a' * 64)}"

    reached = {
        function: [
            action
            for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject")
            if Role(f"{function.title()}Role").may(action, name)
        ]
        for function in functions()
    }

    assert reached.pop("sessions") == ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
    assert not any(reached.values())


# ------------------------------------------------------------------ models and tools


@pytest.mark.parametrize(
    ("parameter", "arn", "actions"),
    [
        (
            "ModelArns",
            MODEL,
            {"bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream"},
        ),
        ("ToolFunctionArns", TOOL, {"lambda:InvokeFunction"}),
        ("ModelKeyArn", SECRET, {"secretsmanager:GetSecretValue"}),
        ("ModelKeyArn", PARAMETER, {"ssm:GetParameter"}),
    ],
)
def test_nothing_outside_is_reached_unless_a_parameter_names_it(parameter, arn, actions):
    without, named = Role("SessionsRole"), Role("SessionsRole", **{parameter: arn})

    for action in actions:
        assert not without.may(action, arn)
        assert named.may(action, arn)
        assert not named.may(action, f"{arn}-of-others")
    assert template()["Parameters"][parameter]["Default"] == ""


def test_nobody_else_asks_models_or_calls_tools():
    outside = ("bedrock:", "lambda:", "secretsmanager:", "ssm:")
    named = {"ModelArns": MODEL, "ToolFunctionArns": TOOL, "ModelKeyArn": SECRET}

    reached = {
        name
        for name in functions()
        if any(each.startswith(outside) for each in Role(f"{name.title()}Role", **named).allowed())
    }

    assert reached == {"sessions"}


def test_no_key_of_a_provider_stands_in_the_template():
    variables = functions()["sessions"]["Environment"]["Variables"]

    pattern = template()["Parameters"]["ModelKeyArn"]["AllowedPattern"]

    assert variables["PERDURE_OPENAI_KEY"] == {"Ref": "ModelKeyArn"}
    assert pattern.startswith("(arn:aws")
    assert of_type("AWS::Serverless::Function")["SessionsFunction"]
