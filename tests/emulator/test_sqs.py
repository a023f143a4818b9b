"""A plain boto3 client is content with the emulator's queues, and hears of them what SQS says."""

from __future__ import annotations

import httpx
import pytest
from botocore.exceptions import ClientError
from tests.emulator.serving import Time, new_queues, queues_over_http

pytestmark = pytest.mark.cloud

FIFO = {"MessageGroupId": "a", "MessageDeduplicationId": "x"}


@pytest.fixture(scope="module")
def time():
    return Time()


@pytest.fixture(scope="module")
def client(time):
    with queues_over_http(new_queues(time)[0]) as found:
        yield found


@pytest.fixture
def ticks(client):
    return _emptied(client, "ticks.fifo")


@pytest.fixture
def mail(client):
    return _emptied(client, "mail")


def _emptied(client, name):
    url = client.get_queue_url(QueueName=name)["QueueUrl"]
    client.purge_queue(QueueUrl=url)
    return url


def received(client, url, **given):
    reply = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, **given)
    return reply.get("Messages", [])


def test_message_is_sent_received_and_deleted(client, ticks, time):
    time.pass_seconds(300)
    sent = client.send_message(QueueUrl=ticks, MessageBody="1", **FIFO)

    (found,) = received(client, ticks, MessageSystemAttributeNames=["All"])

    assert (found["MessageId"], found["Body"]) == (sent["MessageId"], "1")
    assert found["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert found["Attributes"]["MessageGroupId"] == "a"
    assert found["Attributes"]["MessageDeduplicationId"] == "x"
    assert found["Attributes"]["SequenceNumber"] == sent["SequenceNumber"]
    assert found["Attributes"]["ApproximateReceiveCount"] == "1"
    client.delete_message(QueueUrl=ticks, ReceiptHandle=found["ReceiptHandle"])
    time.pass_seconds(60)
    assert received(client, ticks) == []


def test_attributes_come_only_if_they_are_asked_for(client, mail):
    given = {"shape": {"DataType": "String", "StringValue": "round"}}
    client.send_message(QueueUrl=mail, MessageBody="1", MessageAttributes=given)
    client.send_message(QueueUrl=mail, MessageBody="2", MessageAttributes=given)

    (bare,) = client.receive_message(QueueUrl=mail)["Messages"]
    (full,) = client.receive_message(
        QueueUrl=mail, MessageAttributeNames=["shape"], AttributeNames=["SentTimestamp"]
    )["Messages"]

    assert not {"Attributes", "MessageAttributes"} & bare.keys()
    assert full["MessageAttributes"] == given
    assert [*full["Attributes"]] == ["SentTimestamp"]


def test_batch_says_of_each_entry_what_became_of_it(client, ticks, time):
    time.pass_seconds(300)
    good = {"Id": "good", "MessageBody": "1", **FIFO}
    bad = {"Id": "bad", "MessageBody": "2", "MessageDeduplicationId": "y"}

    sent = client.send_message_batch(QueueUrl=ticks, Entries=[good, bad])

    assert [each["Id"] for each in sent["Successful"]] == ["good"]
    assert [(each["Id"], each["Code"]) for each in sent["Failed"]] == [("bad", "MissingParameter")]
    (found,) = received(client, ticks)
    entries = [
        {"Id": "held", "ReceiptHandle": found["ReceiptHandle"]},
        {"Id": "none", "ReceiptHandle": "none"},
    ]
    gone = client.delete_message_batch(QueueUrl=ticks, Entries=entries)
    assert [each["Id"] for each in gone["Successful"]] == ["held"]
    assert [each["Code"] for each in gone["Failed"]] == ["ReceiptHandleIsInvalid"]


def test_visibility_is_changed_by_one_and_by_many(client, mail):
    client.send_message(QueueUrl=mail, MessageBody="1")
    (found,) = received(client, mail)
    handle = {"ReceiptHandle": found["ReceiptHandle"]}

    client.change_message_visibility(QueueUrl=mail, VisibilityTimeout=0, **handle)
    (again,) = received(client, mail)
    handle = {"ReceiptHandle": again["ReceiptHandle"]}
    entry = {"Id": "1", "VisibilityTimeout": 0, **handle}
    client.change_message_visibility_batch(QueueUrl=mail, Entries=[entry])

    counts = client.get_queue_attributes(QueueUrl=mail, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == "1"


def test_queue_tells_what_it_is(client, ticks):
    told = client.get_queue_attributes(QueueUrl=ticks, AttributeNames=["All"])["Attributes"]

    assert (told["FifoQueue"], told["ContentBasedDeduplication"]) == ("true", "false")
    assert told["QueueArn"] == "arn:aws:sqs:us-east-1:000000000000:ticks.fifo"
    assert '"maxReceiveCount": 3' in told["RedrivePolicy"]
    assert "ticks-dead.fifo" in told["RedrivePolicy"]


def test_queues_are_listed_by_how_their_name_begins(client):
    listed = client.list_queues(QueueNamePrefix="ticks")["QueueUrls"]

    assert [each.rpartition("/")[2] for each in listed] == ["ticks-dead.fifo", "ticks.fifo"]


@pytest.mark.parametrize(
    ("call", "given", "code"),
    [
        (
            "get_queue_url",
            {"QueueName": "none"},
            "AWS.SimpleQueueService.NonExistentQueue",
        ),
        (
            "send_message",
            {"QueueUrl": "http://127.0.0.1:1/000000000000/none", "MessageBody": "1"},
            "AWS.SimpleQueueService.NonExistentQueue",
        ),
        (
            "send_message",
            {"QueueUrl": "http://127.0.0.1:1/111111111111/mail", "MessageBody": "1"},
            "AWS.SimpleQueueService.NonExistentQueue",
        ),
        ("send_message", {"MessageBody": "1", "MessageDeduplicationId": "x"}, "MissingParameter"),
        ("send_message", {"MessageBody": "1", "MessageGroupId": "a"}, "InvalidParameterValue"),
        (
            "send_message",
            {"MessageBody": "x" * 1_048_577, **FIFO},
            "InvalidParameterValue",
        ),
        ("delete_message", {"ReceiptHandle": "none"}, "ReceiptHandleIsInvalid"),
        (
            "change_message_visibility",
            {"ReceiptHandle": "none", "VisibilityTimeout": 43_201},
            "InvalidParameterValue",
        ),
        ("receive_message", {"MaxNumberOfMessages": 11}, "InvalidParameterValue"),
        ("receive_message", {"WaitTimeSeconds": 21}, "InvalidParameterValue"),
        (
            "send_message_batch",
            {"Entries": []},
            "AWS.SimpleQueueService.EmptyBatchRequest",
        ),
        (
            "send_message_batch",
            {"Entries": [{"Id": str(n), "MessageBody": "1"} for n in range(11)]},
            "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
        ),
        (
            "send_message_batch",
            {"Entries": [{"Id": "1", "MessageBody": "1"}, {"Id": "1", "MessageBody": "2"}]},
            "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
        ),
        (
            "send_message_batch",
            {"Entries": [{"Id": n, "MessageBody": "x" * 600_000} for n in "12"]},
            "AWS.SimpleQueueService.BatchRequestTooLong",
        ),
        (
            "create_queue",
            {"QueueName": "new"},
            "AWS.SimpleQueueService.UnsupportedOperation",
        ),
    ],
)
def test_what_sqs_refuses_is_refused_with_its_code(client, ticks, call, given, code):
    queue = {} if "QueueName" in given else {"QueueUrl": ticks}

    with pytest.raises(ClientError) as refused:
        getattr(client, call)(**{**queue, **given})

    assert refused.value.response["Error"]["Code"] == code
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_refusal_is_the_exception_that_the_client_names(client):
    with pytest.raises(client.exceptions.QueueDoesNotExist):
        client.get_queue_url(QueueName="none")


def test_body_that_is_no_request_is_refused(client, ticks):
    address = ticks.rpartition("/000000000000/")[0]
    for body in (
        b"{",
        b"[]",
        b'{"QueueUrl": 7}',
        b'{"QueueUrl":"' + ticks.encode() + b'","Entries":[7]}',
    ):
        reply = httpx.post(
            address, content=body, headers={"x-amz-target": "AmazonSQS.SendMessageBatch"}
        )
        assert reply.status_code == 400
        assert reply.json()["__type"].startswith("com.amazonaws.sqs#")
