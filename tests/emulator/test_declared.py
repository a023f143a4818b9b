"""What a template declares is run or reported: values, conditions, queues, sources, the rest."""

from __future__ import annotations

import pytest
from tests.emulator.deployment import ROOT

from perdure.kernel.errors import InvalidValue
from perdure_emulator.declared import Cors, Queue, Source, Throttle
from perdure_emulator.template import read

pytestmark = pytest.mark.cloud

FUNCTION = """
  Tick:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: tick
      {properties}
"""

QUEUES = """
  Due:
    Type: AWS::SQS::Queue
    Properties:
      FifoQueue: true
      VisibilityTimeout: !Ref Hidden
      RedrivePolicy: { deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 6 }
  Dead: { Type: AWS::SQS::Queue, Properties: { FifoQueue: true, QueueName: !Sub "${AWS::StackName}-dead.fifo" } }
"""

HEAD = """
Parameters:
  Hidden: { Type: Number, Default: 720 }
  Origins: { Type: CommaDelimitedList, Default: "" }
  Nowhere: { Type: String }
Conditions:
  HasOrigins: !Not [!Equals [!Join ["", !Ref Origins], ""]]
  Never: !And [!Condition HasOrigins, !Equals [a, b]]
Mappings: { Sizes: { us-east-1: { memory: 512 } } }
Resources:
"""


@pytest.fixture
def reading(tmp_path):
    def read_text(resources, **parameters):
        (tmp_path / "template.yaml").write_text(HEAD + resources)
        return read(tmp_path / "template.yaml", address="http://here", parameters=parameters)

    return read_text


def function(text):
    return FUNCTION.format(properties=text)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("plain", "plain"),
        ("7", "7"),
        ("true", "true"),
        ("!Ref Hidden", "720"),
        ("!Ref AWS::Region", "us-east-1"),
        ("!Sub '${AWS::StackName}/${Hidden}/${!Hidden}'", "perdure/720/${Hidden}"),
        ("!Sub ['${A}-${Hidden}', { A: !Ref AWS::Partition }]", "aws-720"),
        ("!Join ['-', [a, !Ref Hidden]]", "a-720"),
        ("!Select [1, !Split [',', 'a,b']]", "b"),
        ("!FindInMap [Sizes, !Ref AWS::Region, memory]", "512"),
        ("!If [HasOrigins, yes, no]", "False"),
        ("{ 'Fn::Sub': '${Hidden}' }", "720"),
        ("!Ref Due", "http://here/000000000000/perdure-Due.fifo"),
        ("!GetAtt Due.Arn", "arn:aws:sqs:us-east-1:000000000000:perdure-Due.fifo"),
        ("!GetAtt Dead.QueueName", "perdure-dead.fifo"),
        ("!Ref Nowhere", None),
        ("!Ref Table", None),
        ("!Sub 's3://${Table}'", None),
        ("!GetAtt Table.Arn", None),
        ("!ImportValue elsewhere", None),
        ("!Ref AWS::NoValue", None),
    ],
)
def test_variable_has_the_value_that_a_deployment_would_give_it_or_none(reading, value, found):
    table = "  Table: { Type: AWS::DynamoDB::Table }\n"
    variables = f"Environment: {{ Variables: {{ X: {value} }} }}"

    function_read = reading(QUEUES + table + function(variables)).functions["Tick"]

    expected = {} if found is None else {"X": found.lower() if found == "False" else found}
    assert function_read.environment == expected


def test_parameter_that_is_given_counts_before_its_default(reading):
    declared = reading(QUEUES, Hidden="30")

    assert declared.queues["Due"].visibility_seconds == 30


def test_resource_whose_condition_does_not_hold_is_not_there(reading):
    topic = "  Topic: { Type: AWS::SNS::Topic, Condition: %s }\n"

    assert reading(topic % "HasOrigins").left_out == ()
    assert reading(topic % "Never", Origins="https://a").left_out == ()
    assert reading(topic % "HasOrigins", Origins="https://a").left_out != ()


def test_queue_is_read_with_its_times_and_where_its_dead_letters_go(reading):
    assert reading(QUEUES).queues["Due"] == Queue(
        logical="Due",
        name="perdure-Due.fifo",
        is_fifo=True,
        visibility_seconds=720,
        dead_letters="Dead",
        received_max=6,
    )


@pytest.mark.parametrize(
    ("more", "source"),
    [
        ("", Source("Due", "Due", 10)),
        ("BatchSize: 3", Source("Due", "Due", 3)),
        (
            "FunctionResponseTypes: [ReportBatchItemFailures]",
            Source("Due", "Due", 10, reports_failures=True),
        ),
        ("Enabled: false", None),
    ],
)
def test_event_source_is_read_unless_it_is_turned_off(reading, more, source):
    event = f"Events: {{ Due: {{ Type: SQS, Properties: {{ Queue: !GetAtt Due.Arn, {more} }} }} }}"

    found = reading(QUEUES + function(event)).functions["Tick"].sources

    assert found == (() if source is None else (source,))


@pytest.mark.parametrize("off", ["State: DISABLED", "Enabled: false"])
def test_schedule_that_is_turned_off_is_none(reading, off):
    event = f"Events: {{ Often: {{ Type: Schedule, Properties: {{ Schedule: rate(1 minute), {off} }} }} }}"

    assert reading(function(event)).functions["Tick"].schedules == ()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            QUEUES
            + function("Events: { D: { Type: SQS, Properties: { Queue: !GetAtt Other.Arn } } }"),
            "queue of the template.*Other",
        ),
        (
            QUEUES
            + function(
                "Events: { D: { Type: SQS, Properties: { Queue: !GetAtt Due.Arn } } }\n"
                "      Timeout: 721"
            ),
            "visibility time-out of Due to be at least the 721 s",
        ),
        (QUEUES.replace("!GetAtt Dead.Arn", "!GetAtt Other.Arn"), "dead letters of Due"),
        (
            QUEUES.replace('FifoQueue: true, QueueName: !Sub "${AWS::StackName}-dead.fifo"', ""),
            "of its kind",
        ),
        (QUEUES.replace("-dead.fifo", "-dead"), "end in .fifo"),
        (QUEUES.replace("maxReceiveCount: 6", "maxReceiveCount: 0"), "maxReceiveCount"),
        ("  Topic: { Type: AWS::SNS::Topic, Condition: Missing }\n", "condition.*Missing"),
        (
            function(
                "Events: { S: { Type: ScheduleV2, Properties: { ScheduleExpression: often } } }"
            ),
            "a schedule as",
        ),
        ("  Topic: 7\n", "SAM template"),
        (function("Timeout: !Ref Nowhere"), "SAM template.*Nowhere"),
    ],
)
def test_template_that_aws_would_not_deploy_is_refused_by_name(reading, text, named):
    with pytest.raises(InvalidValue, match=named):
        reading(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("  Topic: { Type: AWS::SNS::Topic }\n", "Topic: AWS::SNS::Topic is not run here"),
        (
            function("SnapStart: { ApplyOn: PublishedVersions }"),
            "Tick: SnapStart of AWS::Serverless::Function is not run here",
        ),
        (
            function("Events: { B: { Type: S3, Properties: {} } }"),
            "Tick: its event B of type S3 is not run here",
        ),
        (
            QUEUES
            + function(
                "Events: { D: { Type: SQS, Properties: "
                "{ Queue: !GetAtt Due.Arn, FilterCriteria: {} } } }"
            ),
            "Tick: FilterCriteria of its event D is not run here",
        ),
        (
            "  Stage: { Type: AWS::ApiGatewayV2::Stage, Properties: { StageVariables: {} } }\n",
            "Stage: StageVariables of AWS::ApiGatewayV2::Stage is not run here",
        ),
        (
            (
                "  Tokens:\n    Type: AWS::ApiGatewayV2::Authorizer\n"
                "    Properties: { IdentitySource: [$request.querystring.token] }\n"
            ),
            "Tokens: tokens are read from the header Authorization only",
        ),
        (
            "  Lake: { Type: AWS::S3::Bucket }\n"
            + function("Environment: { Variables: { UPLOADS: !Ref Lake } }"),
            "Tick: its variable UPLOADS is not set: only a deployment knows Lake",
        ),
        (
            function("Environment: { Variables: { PERDURE_TABLE: !ImportValue elsewhere } }"),
            "Tick: its variable PERDURE_TABLE is not set: only a deployment knows Fn::ImportValue",
        ),
        (
            function("Environment: { Variables: { X: !Ref Nowhere } }"),
            "Tick: its variable X is not set: only a deployment knows Nowhere",
        ),
    ],
)
def test_what_is_declared_and_not_run_is_reported_in_a_line(reading, text, line):
    assert reading(text).left_out == (line,)


@pytest.mark.parametrize(
    "text",
    [
        "  Role: { Type: AWS::IAM::Role, Properties: { Anything: 1 } }\n",
        "  Alarm: { Type: AWS::CloudWatch::Alarm }\n",
        function("SnapStart: !Ref AWS::NoValue"),
        "  Role: { Type: AWS::IAM::Role }\n" + function("Role: !GetAtt Role.Arn"),
        function("Role: !GetAtt TickRole.Arn"),  # which SAM makes
        (
            "  Lake: { Type: AWS::S3::Bucket }\n"
            + function("Environment: { Variables: { PERDURE_STORAGE: !Sub 's3://${Lake}' } }")
        ),
    ],
)
def test_what_has_no_meaning_here_is_not(reading, text):
    assert reading(text).left_out == ()


def test_everything_that_the_projects_template_declares_is_run_or_known():
    assert read(ROOT / "template.yaml").left_out == ()


def test_api_says_which_pages_may_ask_and_how_often(reading):
    text = """
  Api:
    Type: AWS::ApiGatewayV2::Api
    Properties:
      CorsConfiguration: !If
        - HasOrigins
        - { AllowOrigins: !Ref Origins, AllowMethods: [GET], AllowHeaders: [accept], MaxAge: 600 }
        - !Ref AWS::NoValue
  Stage:
    Type: AWS::ApiGatewayV2::Stage
    Properties:
      DefaultRouteSettings: { ThrottlingRateLimit: 100, ThrottlingBurstLimit: 200 }
"""

    assert reading(text).cors is None
    assert reading(text, Origins="https://a,https://b").cors == Cors(
        origins=("https://a", "https://b"),
        methods=("GET",),
        headers=("accept",),
        max_age_seconds=600,
    )
    assert reading(text).throttle == Throttle(burst=200, rate=100.0)
