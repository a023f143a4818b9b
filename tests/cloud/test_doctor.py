"""Doctor in the cloud: what is lacking is named with a remedy, and nothing is left behind."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from click.testing import CliRunner
from tests.support.answers import answering, refusing, silent
from tests.support.ministack import account

from perdure.authority.dynamodb_wire import table_definition
from perdure.cli.main import perdure

pytestmark = pytest.mark.cloud

APP = "tests.emulator.harbour:app"
REGION = "eu-central-1"
SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"
NAMES = iter(range(1_000_000))


@dataclass
class Told:
    exit_code: int
    findings: list[dict[str, Any]]
    text: str

    def of(self, check: str, level: str | None = None) -> list[dict[str, Any]]:
        return [
            each
            for each in self.findings
            if each["check"] == check and level in {None, each["level"]}
        ]

    def only(self, check: str) -> dict[str, Any]:
        (found,) = self.of(check)
        return found


def doctor(*options: str) -> Told:
    run = CliRunner().invoke(perdure, ["doctor", "--app", APP, "--json", *options])
    assert run.exit_code in {0, 1, 3}, run.output
    return Told(run.exit_code, json.loads(run.stdout)["findings"], run.output)


@dataclass
class Installation:
    """A table, a bucket and a queue with a queue for its dead letters, as the template makes them."""

    name: str
    options: tuple[str, ...]

    def client(self, service: str) -> Any:
        return boto3.client(service)


@pytest.fixture
def credentials(monkeypatch):
    for name, value in {
        "AWS_ACCESS_KEY_ID": account(),
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PERDURE_TICKS", raising=False)
    monkeypatch.delenv("PERDURE_TABLE", raising=False)


@pytest.fixture
def at(credentials, monkeypatch):
    """Let every client of AWS ask at an address."""

    def ask_at(address: str) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)

    return ask_at


@pytest.fixture
def installed(aws, at, monkeypatch) -> Installation:
    at(aws)
    name = f"doctor-{account()}-{next(NAMES)}"
    dynamodb, s3, sqs = (boto3.client(each) for each in ("dynamodb", "s3", "sqs"))
    dynamodb.create_table(**table_definition(name), DeletionProtectionEnabled=True)
    dynamodb.update_continuous_backups(
        TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_public_access_block(
        Bucket=name,
        PublicAccessBlockConfiguration=dict.fromkeys(
            ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"),
            True,
        ),
    )
    encrypted = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration={"Rules": [encrypted]})
    boto3.client("glue").create_database(DatabaseInput={"Name": "default"})
    fifo = {"FifoQueue": "true"}
    dead = sqs.create_queue(QueueName=f"{name}-dead.fifo", Attributes=fifo)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 6})
    ticks = sqs.create_queue(
        QueueName=f"{name}.fifo", Attributes={**fifo, "RedrivePolicy": redrive}
    )["QueueUrl"]
    monkeypatch.setenv("PERDURE_TICKS", ticks)
    return Installation(name, ("--storage", f"s3://{name}/lake", "--table", name))


@pytest.fixture(autouse=True)
def glue_forgets(request, aws):
    """The stand-in has one catalog an account: the next test makes its database anew."""
    yield
    if "installed" in request.fixturenames:
        glue = boto3.client(
            "glue",
            REGION,
            endpoint_url=aws,
            aws_access_key_id=account(),
            aws_secret_access_key=SECRET,
        )
        glue.delete_database(Name="default")


def test_installation_as_the_template_makes_it_is_well(installed):
    told = doctor(*installed.options)

    assert told.exit_code == 0, told.text
    assert {each["level"] for each in told.findings} == {"ok", "skip"}, told.text
    assert {each["check"] for each in told.findings if each["level"] == "skip"} == {
        "table-write",
        "bucket-write",
    }
    assert account() in told.only("credentials")["found"]
    assert SECRET not in told.text


def test_what_a_write_is_tried_with_is_gone_afterwards(installed):
    boto3.client("s3").put_bucket_versioning(
        Bucket=installed.name, VersioningConfiguration={"Status": "Enabled"}
    )

    told = doctor(*installed.options, "--write")

    assert told.only("table-write")["level"] == told.only("bucket-write")["level"] == "ok"
    assert boto3.client("dynamodb").scan(TableName=installed.name)["Count"] == 0
    kept = boto3.client("s3").list_object_versions(Bucket=installed.name)
    assert kept.get("Versions", []) == kept.get("DeleteMarkers", []) == []


def test_table_that_is_not_there_is_named_and_what_needs_it_is_not_asked(installed):
    told = doctor(*installed.options[:2], "--table", "nowhere")

    assert told.exit_code == 1
    assert "ResourceNotFoundException" in told.only("table")["found"]
    assert "PERDURE_TABLE" in told.only("table")["remedy"]
    assert {told.only(name)["level"] for name in ("floor", "worlds", "tables")} == {"skip"}


def test_table_with_other_keys_and_no_protection_is_told_so(installed):
    boto3.client("dynamodb").create_table(
        TableName=f"{installed.name}-odd",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        ProvisionedThroughput={"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
    )

    told = doctor(*installed.options[:2], "--table", f"{installed.name}-odd")

    (keys,) = told.of("table", "fail")
    assert keys["found"] == "keys pk S HASH, not pk S HASH, sk S RANGE"
    warned = " ".join(each["found"] for each in told.of("table", "warn"))
    assert "PROVISIONED" in warned
    assert "deletion protection is off" in warned
    assert "point-in-time recovery is off" in warned


def test_bucket_that_is_not_there_is_named(installed):
    told = doctor("--storage", "s3://nowhere-at-all/lake", *installed.options[2:])

    assert told.exit_code == 1
    assert told.only("bucket")["level"] == "fail"
    assert "nowhere-at-all" in told.only("bucket")["remedy"]


@pytest.mark.slow
def test_bucket_that_is_open_to_the_public_is_warned_of(installed):
    boto3.client("s3").delete_public_access_block(Bucket=installed.name)

    told = doctor(*installed.options)

    assert told.exit_code == 0
    (warned,) = told.of("bucket", "warn")
    assert "RestrictPublicBuckets" in warned["found"]


def test_dead_letter_is_counted_and_not_touched(installed):
    sqs = boto3.client("sqs")
    dead = sqs.get_queue_url(QueueName=f"{installed.name}-dead.fifo")["QueueUrl"]
    sqs.send_message(
        QueueUrl=dead, MessageBody="{}", MessageGroupId="w", MessageDeduplicationId="1"
    )

    told = doctor(*installed.options)

    (warned,) = told.of("dead-letters", "warn")
    assert warned["found"].startswith(f"1 messages in {installed.name}-dead.fifo")
    taken = sqs.receive_message(QueueUrl=dead, AttributeNames=["All"])["Messages"]
    assert taken[0]["Attributes"]["ApproximateReceiveCount"] == "1"


@pytest.mark.slow
def test_queue_that_is_not_there_or_keeps_no_order_fails(installed, monkeypatch):
    url = boto3.client("sqs").create_queue(QueueName=f"{installed.name}-plain")["QueueUrl"]

    monkeypatch.setenv("PERDURE_TICKS", url)
    plain = doctor(*installed.options)
    monkeypatch.setenv("PERDURE_TICKS", f"{url}-nowhere")
    nowhere = doctor(*installed.options)

    assert "no FIFO queue" in plain.only("queue")["found"]
    assert "NonExistent" in nowhere.only("queue")["found"]
    assert plain.only("dead-letters")["level"] == "skip"


@pytest.mark.slow
def test_iceberg_catalog_without_its_namespace_is_warned_of(installed):
    told = doctor(*installed.options)
    boto3.client("glue").delete_database(Name="default")
    without = doctor(*installed.options)
    boto3.client("glue").create_database(DatabaseInput={"Name": "default"})

    assert told.only("tables")["found"] == "the Iceberg catalog lists 0 tables in default"
    assert without.only("tables")["level"] == "warn"


CLOUD = ("--storage", "s3://bucket/lake", "--table", "table")


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (403, "AccessDeniedException", "permission"),
        (400, "ExpiredTokenException", "get new credentials"),
    ],
)
def test_credentials_that_are_refused_say_what_to_do(at, status, code, remedy):
    with answering(refusing(status, code, "you may not: dynamodb:DescribeTable"), time.time) as url:
        at(url)
        told = doctor(*CLOUD)

    assert told.exit_code == 1
    for check in ("credentials", "table"):
        assert code in told.only(check)["found"]
        assert remedy in told.only(check)["remedy"]
    assert SECRET not in told.text


def test_credentials_that_are_missing_are_asked_for(at, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with answering(refusing(403, "AccessDenied", "no"), time.time) as url:
        at(url)
        told = doctor(*CLOUD)

    assert told.only("credentials")["found"] == "no credentials are found"
    assert "AWS_PROFILE" in told.only("table")["remedy"]


@pytest.mark.parametrize("check", ["table", "bucket", "queue"])
def test_port_where_nobody_listens_is_no_answer_and_may_pass(at, monkeypatch, check):
    monkeypatch.setenv("PERDURE_TICKS", "http://127.0.0.1:9/000000000000/ticks.fifo")
    at("http://127.0.0.1:9")

    told = doctor(*CLOUD)

    assert told.exit_code == 3
    assert told.only(check)["found"].startswith("no answer: EndpointConnectionError")
    assert "AWS_ENDPOINT_URL" in told.only(check)["remedy"]


def test_region_that_is_missing_is_asked_for(credentials, monkeypatch, tmp_path):
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    told = doctor(*CLOUD)

    assert told.exit_code == 1
    for check in ("credentials", "table"):
        assert "AWS_DEFAULT_REGION" in told.only(check)["remedy"]


def test_clock_is_compared_with_the_date_of_an_answer_even_of_a_refusal(at):
    refusal = refusing(403, "AccessDeniedException", "no")

    def answer(request, body):
        return *refusal(request, body)[:2], -90

    with answering(answer, time.time) as url:
        at(url)
        told = doctor(*CLOUD)

    assert told.only("clock")["level"] == "fail"
    assert "ahead of AWS" in told.only("clock")["found"]
    assert "NTP" in told.only("clock")["remedy"]


@pytest.mark.slow
def test_endpoint_that_hangs_costs_a_few_seconds_and_is_told(at):
    with silent() as url:
        at(url)
        began = time.monotonic()
        told = doctor(*CLOUD)
        took = time.monotonic() - began

    assert told.exit_code == 3
    for check in ("clock", "table", "bucket"):
        assert told.only(check)["level"] == "fail"
        assert told.only(check)["found"].startswith("no answer")
    assert took < 60
