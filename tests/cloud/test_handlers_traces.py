"""Traces: what X-Ray samples has a segment, and nothing that was sent or answered is in it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.house.sources import ROOT, environment

from perdure.api.settings_observing import is_traced

pytestmark = pytest.mark.cloud

SECRET = "hunter2"  # what must never be seen
ROOT_ID = "1-5759e988-bd862e3fe1be46a994272793"
SAMPLED = f"Root={ROOT_ID};Parent=53995c3f42cd8ad8;Sampled=1"

# A warm process that answers one event that is sampled, one that is not, and one that fails.
PROCESS = """
import json, os, sys
sys.path.insert(0, "functions/api")
import boto3
from aws_lambda_powertools import Tracer
from perdure.api.sandbox import Sandbox
from perdure.api.watch import InvocationFailed
from tests.api.rig import Context, bearer
from tests.api.rig import SCHEDULED
secret, trace = sys.argv[1], os.environ["_X_AMZN_TRACE_ID"]
client = boto3.client("dynamodb")
from contextlib import asynccontextmanager
@asynccontextmanager
async def opening():
    yield None
async def work(ports, remaining_ms):
    client.put_item(TableName="table", Item={"pk": {"S": secret}, "sk": {"S": secret}})
    raise ValueError(secret)
sandbox = Sandbox(opening, (), work)
event = {**SCHEDULED, "detail": secret}
def ask():
    try:
        sandbox.handler(event, Context())
    except InvocationFailed:
        return "aws_xray_sdk.core" in sys.modules
os.environ["_X_AMZN_TRACE_ID"] = trace.replace("Sampled=1", "Sampled=0")
before = ask()
os.environ["_X_AMZN_TRACE_ID"] = trace
print(json.dumps([before, ask()]))
"""


class Daemon:
    """X-Ray's daemon, and a DynamoDB that takes everything."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(2)
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.server = HTTPServer(("127.0.0.1", 0), Table)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def segments(self, count):
        """Return so many segments that were sent."""
        found = [self.socket.recv(65_536).decode() for _ in range(count)]
        return [json.loads(each.partition("\n")[2]) for each in found]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.socket.close()


class Table(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/x-amz-json-1.0")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def test_sampled_event_alone_has_a_segment_without_anything_that_was_sent(in_lambda):
    daemon = Daemon()

    run = subprocess.run(
        [sys.executable, "-c", PROCESS, SECRET],
        cwd=ROOT,
        env=environment(
            AWS_LAMBDA_FUNCTION_NAME="stack-tick",
            LAMBDA_TASK_ROOT="/var/task",
            AWS_XRAY_DAEMON_ADDRESS=daemon.address,
            AWS_DEFAULT_REGION="eu-central-1",
            AWS_ACCESS_KEY_ID="none",
            AWS_SECRET_ACCESS_KEY="none",
            AWS_ENDPOINT_URL=daemon.endpoint,
            PERDURE_STORAGE="s3://bucket",
            POWERTOOLS_SERVICE_NAME="tick",
            _X_AMZN_TRACE_ID=SAMPLED,
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    call, event = daemon.segments(2)
    daemon.close()

    assert json.loads(run.stdout.splitlines()[-1]) == [False, True]
    assert {call["trace_id"], event["trace_id"]} == {ROOT_ID}
    assert (call["name"], call["aws"]["operation"]) == ("dynamodb", "PutItem")
    assert call["parent_id"] == event["id"]
    assert event["name"] == "## tick"
    assert event["annotations"] == {
        "ColdStart": False,
        "Service": "tick",
        "correlation": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa",
        "operation": "scheduled",
        "code": "internal",
    }
    assert SECRET not in json.dumps([call, event])
    assert SECRET not in run.stdout + run.stderr


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"AWS_LAMBDA_FUNCTION_NAME": "f", "_X_AMZN_TRACE_ID": SAMPLED}, True),
        ({"_X_AMZN_TRACE_ID": SAMPLED}, False),
        ({"AWS_LAMBDA_FUNCTION_NAME": "f"}, False),
        ({"AWS_LAMBDA_FUNCTION_NAME": "f", "_X_AMZN_TRACE_ID": "Root=1-2;Sampled=0"}, False),
        (
            {
                "AWS_LAMBDA_FUNCTION_NAME": "f",
                "_X_AMZN_TRACE_ID": SAMPLED,
                "POWERTOOLS_TRACE_DISABLED": "true",
            },
            False,
        ),
    ],
)
def test_event_is_traced_in_lambda_if_it_is_sampled_and_nobody_said_no(variables, expected):
    assert is_traced(variables) == expected
