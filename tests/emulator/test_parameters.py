"""A template that AWS would refuse is refused here, too, and the part that is wrong is named."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from perdure.kernel.errors import InvalidValue
from perdure_emulator.dev import dev
from perdure_emulator.template import read

pytestmark = pytest.mark.cloud

TEMPLATE = """
Parameters:
  Seconds: { Type: Number, Default: 720, MinValue: 1, MaxValue: 43200 }
  Days: { Type: Number, Default: 30, AllowedValues: [7, 30] }
  Stage: { Type: String, Default: dev, AllowedValues: [dev, prod] }
  Name: { Type: String, Default: ab, AllowedPattern: "[a-z]+", MinLength: 2, MaxLength: 5 }
  Sizes: { Type: List<Number>, Default: "1,2", MaxValue: 3 }
  Sites: { Type: CommaDelimitedList, Default: "a,b", AllowedPattern: "[a-z]*" }
  Secret: { Type: String, Default: xxxx, MinLength: 4, NoEcho: true }
  Zone: { Type: String, Default: aa, AllowedPattern: "a+", ConstraintDescription: one of ours }
  Namespace: { Type: String, Default: "", AllowedPattern: "[a-z]*" }
Resources:
  Tick:
    Type: AWS::Serverless::Function
    Properties: { CodeUri: tick, Environment: { Variables: { X: !Ref Namespace } } }
"""


@pytest.fixture
def reading(tmp_path):
    def read_text(text=TEMPLATE, assumed=None, **parameters):
        (tmp_path / "template.yaml").write_text(text)
        return read(tmp_path / "template.yaml", parameters=parameters, assumed=assumed)

    return read_text


def test_parameter_that_the_template_does_not_declare_is_refused(reading):
    with pytest.raises(InvalidValue, match=r"a parameter of the template: Seconds, .*'Secnds'"):
        reading(Secnds="7")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Seconds", "1"),
        ("Seconds", "43200"),
        ("Seconds", "1.5"),
        ("Days", "7"),
        ("Stage", "prod"),
        ("Name", "abcde"),
        ("Sizes", "3, 1"),
        ("Sites", ""),
        ("Sites", "abc,d"),
        ("Secret", "1234"),
    ],
)
def test_value_that_cloudformation_takes_is_taken(reading, name, value):
    reading(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("Seconds", "0", "at least 1"),
        ("Seconds", "99999999", "at most 43200"),
        ("Seconds", "soon", "a number"),
        ("Seconds", "nan", "a number"),
        ("Seconds", "", "a number"),
        ("Days", "8", "one of 7, 30"),
        ("Stage", "tset", "one of dev, prod"),
        ("Name", "ab1", "like [a-z]+"),
        ("Name", "1ab", "like [a-z]+"),
        ("Name", "a", "characters, at least 2"),
        ("Name", "abcdef", "characters, at most 5"),
        ("Sizes", "1,4", "at most 3"),
        ("Sizes", "1,b", "a number"),
        ("Sites", "a,1", "like [a-z]*"),
        ("Zone", "b", "one of ours"),
    ],
)
def test_value_that_cloudformation_refuses_is_refused(reading, name, value, expected):
    found = re.escape(f"Expected parameter {name} to be {expected}; found {value!r}.")

    with pytest.raises(InvalidValue, match=found):
        reading(**{name: value})


def test_value_that_is_not_to_be_shown_is_not(reading):
    with pytest.raises(InvalidValue, match="found a value that is not shown"):
        reading(Secret="abc")


def test_default_that_cloudformation_refuses_is_refused(reading):
    with pytest.raises(InvalidValue, match="Seconds to be at most 7"):
        reading(TEMPLATE.replace("MaxValue: 43200", "MaxValue: 7"))


def test_what_the_emulator_assumes_counts_before_a_default_and_is_not_checked(reading):
    ours = {"Namespace": "my-0", "Issuer": "https://here"}

    assert reading(assumed=ours).functions["Tick"].environment == {"X": "my-0"}
    assert reading(assumed=ours, Namespace="said").functions["Tick"].environment == {"X": "said"}


def test_parameter_that_is_refused_starts_nothing_and_makes_nothing(tmp_path):
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    options = ("--root", tmp_path / "root", "--template", tmp_path / "template.yaml")

    run = CliRunner().invoke(dev, [*map(str, options), "--parameter", "Nope=1"])

    assert isinstance(run.exception, InvalidValue)
    assert "'Nope'" in str(run.exception)
    assert not (tmp_path / "root").exists()


FUNCTION = "Resources:\n  Tick: {{ Type: AWS::Serverless::Function, Properties: {{ CodeUri: tick, {} }} }}\n"
QUEUE = "Resources:\n  Due: {{ Type: AWS::SQS::Queue, Properties: {{ {} }} }}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Resources: { A: {} }", "A: KeyError: 'Type'"),
        ("Resources: { A: { Type: AWS::SNS::Topic, Condition: No } }", "A: TypeError: .* False"),
        ("Resources: { A: { Type: AWS::Serverless::Function } }", "A: KeyError: 'Properties'"),
        ("Resources: { A: { Type: AWS::ApiGatewayV2::Route } }", "A: KeyError: 'Properties'"),
        (QUEUE.format("VisibilityTimeout: soon"), "Due: ValueError"),
        (QUEUE.format("RedrivePolicy: {}"), "Due: KeyError: 'deadLetterTargetArn'"),
        (FUNCTION.format("Timeout: soon"), "Tick: ValueError"),
        (FUNCTION.format("Events: { E: { Type: SQS } }"), "Tick: its event E: KeyError"),
        (FUNCTION.format("Events: { E: { Type: Schedule } }"), "Tick: its event E: KeyError"),
        (
            FUNCTION.format("Environment: { Variables: { X: !Ref Authorty } }"),
            "Tick: Authorty is no parameter and no resource of the template",
        ),
        (
            FUNCTION.format("Environment: { Variables: { X: !Sub 's3://${Lkae}' } }"),
            "Tick: Lkae is no parameter and no resource",
        ),
        (
            FUNCTION.format("Timeout: !GetAtt Nobody.Arn"),
            "Tick: Nobody.Arn is no parameter and no resource",
        ),
        (FUNCTION.format("Role: !GetAtt Nobody.Arn"), "Tick: Nobody.Arn is no parameter"),
        (
            FUNCTION.format(
                "Events: { E: { Type: SQS, Properties: { Queue: !Ref Tick, Odd: 1 } } }"
            ),
            "E of Tick to name a queue",
        ),
    ],
)
def test_part_of_a_template_that_makes_no_sense_is_named(reading, text, expected):
    with pytest.raises(InvalidValue, match=expected):
        reading(text)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ("VisibilityTimeout: 43201", "VisibilityTimeout of Due to be 0 to 43200 seconds"),
        ("DelaySeconds: -1", "DelaySeconds of Due to be 0 to 900 seconds"),
        ("MessageRetentionPeriod: 59", "MessageRetentionPeriod of Due to be 60 to 1209600"),
        ("ReceiveMessageWaitTimeSeconds: 21", "of Due to be 0 to 20 seconds"),
        ("QueueName: bad name!", "the name of Due to be letters, digits, - and _"),
        (f"QueueName: {'a' * 81}", "the name of Due .* at most 80"),
        ("QueueName: due.fifo.fifo, FifoQueue: true", "the name of Due"),
        ("QueueName: due.fifo", "the name of Due .*\\.fifo"),
    ],
)
def test_queue_that_sqs_would_not_make_is_refused(reading, properties, expected):
    with pytest.raises(InvalidValue, match=expected):
        reading(QUEUE.format(properties))
