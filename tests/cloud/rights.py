"""What each function asks of AWS, and where: written down beside what its role lets it do."""

from __future__ import annotations

TRACES = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
"""All that may be done to everything: X-Ray knows no resources that could be named."""

OF_A_CALL = {
    "batch_get_item": {"dynamodb:BatchGetItem"},
    "query": {"dynamodb:Query"},
    "put_item": {"dynamodb:PutItem"},
    "transact_get_items": {"dynamodb:GetItem"},
    "transact_write_items": {
        "dynamodb:PutItem",
        "dynamodb:DeleteItem",
        "dynamodb:ConditionCheckItem",
    },
    "get_object": {"s3:GetObject"},
    "put_object": {"s3:PutObject"},
    "delete_object": {"s3:DeleteObject"},
    "list_objects_v2": {"s3:ListBucket"},
    "send_message_batch": {"sqs:SendMessage"},
    "change_message_visibility_batch": {"sqs:ChangeMessageVisibility"},
}
"""The permissions that each call of the SDK needs, of every call that the code makes."""

READS = {"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"}
COMMITS = {"dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem"}
TELLS = {"logs:CreateLogStream", "logs:PutLogEvents", *TRACES}
DECRYPTS = {"kms:Decrypt", "kms:DescribeKey"}
ENCRYPTS = {"kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"}
OBJECTS = {"s3:GetObject", "s3:ListBucket"}
TABLES = {"glue:GetDatabase", "glue:GetTable", "glue:GetTables"}
SOURCE = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
"""What Lambda does with a queue in the function's name. Source: Lambda, using SQS as a source."""

CALLS = {
    "api": READS | COMMITS | OBJECTS | DECRYPTS | ENCRYPTS | TELLS,
    "query": READS | OBJECTS | TABLES | DECRYPTS | TELLS,
    "dispatch": READS | COMMITS | {"sqs:SendMessage"} | DECRYPTS | ENCRYPTS | TELLS,
    "tick": READS
    | COMMITS
    | OBJECTS
    | {"s3:PutObject"}
    | TABLES
    | {"sqs:SendMessage", "sqs:ChangeMessageVisibility"}
    | SOURCE
    | DECRYPTS
    | ENCRYPTS
    | TELLS,
    "land": READS
    | COMMITS
    | OBJECTS
    | {"s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"}
    | TABLES
    | {"glue:CreateDatabase", "glue:CreateTable", "glue:UpdateTable"}
    | DECRYPTS
    | ENCRYPTS
    | TELLS,
    "jobs": READS
    | COMMITS
    | OBJECTS
    | {"s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"}
    | TABLES
    | {"glue:CreateDatabase", "glue:CreateTable", "glue:UpdateTable"}
    | {"sqs:SendMessage", "sqs:ChangeMessageVisibility"}
    | SOURCE
    | DECRYPTS
    | ENCRYPTS
    | TELLS,
    "sessions": READS
    | COMMITS
    | OBJECTS
    | {"s3:PutObject", "s3:DeleteObject"}
    | TABLES
    | {"sqs:SendMessage", "sqs:ChangeMessageVisibility"}
    | SOURCE
    | DECRYPTS
    | ENCRYPTS
    | TELLS,
}
"""What each function can be seen to ask of AWS, by reading its code."""

PLACES = {
    "api": {"s3:GetObject": {"archive"}},
    "query": {"s3:GetObject": {"segment", "checkpoint", "archive", "warehouse", "authority.json"}},
    "dispatch": {},
    "tick": {
        "s3:GetObject": {"segment", "checkpoint", "archive", "warehouse", "authority.json"},
        "s3:PutObject": {"segment", "checkpoint", "authority.json"},
    },
    "land": {
        "s3:GetObject": {"segment", "checkpoint", "archive", "warehouse", "authority.json"},
        "s3:PutObject": {"archive", "warehouse", "authority.json"},
        "s3:DeleteObject": {"segment", "checkpoint", "archive", "warehouse"},
    },
    "jobs": {
        "s3:GetObject": {
            *("segment", "checkpoint", "archive", "warehouse", "export", "authority.json")
        },
        "s3:PutObject": {"archive", "warehouse", "export", "authority.json"},
        "s3:DeleteObject": {"segment", "checkpoint", "archive", "warehouse", "export"},
    },
    "sessions": {
        "s3:GetObject": {
            *("segment", "checkpoint", "archive", "warehouse", "sessions", "authority.json")
        },
        "s3:PutObject": {"segment", "checkpoint", "sessions", "authority.json"},
        "s3:DeleteObject": {"sessions"},
    },
}
"""Under which names each function reads, puts and deletes objects."""
