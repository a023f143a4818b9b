"""Wiring of the cloud: the authority in DynamoDB. Imported by name, for boto3 takes its time."""

from __future__ import annotations

import boto3

from perdure.api.settings import Settings
from perdure.authority.dynamodb import THREADS, DynamoStore
from perdure.authority.dynamodb_wire import client_config


def store(chosen: Settings) -> DynamoStore:
    """Return the store that ``chosen`` names; nothing is asked of it yet."""
    assert chosen.table is not None, "settings of the cloud name a table"
    client = boto3.client(
        "dynamodb", endpoint_url=chosen.dynamodb_endpoint, config=client_config(THREADS)
    )
    return DynamoStore(client, chosen.table)
