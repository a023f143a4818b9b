"""What the template declares, at an address that speaks as AWS does: `perdure dev --aws`."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import boto3
import click
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from perdure.kernel.errors import InvalidValue, NotFound, StoreUnavailable
from perdure_emulator.cloudformation import REGION
from perdure_emulator.declared import Made, Queue, Template
from perdure_emulator.sqs import Sqs

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})

ABSENT: Final = frozenset(
    {
        "ResourceNotFoundException",
        "404",
        "NoSuchBucket",
        "EntityNotFoundException",
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
    }
)

FIRST_REGION: Final = "us-east-1"

HELD: Final = frozenset(
    {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_DEFAULT_PROFILE",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_CA_BUNDLE",
        "AWS_ROLE_ARN",
        "AWS_ROLE_SESSION_NAME",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    }
)
"""Where credentials come from. Source: Boto3 guide, "Configuration", environment variables."""

ALL: Final = ["All"]

PATIENCE: Final = Config(
    connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 3}
)
"""Whoever starts this waits for it."""


class Elsewhere:
    """The services at one address. What is missing is made if that is this machine."""

    sqs: Sqs | None = None

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidValue(
                expected="--aws to be an address such as http://127.0.0.1:4566", found=url
            )
        self._url = url
        self._is_here = parts.hostname in LOOPBACK
        self._region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", REGION)
        self._threads = ThreadPoolExecutor(thread_name_prefix="polls")
        self._queues: dict[str, tuple[str, str, Queue]] = {}

    def environment(self) -> dict[str, str]:
        """Return what makes a function's clients find the services, and let in there."""
        held = {} if self._is_here else {name: os.environ[name] for name in HELD & {*os.environ}}
        return {
            "AWS_ENDPOINT_URL": self._url,
            "AWS_DEFAULT_REGION": self._region,
            **held,
            **self._credentials(),
        }

    def made(self, template: Template) -> dict[str, str]:
        """Return what references lead to; make what is not there. Raises StoreUnavailable, NotFound."""
        try:
            return {
                **self._tables(template.tables),
                **self._buckets(template.buckets),
                **self._databases(template.databases),
                **self._made_queues(template.queues),
            }
        except (BotoCoreError, ClientError) as error:
            raise StoreUnavailable(expected=f"AWS at {self._url}", found=str(error)) from error

    def polled(self, logical: str) -> ElsewhereQueue:
        """Return the queue of a logical id."""
        url, arn, queue = self._queues[logical]
        return ElsewhereQueue(
            self._client("sqs"),
            url,
            arn=arn,
            region=self._region,
            queue=queue,
            threads=self._threads,
        )

    def _tables(self, wanted: Iterable[Made]) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in wanted:
            client = self._client("dynamodb")
            if self._absent(each.name, client.describe_table, TableName=each.name):
                client.create_table(
                    TableName=each.name, BillingMode="PAY_PER_REQUEST", **each.properties
                )
                client.get_waiter("table_exists").wait(TableName=each.name)
                self._say_made(each.name)
            table = client.describe_table(TableName=each.name)["Table"]
            found |= {each.logical: each.name, f"{each.logical}.Arn": table["TableArn"]}
        return found

    def _buckets(self, wanted: Iterable[Made]) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in wanted:
            client = self._client("s3")
            if self._absent(each.name, client.head_bucket, Bucket=each.name):
                client.create_bucket(Bucket=each.name, **_placed(self._region))
                self._say_made(each.name)
            found |= {each.logical: each.name, f"{each.logical}.Arn": f"arn:aws:s3:::{each.name}"}
        return found

    def _databases(self, wanted: Iterable[Made]) -> dict[str, str]:
        for each in wanted:
            client = self._client("glue")
            if self._absent(each.name, client.get_database, Name=each.name):
                client.create_database(DatabaseInput={"Name": each.name})
                self._say_made(each.name)
        return {each.logical: each.name for each in wanted}

    def _made_queues(self, wanted: Mapping[str, Queue]) -> dict[str, str]:
        found: dict[str, str] = {}
        # Dead letters need their place first.
        for queue in sorted(wanted.values(), key=lambda each: each.dead_letters is not None):
            client = self._client("sqs")
            if self._absent(queue.name, client.get_queue_url, QueueName=queue.name):
                dead = self._queues[queue.dead_letters][1] if queue.dead_letters else None
                client.create_queue(QueueName=queue.name, Attributes=_attributes(queue, dead))
                self._say_made(queue.name)
            url = client.get_queue_url(QueueName=queue.name)["QueueUrl"]
            told = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
            arn = told["Attributes"]["QueueArn"]
            self._queues[queue.logical] = (url, arn, queue)
            found |= {
                queue.logical: url,
                f"{queue.logical}.QueueUrl": url,
                f"{queue.logical}.QueueName": queue.name,
                f"{queue.logical}.Arn": arn,
            }
        return found

    def _absent(self, name: str, ask: Any, **given: str) -> bool:
        """Tell whether something is missing that may be made. Raises NotFound if it may not."""
        try:
            ask(**given)
        except ClientError as error:
            if error.response["Error"]["Code"] not in ABSENT:
                raise
        else:
            return False
        if not self._is_here:
            raise NotFound(
                expected=f"{name} at {self._url}; nothing is made but on this machine", found="none"
            )
        return True

    def _say_made(self, name: str) -> None:
        click.echo(f"perdure: made {name} at {self._url}", err=True)

    def _client(self, service: str) -> Any:
        credentials = self._credentials()
        # A session of its own: the functions' is to read their variables, not these.
        return boto3.session.Session().client(
            service,  # type: ignore[call-overload]  # one of four
            endpoint_url=self._url,
            region_name=self._region,
            aws_access_key_id=credentials.get("AWS_ACCESS_KEY_ID"),
            aws_secret_access_key=credentials.get("AWS_SECRET_ACCESS_KEY"),
            config=PATIENCE,
        )

    def _credentials(self) -> dict[str, str]:
        """Return credentials for a stand-in on this machine; anywhere else AWS's own chain finds them."""
        if not self._is_here:
            return {}
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        return {name: os.environ.get(name, "test") for name in names}


class ElsewhereQueue:
    """A queue there, as event sources read it. Calls wait in a thread."""

    def __init__(  # what a queue there is
        self,
        client: Any,
        url: str,
        *,
        arn: str,
        region: str,
        queue: Queue,
        threads: ThreadPoolExecutor,
    ) -> None:
        self.arn = arn
        self.region = region
        self._client = client
        self._url = url
        self._queue = queue
        self._threads = threads

    async def receive(self, most: int, *, wait_seconds: int) -> Sequence[Mapping[str, Any]]:
        reply = await self._call(
            self._client.receive_message,
            MaxNumberOfMessages=most,
            WaitTimeSeconds=wait_seconds,
            MessageSystemAttributeNames=ALL,
            MessageAttributeNames=ALL,
        )
        found: list[Mapping[str, Any]] = reply.get("Messages", [])
        for each in found:
            self._tell_last(each)
        return found

    async def delete(self, handles: Sequence[str]) -> None:
        entries = [{"Id": str(n), "ReceiptHandle": each} for n, each in enumerate(handles)]
        await self._call(self._client.delete_message_batch, Entries=entries)

    def _tell_last(self, message: Mapping[str, Any]) -> None:
        """Say what only the queue there will know: that a message is handed out a last time."""
        tries = int(message["Attributes"]["ApproximateReceiveCount"])
        if self._queue.received_max is not None and tries >= self._queue.received_max:
            click.echo(
                f"perdure: message {message['MessageId']} of {self._queue.logical} was received "
                f"{tries} times; if it fails again, it goes to {self._queue.dead_letters}",
                err=True,
            )

    async def _call(self, method: Any, **given: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, lambda: method(QueueUrl=self._url, **given)
        )


def _placed(region: str) -> dict[str, Any]:
    """Say where a bucket is made. Source: Amazon S3 API reference, CreateBucket: us-east-1 is not said."""
    if region == FIRST_REGION:
        return {}
    return {"CreateBucketConfiguration": {"LocationConstraint": region}}


def _attributes(queue: Queue, dead_arn: str | None) -> dict[str, str]:
    found = {
        "VisibilityTimeout": str(queue.visibility_seconds),
        "DelaySeconds": str(queue.delay_seconds),
        "MessageRetentionPeriod": str(queue.retention_seconds),
        "ReceiveMessageWaitTimeSeconds": str(queue.wait_seconds),
    }
    if queue.is_fifo:
        found |= {
            "FifoQueue": "true",
            "ContentBasedDeduplication": str(queue.by_content).lower(),
        }
        if queue.deduplicates_in_group:
            found |= {
                "DeduplicationScope": "messageGroup",
                "FifoThroughputLimit": "perMessageGroupId",
            }
    if dead_arn is not None:
        found["RedrivePolicy"] = json.dumps(
            {"deadLetterTargetArn": dead_arn, "maxReceiveCount": queue.received_max}
        )
    return found
