"""What a deployment costs in a month: counted requests, priced, and what runs and watches them.

python -m infra.cost_model            write docs/operations/cost.md
python -m infra.cost_model --check    exit 1 if the page is not what the model says

Requests and units come from docs/reference/costs.md, where a test counts them. How long a
function runs and how much it logs are assumptions, named as such: nothing here ran on AWS.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra import prices

ROOT: Final = Path(__file__).resolve().parents[1]
COUNTED: Final = ROOT / "docs" / "reference" / "costs.md"
PAGE: Final = ROOT / "docs" / "operations" / "cost.md"
TEMPLATE: Final = ROOT / "template.yaml"

MINUTES: Final = 60 * 24 * 30
"""Of a month of thirty days."""

HTTP_REQUEST: Final = 1.00
"""A million. Source: aws.amazon.com/api-gateway/pricing, HTTP APIs, first 300 million."""

LAMBDA_REQUEST: Final = 0.20
LAMBDA_GB_SECOND: Final = 13.3334
"""A million, on arm64. Source: aws.amazon.com/lambda/pricing, first 7.5 billion GB-seconds."""

SCHEDULED: Final = 1.00
"""A million invocations. Source: aws.amazon.com/eventbridge/pricing, Scheduler."""

LOG_GB: Final = 0.50
METRIC: Final = 0.30
ALARM: Final = 0.10
DASHBOARD: Final = 3.00
"""A gigabyte taken in; one of each for a month. Source: aws.amazon.com/cloudwatch/pricing."""

KEY: Final = 1.00
KEY_REQUEST: Final = 3.00
"""A month; a million. Source: aws.amazon.com/kms/pricing."""

QUEUES: Final = 3
SQS_POLLS_MONTH: Final = QUEUES * 5 * MINUTES * 3
"""Requests of Lambda to the empty queues of worlds, sessions and jobs: five pollers of each that wait
20 seconds. Source: Lambda, using SQS as a source: five pollers at first, long polling."""

MEMORY_MB: Final[Mapping[str, int]] = {
    "api": 512,
    "query": 1769,
    "dispatch": 512,
    "tick": 1769,
    "land": 1769,
    "sessions": 1769,
    "jobs": 1769,
}
ASSUMED_MS: Final[Mapping[str, int]] = {
    "api": 40,
    "query": 300,
    "dispatch": 150,
    "tick": 250,
    "land": 2_000,
    "sessions": 200,
    "jobs": 200,
}
ASSUMED_LOG_BYTES: Final = 1_500
"""Lines and metrics of one invocation, and the access log's line."""

ASSUMED_METRICS: Final = 40
"""Metrics, each with its dimensions, that a deployment in use tells."""

ASSUMED_KEY_REQUESTS: Final = 50_000
"""In a month. The bucket has a key of its own, the table's and the queues' keys are kept."""


@dataclass(frozen=True)
class Use:
    """What goes on in a month, by name: operations of the counted page, and who runs them."""

    name: str
    operations: Mapping[str, int]
    invocations: Mapping[str, int]
    http: int = 0
    messages: int = 0


def counted(page: str) -> dict[str, float]:
    """Return the dollars of a million of each operation, as the counted page says."""
    rows = (line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| "))
    return {row[0]: float(row[-1]) for row in rows if len(row) == 9 and row[-1][0].isdigit()}


IDLE: Final = Use(
    "nobody does anything",
    {"dispatch, nothing due": MINUTES, "landing, nothing new": MINUTES // 5},
    {"dispatch": MINUTES, "land": MINUTES // 5},
)


def uses() -> list[Use]:
    """Return what is priced, the idle deployment first; the others come on top of it."""
    hourly = MINUTES // 60
    million = 1_000_000
    return [
        IDLE,
        Use(
            "a world that gets a command an hour, and is ticked for it",
            {
                "command with an id of its own": hourly,
                "tick, resumed, with its fence": hourly,
                "landing of 1 tick into 1 table": hourly,
            },
            {"api": hourly, "tick": hourly},
            http=2 * hourly,
        ),
        Use(
            "a world that ticks every minute, landed every 5",
            {
                "scheduled tick, warm": MINUTES,
                "landing of 12 ticks into 1 table": MINUTES // 5,
                "projection of a log": MINUTES // 5,
            },
            {"tick": MINUTES},
            messages=MINUTES,
        ),
        Use(
            "a million commands one at a time, a tick for 100",
            {"command with an id of its own": million, "tick, warm, 100 commands": million // 100},
            {"api": million, "tick": million // 100},
            http=million + million // 100,
        ),
        Use(
            "a million commands in batches of 100, a tick each",
            {"batch of 100 commands": million // 100, "tick, warm, 100 commands": million // 100},
            {"api": million // 100, "tick": million // 100},
            http=2 * million // 100,
        ),
        Use(
            "a million queries of a world's state",
            {"query of the state": million},
            {"query": million},
            http=million,
        ),
    ]


def of_data(use: Use, dollars: Mapping[str, float]) -> float:
    """Price what is asked of DynamoDB, S3, Glue and SQS."""
    asked = sum(number * dollars[name] for name, number in use.operations.items())
    # Sent with the dispatch's batch, received, deleted.
    return (asked + 3 * use.messages * prices.SQS_FIFO_REQUEST) / 1e6


def of_functions(use: Use) -> float:
    """Price executions, and the HTTP requests and schedules that cause them."""
    gigabyte_seconds = sum(
        number * MEMORY_MB[name] / 1024 * ASSUMED_MS[name] / 1000
        for name, number in use.invocations.items()
    )
    scheduled = sum(use.invocations.values()) if use is IDLE else 0
    return (
        gigabyte_seconds * LAMBDA_GB_SECOND
        + sum(use.invocations.values()) * LAMBDA_REQUEST
        + use.http * HTTP_REQUEST
        + scheduled * SCHEDULED
    ) / 1e6


def of_logs(use: Use) -> float:
    """Price what is written to logs."""
    return sum(use.invocations.values()) * ASSUMED_LOG_BYTES / 2**30 * LOG_GB


def standing(template: str) -> dict[str, float]:
    """Price what a deployment has whether it is used or not, by the month."""
    alarms = template.count("Type: AWS::CloudWatch::Alarm\n")
    return {
        f"{alarms} alarms": alarms * ALARM,
        "the dashboard": DASHBOARD,
        "the key": KEY,
        f"up to {ASSUMED_METRICS} metrics, by the hours in which they are told": ASSUMED_METRICS
        * METRIC,
        f"{ASSUMED_KEY_REQUESTS:,} requests to the key": ASSUMED_KEY_REQUESTS * KEY_REQUEST / 1e6,
        f"{SQS_POLLS_MONTH:,} looks into the empty queues": SQS_POLLS_MONTH
        * prices.SQS_FIFO_REQUEST
        / 1e6,
    }


def page() -> str:
    """Return the page of costs."""
    dollars = counted(COUNTED.read_text(encoding="utf-8"))
    fixed = standing(TEMPLATE.read_text(encoding="utf-8"))
    lines = [
        "<!-- written by python -m infra.cost_model; change the model and run it again -->",
        "",
        "# Cost",
        "",
        INTRODUCTION.strip(),
        "",
        "## What stands there",
        "",
        "| a month of | $ |",
        "|---|--:|",
        *(f"| {name} | {price:.2f} |" for name, price in fixed.items()),
        f"| **together** | **{sum(fixed.values()):.2f}** |",
        "",
        "## What is done",
        "",
        "The first line is there always; each of the others comes on top of it.",
        "",
        "| in a month | data | functions | logs | together |",
        "|---|--:|--:|--:|--:|",
    ]
    for use in uses():
        parts = of_data(use, dollars), of_functions(use), of_logs(use)
        cells = " | ".join(f"{each:.2f}" for each in (*parts, sum(parts)))
        lines.append(f"| {use.name} | {cells} |")
    return "\n".join([*lines, "", ASSUMED.strip(), ""]) + "\n"


INTRODUCTION: Final = f"""
In US dollars, in {prices.REGION}, without free tiers, at prices read in {prices.READ_IN}: those of data in
`infra/prices.py`, the others in `infra/cost_model.py`, each with its source. Requests and units of each operation are
[counted](../reference/costs.md); `python -m infra.cost_model` derives this page from them.
"""

ASSUMED: Final = f"""
*Data* are the requests to DynamoDB, S3, Glue and SQS. *Functions* are executions, HTTP requests and schedules, at assumed times of
{", ".join(f"{ms} ms for `{name}`" for name, ms in ASSUMED_MS.items())}, and *logs* {ASSUMED_LOG_BYTES:,} bytes an execution. These
assumptions were not measured on AWS: take yours from the dashboard. Storage (DynamoDB 0.25 a gigabyte and month and 0.20 more for
point-in-time recovery, S3 0.023), traffic and traces are not in it.

## What makes it cheaper

- **Batches.** A batch of 100 commands costs about what one command costs.
- **Fewer, larger ticks.** A tick that settles 100 commands costs about what one costs that settles none.
- **Landing seldom.** It costs by the commit and table, not by the row. Rows can be read at once without it.
- **Sleep.** A world that nothing waits for costs nothing but its storage. Of an idle deployment nearly all is alarms, metrics and the
  dashboard: what you do not look at, take out of the template.
"""


def main() -> int:
    """Write the page, or compare it; return the exit code."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    stale = not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page()
    if stale:
        sys.stderr.write(f"{PAGE}: not what the model says; run python -m infra.cost_model\n")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
