"""The page of costs: what was counted, and what follows from it at the prices of today."""

from __future__ import annotations

from dataclasses import dataclass

from infra import prices

HUNDRED = 100

SQS_OF_THE_EVENT_SOURCE = 2
"""Requests of Lambda for a message: it receives it and deletes it. Polls that find nothing come on top."""

NOTE = "<!-- written by python -m tests.cloud.costs; change the code and run it again -->\n\n"
INTRODUCTION = f"""\
# Costs

What one operation asks of AWS: requests to DynamoDB and the units they take, requests to S3, to the Glue catalog and to SQS.
They are counted, not estimated: `python -m tests.cloud.costs` does each operation once against a local stand-in and writes this
page, and a test compares. Units follow DynamoDB's rules. Prices are those of {prices.REGION}, read in {prices.READ_IN} and written down in
`infra/prices.py`. Time of functions, storage, logs and traffic are not in them, nor are free tiers.

World: two components, one processor that changes every row, up to a few hundred entities of which a tick writes all. The landed tables
are in Glue; a larger tick puts its rows as an object instead of into its manifest, one S3 PUT more.

"""
MONTH = """\
DynamoDB, S3, Glue and SQS alone. A message costs two more requests to SQS, for Lambda receives and deletes it; Lambda's polls of an
empty queue come on top, whatever the worlds do.
"""


@dataclass(frozen=True)
class Cost:
    """What one operation asks of AWS."""

    requests: int = 0
    write_units: float = 0.0
    read_units: float = 0.0
    put: int = 0
    get: int = 0
    glue: int = 0
    sqs: int = 0

    @property
    def dollars(self) -> float:
        """The price of a million."""
        return (
            self.write_units * prices.DYNAMODB_WRITE_UNIT
            + self.read_units * prices.DYNAMODB_READ_UNIT
            + self.put * prices.S3_PUT
            + self.get * prices.S3_GET
            + self.glue * prices.GLUE_REQUEST
            + self.sqs * prices.SQS_FIFO_REQUEST
        )


def page(costs: dict[str, Cost]) -> str:
    """Spell the page."""
    return NOTE + INTRODUCTION + _operations(costs) + _derived(costs)


def _operations(costs: dict[str, Cost]) -> str:
    lines = [
        "| operation | requests | write units | read units | S3 PUT | S3 GET | Glue | SQS | $ a million |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, cost in costs.items():
        figures = (
            cost.requests,
            cost.write_units,
            cost.read_units,
            cost.put,
            cost.get,
            cost.glue,
            cost.sqs,
        )
        cells = " | ".join(f"{figure:g}" for figure in figures)
        lines.append(f"| {name} | {cells} | {cost.dollars:.2f} |")
    return "\n".join(lines) + "\n"


def a_million_commands(costs: dict[str, Cost]) -> dict[str, float]:
    """Return what a million commands cost in dollars, by the way in which they come."""
    alone = costs["command with an id of its own"].dollars
    tick, settles = (
        costs["tick, warm, 1 command"].dollars,
        costs["tick, warm, 100 commands"].dollars,
    )
    fence = costs["take the fence"].dollars
    batch = costs["batch of 100 commands"].dollars
    return {
        "one at a time, a tick for each, its fence taken each time": alone + fence + tick,
        "one at a time, a tick for each, in one run": alone + tick,
        "one at a time, a tick for 100": alone + (fence + settles) / HUNDRED,
        "in batches of 100, a tick for each batch": (batch + fence + settles) / HUNDRED,
    }


def a_month(costs: dict[str, Cost]) -> dict[str, float]:
    """Return what goes on by itself costs in dollars a month of 30 days."""
    minutes, landings = 30 * 24 * 60, 30 * 24 * 12
    found = costs["dispatch, 10 worlds due"].dollars / 10
    handed = SQS_OF_THE_EVENT_SOURCE * prices.SQS_FIFO_REQUEST
    ticked = found + handed + costs["scheduled tick, warm"].dollars
    return {
        "a deployment with nothing to do, looked at every minute": minutes
        * costs["dispatch, nothing due"].dollars
        / 1e6,
        "a world that ticks every minute, with nothing asked of it": minutes * ticked / 1e6,
        "a table that is landed in every 5 minutes": landings
        * costs["landing of 1 tick into 1 table"].dollars
        / 1e6,
    }


def _derived(costs: dict[str, Cost]) -> str:
    million = [f"| {way} | {dollars:.2f} |" for way, dollars in a_million_commands(costs).items()]
    month = [f"| {what} | {dollars:.2f} |" for what, dollars in a_month(costs).items()]
    return "\n".join(
        [
            "",
            "## A million commands",
            "",
            "Admission and settlement, and nothing for reading what came of them:",
            "",
            "| they come | $ |",
            "|---|--:|",
            *million,
            "",
            "## A month",
            "",
            MONTH,
            "| what goes on | $ a month |",
            "|---|--:|",
            *month,
            "",
        ]
    )
