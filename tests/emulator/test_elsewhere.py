"""`perdure dev --aws`: the same functions over DynamoDB, S3, SQS and Glue at an address."""

from __future__ import annotations

import json
import time
from itertools import count

import boto3
import pytest
from botocore.exceptions import ClientError
from tests.emulator.deployment import ROOT, deployed, refused
from tests.emulator.serving import sqs_client
from tests.support.ministack import account

from perdure.kernel.errors import InvalidValue, NotFound, StoreUnavailable
from perdure_emulator import elsewhere_aws
from perdure_emulator.declared import Function, Made, Template
from perdure_emulator.elsewhere_aws import Elsewhere
from perdure_emulator.function_process import environment
from perdure_emulator.template import read
from perdure_emulator.variables import effective

pytestmark = pytest.mark.cloud

_NUMBERS = count(1)

HERE = "http://127.0.0.1:4566"
BUCKET = Template({}, (), buckets=(Made("Lake", "lake", {}),))

TEMPLATE = f"""
Parameters: {{ Namespace: {{ Type: String, Default: default }} }}
Globals:
  Function:
    Environment:
      Variables:
        PERDURE_STORAGE: !Sub s3://${{Lake}}
        PERDURE_TABLE: !Ref Authority
        PERDURE_NAMESPACE: !Ref Namespace
Resources:
  Authority:
    Type: AWS::DynamoDB::Table
    Properties:
      AttributeDefinitions:
        - {{ AttributeName: pk, AttributeType: S }}
        - {{ AttributeName: sk, AttributeType: S }}
      KeySchema:
        - {{ AttributeName: pk, KeyType: HASH }}
        - {{ AttributeName: sk, KeyType: RANGE }}
  Lake: {{ Type: AWS::S3::Bucket, Properties: {{ BucketName: BUCKET }} }}
  Tables:
    Type: AWS::Glue::Database
    Properties: {{ DatabaseInput: {{ Name: !Sub "perdure_${{Namespace}}" }} }}
  Due:
    Type: AWS::SQS::Queue
    Properties:
      FifoQueue: true
      VisibilityTimeout: 5
      RedrivePolicy: {{ deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 2 }}
  Dead: {{ Type: AWS::SQS::Queue, Properties: {{ FifoQueue: true }} }}
  ApiFunction:
    Type: AWS::Serverless::Function
    Properties: {{ CodeUri: {ROOT / "functions" / "api"}, Timeout: 15 }}
  Worker:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: worker
      Environment: {{ Variables: {{ QUEUE: !Ref Due }} }}
      Events:
        Due:
          Type: SQS
          Properties: {{ Queue: !GetAtt Due.Arn, FunctionResponseTypes: [ReportBatchItemFailures] }}
  Http: {{ Type: AWS::ApiGatewayV2::Api, Properties: {{ ProtocolType: HTTP }} }}
  Integration:
    Type: AWS::ApiGatewayV2::Integration
    Properties: {{ IntegrationUri: !GetAtt ApiFunction.Arn }}
  Create:
    Type: AWS::ApiGatewayV2::Route
    Properties: {{ RouteKey: POST /v1/worlds, Target: !Sub "integrations/${{Integration}}", AuthorizationType: JWT, AuthorizerId: !Ref Tokens }}
  Tokens:
    Type: AWS::ApiGatewayV2::Authorizer
    Properties: {{ AuthorizerType: JWT }}
"""

WORKER = """
import json, os, pathlib

def handler(event, context):
    (record,) = event["Records"]
    pathlib.Path(record["body"]).write_text(json.dumps({**record, "queue": os.environ["QUEUE"]}))
    return None
"""


@pytest.fixture
def small(tmp_path):
    # Names of buckets are everybody's.
    (tmp_path / "template.yaml").write_text(TEMPLATE.replace("BUCKET", f"lake-{next(_NUMBERS)}"))
    (tmp_path / "worker").mkdir()
    (tmp_path / "worker" / "app.py").write_text(WORKER)
    return tmp_path / "template.yaml"


@pytest.fixture
def key(monkeypatch):
    """An account of this test at the stand-in."""
    found = account(4_715)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, found)
    return found


def client(service, aws, key):
    return boto3.client(
        service,
        endpoint_url=aws,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=key,
    )


@pytest.mark.slow
def test_functions_run_over_what_is_made_there(tmp_path, small, aws, key):
    asked = {"name": "harbour", "world_id": "harbour"}
    with deployed(tmp_path / "root", "--template", str(small), "--aws", aws) as running:
        assert running.http.post("/v1/worlds", json=asked).status_code == 201
        sqs = sqs_client(aws, key)
        url = sqs.get_queue_url(QueueName="perdure-Due.fifo")["QueueUrl"]
        answer = tmp_path / "answer"
        sqs.send_message(
            QueueUrl=url, MessageBody=str(answer), MessageGroupId="a", MessageDeduplicationId="x"
        )
        until = time.monotonic() + 120
        while not answer.exists() or not answer.read_text():
            assert time.monotonic() < until, "no message in 120 seconds"
            time.sleep(0.1)
        _, _, said = running.stop(2)

    table = client("dynamodb", aws, key).scan(TableName="perdure-Authority")
    assert any("harbour" in json.dumps(each, default=str) for each in table["Items"])
    record = json.loads(answer.read_text())
    assert record["eventSourceARN"].endswith(":perdure-Due.fifo")
    assert record["attributes"]["MessageGroupId"] == "a"
    assert record["queue"] == url
    assert [line.split()[2] for line in said.splitlines()] == [
        "perdure-Authority",
        read(small).buckets[0].name,
        "perdure_default",
        "perdure-Dead.fifo",
        "perdure-Due.fifo",
    ]
    assert not [*(tmp_path / "root").rglob("*.db")]


@pytest.mark.slow
def test_what_is_there_is_used_as_it_is_and_made_nowhere_else(small, aws, key, monkeypatch, capsys):
    declared = read(small)
    monkeypatch.setattr(elsewhere_aws, "LOOPBACK", frozenset())
    elsewhere = Elsewhere(aws)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", account(4_716))

    with pytest.raises(NotFound, match=r"perdure-Authority .*nothing is made but on this machine"):
        elsewhere.made(declared)

    tables = client("dynamodb", aws, account(4_716)).list_tables()["TableNames"]
    assert tables == []
    monkeypatch.undo()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", account(4_716))
    made = Elsewhere(aws).made(declared)
    assert capsys.readouterr().err.count("made") == 5
    assert Elsewhere(aws).made(declared) == made
    assert capsys.readouterr().err == ""


class Refusing:
    """An S3 that has no bucket, and makes one only if it is told where."""

    def __init__(self, location):
        self._location = location

    def head_bucket(self, **_):
        raise ClientError({"Error": {"Code": "404"}}, "HeadBucket")

    def create_bucket(self, CreateBucketConfiguration=None, **_):  # noqa: N803  # AWS's spelling
        if CreateBucketConfiguration != self._location:
            code = "IllegalLocationConstraintException"
            raise ClientError({"Error": {"Code": code}}, "CreateBucket")


@pytest.mark.parametrize("variable", ["AWS_DEFAULT_REGION", "AWS_REGION"])
@pytest.mark.parametrize(
    ("region", "location"),
    [
        ("us-east-1", None),
        ("eu-central-1", {"LocationConstraint": "eu-central-1"}),
    ],
)
def test_bucket_is_made_in_the_region_that_is_named(
    monkeypatch, capsys, variable, region, location
):
    for each in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(variable, region)
    monkeypatch.setattr(Elsewhere, "_client", lambda *_: Refusing(location))

    Elsewhere(HERE).made(BUCKET)

    assert capsys.readouterr().err == f"perdure: made lake at {HERE}\n"


def test_what_could_not_be_made_is_not_said_to_be(monkeypatch, capsys):
    monkeypatch.setattr(Elsewhere, "_client", lambda *_: Refusing("nowhere"))

    with pytest.raises(StoreUnavailable, match="IllegalLocationConstraint"):
        Elsewhere(HERE).made(BUCKET)

    assert capsys.readouterr().err == ""


GIVEN = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_SESSION_TOKEN": "session",
    "AWS_PROFILE": "mine",
    "AWS_CONFIG_FILE": "/somewhere/config",
    "AWS_SHARED_CREDENTIALS_FILE": "/somewhere/credentials",
    "AWS_CA_BUNDLE": "/somewhere/ca.pem",
}


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://devbox.example:4566", GIVEN),
        (HERE, {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}),
    ],
)
def test_function_apart_has_the_credentials_for_an_address_elsewhere_and_no_others_here(
    tmp_path, monkeypatch, url, found
):
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    declared = Function(
        name="Tick",
        file=tmp_path / "app.py",
        handler="handler",
        timeout_seconds=3,
        environment=effective({}, Elsewhere(url).environment()),
    )

    seen = environment(declared, "127.0.0.1:1")

    assert {name: seen[name] for name in GIVEN if name in seen} == found
    assert seen["AWS_ENDPOINT_URL"] == url


@pytest.mark.parametrize("url", ["", "127.0.0.1:4566", "ftp://127.0.0.1", "http://"])
def test_address_that_is_none_is_refused(url):
    with pytest.raises(InvalidValue, match="--aws"):
        Elsewhere(url)


@pytest.mark.slow
def test_address_where_nobody_is_is_one_clear_line(tmp_path, small):
    run = refused(
        tmp_path / "root", "--port", "0", "--template", str(small), "--aws", "http://127.0.0.1:9"
    )

    assert run.returncode == 3, run.stderr
    assert run.stderr.count("\n") == 1
    assert "AWS at http://127.0.0.1:9" in run.stderr
