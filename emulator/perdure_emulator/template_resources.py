"""What a template declares beside its functions: queues, tables, a bucket, how the API behaves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from perdure.kernel.errors import InvalidValue
from perdure.kernel.shown import shown
from perdure_emulator.cloudformation import ACCOUNT, REGION, STACK, Document, named, part
from perdure_emulator.declared import Cors, Made, Queue, Throttle

QUEUE: Final = "AWS::SQS::Queue"
FUNCTION: Final = "AWS::Serverless::Function"
API: Final = "AWS::ApiGatewayV2::Api"
STAGE: Final = "AWS::ApiGatewayV2::Stage"
TABLE: Final = "AWS::DynamoDB::Table"
BUCKET: Final = "AWS::S3::Bucket"
DATABASE: Final = "AWS::Glue::Database"

FIFO: Final = ".fifo"

QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
NAME_CHARACTERS_MAX: Final = 80
"""Source: Amazon SQS API reference, CreateQueue."""

SECONDS: Final[Mapping[str, tuple[int, int, int]]] = {
    "VisibilityTimeout": (30, 0, 43_200),
    "DelaySeconds": (0, 0, 900),
    "MessageRetentionPeriod": (4 * 86_400, 60, 14 * 86_400),
    "ReceiveMessageWaitTimeSeconds": (0, 0, 20),
}
"""Times of a queue: what one has that does not say, the least and the most. Source: as above."""


def queues(document: Document) -> Iterator[Queue]:
    """Return the declared queues. Raises InvalidValue for dead letters that lead nowhere."""
    found = _of_kind(document, QUEUE)
    for logical, properties in found.items():
        with part(logical):
            yield _queue(document, logical, properties, found)


def _queue(
    document: Document,
    logical: str,
    properties: Mapping[str, Any],
    found: Mapping[str, Mapping[str, Any]],
) -> Queue:
    is_fifo = properties.get("FifoQueue") is True
    policy = properties.get("RedrivePolicy")
    dead = None if policy is None else named(policy["deadLetterTargetArn"])
    if dead is not None and dead not in found:
        raise InvalidValue(
            expected=f"dead letters of {logical} to go to a queue of the template", found=dead
        )
    if dead is not None and (found[dead].get("FifoQueue") is True) is not is_fifo:
        raise InvalidValue(
            expected=f"{dead}, which takes the dead letters of {logical}, to be of its kind",
            found="a FIFO queue and one that is none",
        )
    seconds = {name: _seconds(document, logical, properties, name) for name in SECONDS}
    return Queue(
        logical=logical,
        name=_queue_name(document, logical, properties, is_fifo=is_fifo),
        is_fifo=is_fifo,
        visibility_seconds=seconds["VisibilityTimeout"],
        delay_seconds=seconds["DelaySeconds"],
        retention_seconds=seconds["MessageRetentionPeriod"],
        wait_seconds=seconds["ReceiveMessageWaitTimeSeconds"],
        by_content=properties.get("ContentBasedDeduplication") is True,
        deduplicates_in_group=properties.get("DeduplicationScope") == "messageGroup",
        dead_letters=dead,
        received_max=None if policy is None else _received_max(document, logical, policy),
    )


def places(document: Document, declared: Iterable[Queue], address: str) -> dict[str, str]:
    """Return what references lead to, with the emulator at ``address``."""
    found: dict[str, str] = {}
    for queue in declared:
        url = f"{address}/{ACCOUNT}/{queue.name}"
        found |= {
            queue.logical: url,
            f"{queue.logical}.QueueUrl": url,
            f"{queue.logical}.QueueName": queue.name,
            f"{queue.logical}.Arn": queue_arn(queue.name),
        }
    for logical in _of_kind(document, FUNCTION):
        found[logical] = logical
        found[f"{logical}.Arn"] = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{logical}"
    for logical in _of_kind(document, API):
        found[logical] = "local"
        found[f"{logical}.ApiEndpoint"] = address
    return found


def queue_arn(name: str) -> str:
    """Name a queue of the emulator as AWS would."""
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def tables(document: Document) -> Iterator[Made]:
    """Return the declared DynamoDB tables."""
    return _made(document, TABLE, "TableName")


def buckets(document: Document) -> Iterator[Made]:
    """Return the declared buckets."""
    return _made(document, BUCKET, "BucketName", lower=True)


def databases(document: Document) -> Iterator[Made]:
    """Return the declared Glue databases."""
    for logical, properties in _of_kind(document, DATABASE).items():
        given = properties["DatabaseInput"]
        name = str(document.resolve(given["Name"])) if "Name" in given else f"{STACK}_{logical}"
        yield Made(logical, name.lower(), {})


def cors(document: Document) -> Cors | None:
    """Return which pages may ask, None if the API says nothing of it."""
    for properties in _of_kind(document, API).values():
        wanted = {name: each for name, each in properties.items() if name == "CorsConfiguration"}
        for given in document.resolve(wanted).values():
            return Cors(
                origins=tuple(given.get("AllowOrigins", ())),
                methods=tuple(given.get("AllowMethods", ())),
                headers=tuple(given.get("AllowHeaders", ())),
                exposed=tuple(given.get("ExposeHeaders", ())),
                max_age_seconds=given.get("MaxAge"),
                with_credentials=given.get("AllowCredentials") is True,
            )
    return None


def throttle(document: Document) -> Throttle | None:
    """Return how many requests the API's stage lets in, None if it does not say."""
    for properties in _of_kind(document, STAGE).values():
        given = document.resolve(properties.get("DefaultRouteSettings", {}))
        if "ThrottlingBurstLimit" in given and "ThrottlingRateLimit" in given:
            return Throttle(
                burst=int(given["ThrottlingBurstLimit"]), rate=float(given["ThrottlingRateLimit"])
            )
    return None


def _of_kind(document: Document, kind: str) -> dict[str, Mapping[str, Any]]:
    return {
        logical: each.get("Properties", {})
        for logical, each in document.resources.items()
        if each["Type"] == kind
    }


def _made(
    document: Document, kind: str, name_property: str, *, lower: bool = False
) -> Iterator[Made]:
    for logical, properties in _of_kind(document, kind).items():
        name = str(document.resolve(properties.get(name_property, f"{STACK}-{logical}")))
        shape = {
            each: properties[each]
            for each in ("AttributeDefinitions", "KeySchema")
            if each in properties
        }
        yield Made(logical, name.lower() if lower else name, shape)


def _queue_name(
    document: Document, logical: str, properties: Mapping[str, Any], *, is_fifo: bool
) -> str:
    name = str(document.resolve(properties.get("QueueName", f"{STACK}-{logical}")))
    if is_fifo and not name.endswith(FIFO):
        if "QueueName" in properties:
            raise InvalidValue(expected=f"the name of {logical} to end in {FIFO}", found=name)
        name += FIFO
    if (
        not QUEUE_NAME.fullmatch(name.removesuffix(FIFO) if is_fifo else name)
        or len(name) > NAME_CHARACTERS_MAX
    ):
        raise InvalidValue(
            expected=f"the name of {logical} to be letters, digits, - and _, at most "
            f"{NAME_CHARACTERS_MAX}; only a FIFO queue's ends in {FIFO}",
            found=shown(name),
        )
    return name


def _seconds(document: Document, logical: str, properties: Mapping[str, Any], name: str) -> int:
    default, least, most = SECONDS[name]
    found = int(document.resolve(properties.get(name, default)))
    if not least <= found <= most:
        raise InvalidValue(
            expected=f"{name} of {logical} to be {least} to {most} seconds", found=str(found)
        )
    return found


def _received_max(document: Document, logical: str, policy: Mapping[str, Any]) -> int:
    found = int(document.resolve(policy["maxReceiveCount"]))
    if not 1 <= found <= 1_000:
        raise InvalidValue(
            expected=f"maxReceiveCount of {logical} to be 1 to 1000", found=str(found)
        )
    return found
