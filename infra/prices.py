"""What AWS charges for a request: the one place where prices are written down.

In US dollars for a million, in us-east-1, without free tiers. Read off in November 2026 from
the public pages that each names; they change, and they differ between Regions.
"""

from __future__ import annotations

from typing import Final

REGION: Final = "us-east-1"
READ_IN: Final = "November 2026"

DYNAMODB_WRITE_UNIT: Final = 0.625
DYNAMODB_READ_UNIT: Final = 0.125
"""On demand. Source: aws.amazon.com/dynamodb/pricing/on-demand (since November 2024)."""

S3_PUT: Final = 5.0
S3_GET: Final = 0.4
"""PUT, COPY, POST and LIST; GET and all others. A DELETE is free. Source:
aws.amazon.com/s3/pricing, S3 Standard."""

GLUE_REQUEST: Final = 1.0
"""Source: aws.amazon.com/glue/pricing, Data Catalog."""

SQS_FIFO_REQUEST: Final = 0.5
"""Source: aws.amazon.com/sqs/pricing, FIFO queues."""
