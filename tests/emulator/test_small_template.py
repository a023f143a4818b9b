"""A template of one's own runs: schedules, a queue, dead letters, variables; the rest is reported."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.emulator.deployment import deployed, refused
from tests.emulator.serving import sqs_client

pytestmark = pytest.mark.cloud

TEMPLATE = """
Parameters:
  Name: { Type: String, Default: nobody }
  Diary: { Type: String }
Globals:
  Function:
    Timeout: 1
    Environment: { Variables: { NAME: !Ref Name, DIARY: !Ref Diary, WHOSE: all, TABLE: !Ref Table } }
Resources:
  Caller:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: caller
      Timeout: 60
      Environment: { Variables: { QUEUE: !Ref Due, WHOSE: caller } }
      Events:
        Once: { Type: ScheduleV2, Properties: { ScheduleExpression: "at(2030-01-01T00:00:30)" } }
  Worker:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: worker
      Events:
        Due:
          Type: SQS
          Properties:
            Queue: !GetAtt Due.Arn
            FunctionResponseTypes: [ReportBatchItemFailures]
  Due:
    Type: AWS::SQS::Queue
    Properties:
      FifoQueue: true
      VisibilityTimeout: 1
      RedrivePolicy: { deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 2 }
  Dead: { Type: AWS::SQS::Queue, Properties: { FifoQueue: true, QueueName: dead.fifo } }
  Table: { Type: AWS::DynamoDB::Table, Properties: { BillingMode: PAY_PER_REQUEST } }
  Topic: { Type: AWS::SNS::Topic }
  Role: { Type: AWS::IAM::Role, Properties: {} }
"""

WRITES = """
import json, os, pathlib

def write(**what):
    names = ("NAME", "WHOSE", "QUEUE", "TABLE")
    what["variables"] = {name: os.environ.get(name) for name in names}
    with pathlib.Path(os.environ["DIARY"]).open("a") as diary:
        diary.write(json.dumps(what) + "\\n")
"""

CALLER = f"""
import boto3
{WRITES}
def handler(event, context):
    write(scheduled=event["time"])
    queue = boto3.client("sqs")
    for group, body in (("a", "poison"), ("a", "behind"), ("b", "good")):
        queue.send_message(
            QueueUrl=os.environ["QUEUE"],
            MessageBody=body,
            MessageGroupId=group,
            MessageDeduplicationId=body,
        )
"""

WORKER = f"""
{WRITES}
def handler(event, context):
    write(bodies=[each["body"] for each in event["Records"]])
    failed = [each["messageId"] for each in event["Records"] if each["body"] == "poison"]
    return {{"batchItemFailures": [{{"itemIdentifier": each}} for each in failed]}}
"""


@pytest.fixture
def small(tmp_path):
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    for name, text in (("caller", CALLER), ("worker", WORKER)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "app.py").write_text(text)
    return tmp_path / "template.yaml"


def options(small: Path, diary: Path, *more: str) -> tuple[str, ...]:
    given = ("--template", str(small), "--parameter", f"Diary={diary}", "--parameter", "Name=ann")
    return (*given, "--at", "2030-01-01T00:00:00Z", "--speed", "1000", *more)


def entries(diary: Path):
    return [json.loads(line) for line in diary.read_text().splitlines()] if diary.exists() else []


def awaited(diary: Path, bodies):
    """What the functions wrote, once the worker was given so many bodies."""
    until = time.monotonic() + 120
    while sum(len(each.get("bodies", ())) for each in entries(diary)) < bodies:
        assert time.monotonic() < until, entries(diary)
        time.sleep(0.05)
    return entries(diary)


def test_schedule_sends_to_a_queue_whose_poison_becomes_a_dead_letter(tmp_path, small):
    diary = tmp_path / "diary"
    with deployed(tmp_path / "root", *options(small, diary)) as running:
        written = awaited(diary, bodies=4)
        dead = sqs_client(str(running.http.base_url))
        url = dead.get_queue_url(QueueName="dead.fifo")["QueueUrl"]
        reply = dead.receive_message(QueueUrl=url, WaitTimeSeconds=20)
        dead.close()
        _, _, said = running.stop(2)

    assert [each["Body"] for each in reply["Messages"]] == ["poison"]
    scheduled = [each for each in written if "scheduled" in each]
    assert [each["scheduled"] for each in scheduled] == ["2030-01-01T00:00:30Z"]
    bodies = [body for each in written for body in each.get("bodies", ())]
    assert sorted(bodies) == ["behind", "good", "poison", "poison"]
    lines = said.splitlines()
    assert lines[0] == "perdure: Topic: AWS::SNS::Topic is not run here"
    assert lines[1].startswith("perdure: Globals: its variable TABLE is not set")
    assert [line for line in lines if "in vain; it is in Dead" in line] == lines[2:]
    assert len(lines) == 3

    for each, whose in ((scheduled[0], "caller"), (written[-1], "all")):
        assert each["variables"]["WHOSE"] == whose
        assert each["variables"]["NAME"] == "ann"
        assert each["variables"]["TABLE"] is None
    assert scheduled[0]["variables"]["QUEUE"].endswith("/000000000000/perdure-Due.fifo")
    assert written[-1]["variables"]["QUEUE"] is None


@pytest.mark.parametrize("given", ["", "--at=yesterday", "--parameter=Diary", "--speed=100001"])
def test_option_that_is_none_is_used_wrongly_and_makes_nothing(tmp_path, small, given):
    if not given:
        given = "--at="

    run = refused(tmp_path / "root", "--port", "0", "--template", str(small), given)

    assert run.returncode == 2
    assert given.partition("=")[0] in run.stderr
    assert not (tmp_path / "root").exists()
