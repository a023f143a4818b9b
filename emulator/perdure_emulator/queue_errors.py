"""What SQS says when it says no, in its own words."""

from __future__ import annotations

from typing import Final

QUERY_CODES: Final = {
    "QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue",
    "MessageNotInflight": "AWS.SimpleQueueService.MessageNotInflight",
    "TooManyEntriesInBatchRequest": "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
    "EmptyBatchRequest": "AWS.SimpleQueueService.EmptyBatchRequest",
    "BatchEntryIdsNotDistinct": "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
    "BatchRequestTooLong": "AWS.SimpleQueueService.BatchRequestTooLong",
    "InvalidBatchEntryId": "AWS.SimpleQueueService.InvalidBatchEntryId",
    "UnsupportedOperation": "AWS.SimpleQueueService.UnsupportedOperation",
}
"""Codes of the older protocol where they are others. Source: botocore's model of SQS, awsQueryError."""


class QueueError(Exception):
    """A refusal: the name of its shape, and what it says."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message

    @property
    def query_code(self) -> str:
        """The code that clients are told for the sake of the older protocol."""
        return QUERY_CODES.get(self.kind, self.kind)


def no_such_queue() -> QueueError:
    return QueueError("QueueDoesNotExist", "The specified queue does not exist.")


def missing(name: str) -> QueueError:
    return QueueError("MissingParameter", f"The request must contain the parameter {name}.")


def invalid_value(message: str) -> QueueError:
    return QueueError("InvalidParameterValue", message)


def invalid_handle(handle: str) -> QueueError:
    return QueueError(
        "ReceiptHandleIsInvalid",
        f'The input receipt handle "{handle[:80]}" is not a valid receipt handle.',
    )


def expired_handle(handle: str) -> QueueError:
    return invalid_value(
        f"Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has "
        "expired."
    )


def not_in_flight(handle: str) -> QueueError:
    return QueueError(
        "MessageNotInflight", f"The message of {handle} is not available for visibility change."
    )
