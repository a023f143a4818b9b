"""The sample events beside the functions are answered by the very files they lie beside."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace

import boto3
import pytest
from tests.emulator.deployment import ROOT
from tests.emulator.serving import ISSUER, served

from perdure.api.settings import local
from perdure.api.wiring import made
from perdure_emulator.declared import Template
from perdure_emulator.gateway import Gateway
from perdure_emulator.queue_local import LocalQueues
from perdure_emulator.sandboxes import InThread
from perdure_emulator.template import read

pytestmark = pytest.mark.cloud

FOLDERS = sorted(path.parent for path in (ROOT / "functions").glob("*/app.py"))
EVENTS = sorted((ROOT / "functions").glob("*/events/*.json"))
SECONDS_MAX = 60

HARBOUR = {"name": "harbour", "world_id": "harbour"}
TIDE = {"name": "tide", "world_id": "tide", "every": "1s"}


class Functions:
    """Every function of the project's template, over one storage and one queue."""

    def __init__(self, template: Template, environment: dict[str, str], queues: LocalQueues):
        self.queues = queues
        self.placed = {
            each.folder: InThread(replace(each, environment={**each.environment, **environment}))
            for each in template.functions.values()
        }

    def answer(self, folder, event):
        return asyncio.run(self.placed[folder].invoke(event, seconds_max=SECONDS_MAX))

    def next_tick(self, world):
        event = sample("tick", "list-processors")
        asked = {**event, "routeKey": "GET /v1/worlds/{world}", "rawPath": f"/v1/worlds/{world}"}
        reply = self.answer("api", {**asked, "pathParameters": {"world": world}})
        return json.loads(reply["body"])["next_tick"]

    def close(self):
        for each in self.placed.values():
            asyncio.run(each.close())


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    chosen = made(local(tmp_path_factory.mktemp("samples") / "root", app="airspace.app:app"))
    queues = LocalQueues(read(ROOT / "template.yaml").queues, "")
    # What another test left behind keeps the variables of then.
    boto3.DEFAULT_SESSION = None
    with served(lambda _: Gateway(Template({}, ()), {}, ISSUER, queues.sqs)) as address:
        template = read(ROOT / "template.yaml", address=address)
        given = {**chosen.environment(), **queues.environment(), "AWS_ENDPOINT_URL_SQS": address}
        opened = Functions(template, given, queues)
        create = sample("api", "create-world")
        for world in (HARBOUR, TIDE):
            reply = opened.answer("api", {**create, "body": json.dumps(world)})
            assert reply["statusCode"] == 201, reply
        assert opened.answer("tick", sample("tick", "tick-world"))["statusCode"] == 200
        yield opened
        opened.close()
    boto3.DEFAULT_SESSION = None


def sample(folder, name):
    return json.loads((ROOT / "functions" / folder / "events" / f"{name}.json").read_text())


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_sample_event_is_answered_by_its_function(functions, path):
    event = json.loads(path.read_text())

    reply = functions.answer(path.parts[-3], event)

    if "requestContext" in event:
        assert 200 <= reply["statusCode"] < 300, reply
    elif "Records" in event:
        assert reply == {"batchItemFailures": []}
    else:
        assert not reply.get("failed"), reply


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_function_has_a_sample_of_each_kind_of_event_that_its_template_gives_it(folder):
    template = read(ROOT / "template.yaml")
    (function,) = [each for each in template.functions.values() if each.folder == folder.name]
    samples = [json.loads(path.read_text()) for path in (folder / "events").glob("*.json")]

    assert samples
    asked = any("requestContext" in each for each in samples)
    assert asked == any(each.function == function.name for each in template.routes)
    assert any("Records" in each for each in samples) == bool(function.sources)
    scheduled = any(each.get("source") == "aws.scheduler" for each in samples)
    assert scheduled == bool(function.schedules)


def test_queue_of_the_sample_is_the_one_that_the_template_declares():
    (record,) = sample("tick", "due-worlds")["Records"]

    declared = read(ROOT / "template.yaml").queues["Ticks"]
    assert record["eventSourceARN"].endswith(f":{declared.name}")


def test_sample_message_is_stale_and_ticks_nothing(functions):
    before = functions.next_tick("harbour")

    reply = functions.answer("tick", sample("tick", "due-worlds"))

    assert reply == {"batchItemFailures": []}
    assert functions.next_tick("harbour") == before


def test_message_that_the_sample_of_dispatch_sends_has_the_samples_shape_and_ticks(functions):
    time.sleep(1.1)  # for the world's time to come
    functions.answer("dispatch", sample("dispatch", "schedule"))
    received = asyncio.run(functions.queues.polled("Ticks").receive(10, wait_seconds=1))
    (sent,) = [each for each in received if json.loads(each["Body"])["world"] == "tide"]
    event, before = sample("tick", "due-worlds"), functions.next_tick("tide")
    (record,) = event["Records"]
    # Without the hint, which is of one storage.
    assert json.loads(sent["Body"]).keys() - {"hint"} == json.loads(record["body"]).keys()
    assert sent["Attributes"].keys() == record["attributes"].keys()

    reply = functions.answer("tick", {"Records": [{**record, "body": sent["Body"]}]})

    assert reply == {"batchItemFailures": []}
    assert functions.next_tick("tide") > before


def test_event_of_a_queue_that_the_template_does_not_declare_is_refused(functions):
    event = sample("tick", "due-worlds")
    event["Records"][0]["eventSourceARN"] = "arn:aws:sqs:us-east-1:000000000000:stranger.fifo"

    with pytest.raises(Exception, match="not_permitted"):
        functions.answer("tick", event)
