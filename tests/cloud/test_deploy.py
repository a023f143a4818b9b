"""The template, deployed: sam builds it and deploys it to an AWS that refuses what no policy allows."""

from __future__ import annotations

import json
import time
from collections import Counter

import httpx
import pytest
from pyiceberg.catalog.glue import GlueCatalog
from tests.airspace.test_world import TRUTH, airborne_in_the_file
from tests.support import deployed as deployment
from tests.support.briefly import minute, short_flights, tick_at
from tests.support.deployed import (
    Cloud,
    FunctionFailed,
    Stack,
    deployed,
    kept_part,
    until,
    without_policy,
)

from airspace.client import HttpClient
from airspace.replay import despawn_batches, spawn_batches

pytestmark = [pytest.mark.cloud, pytest.mark.slow, pytest.mark.xdist_group("deploy")]

DAY = "/v1/worlds/day"
FORWARD_TO = 40
NOON = tick_at(720)

SCHEDULED = {
    "version": "0",
    "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa",
    "detail-type": "Scheduled Event",
    "source": "aws.scheduler",
    "account": deployment.ACCOUNT,
    "time": "2026-11-29T16:53:06Z",
    "region": deployment.REGION,
    "resources": ["arn:aws:scheduler:us-east-1:123456789012:schedule/default/dispatch"],
    "detail": "{}",
}


def published(client: httpx.Client, world: str) -> int:
    answer = client.get(world)
    assert answer.status_code == 200, answer.text
    tick = answer.json()["published_tick"]
    return -1 if tick is None else tick


def test_health_is_told_to_whoever_has_a_token(admin):
    answer = admin.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_without_a_good_token_nothing_is_told(stack, pool):
    whole = pool.token("admin", "app")
    tokens = {
        "none": None,
        "expired": pool.token("admin", "hasty"),
        "for somebody else": pool.token("admin", "other"),
        "forged": whole[:-8] + whole[-8:].swapcase(),
        "no token at all": "admin",
    }
    time.sleep(1.1)

    answers = {why: stack.http(token).get("/healthz") for why, token in tokens.items()}

    assert {why: answer.status_code for why, answer in answers.items()} == dict.fromkeys(
        tokens, 401
    )


def test_a_role_without_the_right_is_refused(stack, pool):
    viewer = stack.http(pool.token("viewer", "app"))

    answer = viewer.post("/v1/worlds", json={"name": "mine"})

    assert (answer.status_code, answer.json()["code"]) == (403, "not_permitted")
    assert viewer.get("/v1/worlds").json() == {"worlds": []}


def test_a_body_that_names_a_tenant_is_refused(admin):
    answer = admin.post("/v1/worlds", json={"name": "mine", "tenant": "theirs"})

    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")


def test_a_body_over_ten_megabytes_is_refused(admin):
    answer = admin.post("/v1/worlds", content=b'{"name": "%s"}' % (b"x" * 10_000_000))

    assert answer.status_code == 413, answer.text[:500]


# What fails costs the stand-in a process, so each function is asked once.
@pytest.mark.parametrize(
    ("function", "event"),
    [("ApiFunction", {}), ("DispatchFunction", {"Records": []}), ("QueryFunction", ["an event"])],
)
def test_an_event_that_makes_no_sense_fails(stack, function, event):
    with pytest.raises(FunctionFailed, match="malformed_event"):
        stack.invoke(function, event)


def test_messages_of_a_queue_that_the_template_does_not_declare_are_refused(stack):
    record = {
        "messageId": "19dd0b57-b21e-4ac1-bd88-01bbb068cb78",
        "receiptHandle": "MessageReceiptHandle",
        "body": '{"serves":1,"world":"day"}',
        "attributes": {"ApproximateReceiveCount": "1", "MessageGroupId": "day"},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:somebody-elses.fifo",
    }

    with pytest.raises(FunctionFailed, match="not_permitted"):
        stack.invoke("TickFunction", {"Records": [record]})


def test_the_day_comes_true_by_schedule_and_queue_and_lands_through_glue(stack, admin, place):
    flights = short_flights(NOON)
    client = HttpClient(admin, pause=time.sleep)
    made = admin.post(
        "/v1/worlds",
        json={"name": "airspace", "world_id": "day", "every": "1s", "missed": "catch_up"},
    )
    assert made.status_code == 201, made.text
    entities = []
    for batch in spawn_batches(flights):
        receipts = client.submit("day", batch.id, batch.commands)
        entities += [receipt.entity_id for receipt in receipts]
    for batch in despawn_batches(flights, entities):
        client.submit("day", batch.id, batch.commands)
    early = published(admin, DAY)

    first = stack.invoke("DispatchFunction", SCHEDULED)
    stack.invoke("DispatchFunction", SCHEDULED)
    forwarded = client.tick("day", FORWARD_TO)
    until(lambda: published(admin, DAY) >= NOON, 180)
    until(lambda: admin.delete(DAY).status_code == 200, 60)
    while client.land().rows:
        pass
    counts = counted(place, stack)

    assert early < short_flights(NOON)[0].departure_tick
    assert (first["due"], first["failed"]) == (1, [])
    assert forwarded >= FORWARD_TO
    expected = airborne_in_the_file(minute(NOON) + 1)
    assert {tick: counts[tick] for tick in range(NOON + 1)} == {
        tick: expected[minute(tick)] for tick in range(NOON + 1)
    }
    assert (counts[tick_at(480)], counts[NOON]) == (TRUTH[480], TRUTH[720])
    for at in (480, 720):
        answer = admin.get(
            f"{DAY}/entities",
            params={"components": "Position", "tick": tick_at(at), "where": "is_active = true"},
        )
        assert len(answer.json()["rows"]) == TRUTH[at], answer.text[:500]


def test_a_poison_message_ends_among_the_dead_letters(stack, place):
    sqs = place.client("sqs")
    queue, dead = stack.resources["Ticks"], stack.resources["TicksDead"]
    told = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["RedrivePolicy"])
    rule = json.loads(told["Attributes"]["RedrivePolicy"])
    # The tries that the template allows take minutes.
    once = {"RedrivePolicy": json.dumps({**rule, "maxReceiveCount": 1})}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=once)

    sqs.send_message(
        QueueUrl=queue,
        MessageBody="poison",
        MessageGroupId="nobody",
        MessageDeduplicationId="poison",
    )
    letters = until(lambda: sqs.receive_message(QueueUrl=dead).get("Messages"), 120)
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": json.dumps(rule)})

    assert rule["deadLetterTargetArn"].endswith(dead.rpartition("/")[2])
    assert [letter["Body"] for letter in letters] == ["poison"]


def test_without_one_permission_a_world_stands_still_until_it_is_given_back(
    stack, admin, place, template, parameters
):
    deployed(place, without_policy(template, "TicksSend", "DispatchRole"), parameters)
    world = {"name": "still", "world_id": "still", "every": "1s"}
    made = admin.post("/v1/worlds", json=world)
    time.sleep(1.1)
    with pytest.raises(FunctionFailed, match="store_refused"):
        stack.invoke("DispatchFunction", SCHEDULED)
    told = stack.logs("DispatchFunction")
    still = published(admin, "/v1/worlds/still")
    deployed(place, template, parameters)
    stack.invoke("DispatchFunction", SCHEDULED)
    ticked = until(lambda: published(admin, "/v1/worlds/still") >= 0, 120)

    assert made.status_code == 201
    assert '"cause":"AccessDenied"' in told
    assert still == -1
    assert ticked


def test_the_schedule_calls_dispatch_by_itself(stack):
    def by_itself() -> list[str]:
        lines = [line for line in stack.logs("DispatchFunction").splitlines() if line[:1] == "{"]
        told = [json.loads(line) for line in lines]
        done = [each for each in told if each.get("operation") == "scheduled"]
        return [each["correlation"] for each in done if each["correlation"] != SCHEDULED["id"]]

    assert until(by_itself, 90)


def counted(place: Cloud, stack: Stack) -> Counter[int]:
    """Count who is in the air at each tick, by pyiceberg's own Glue catalog and nothing of ours."""
    catalog = GlueCatalog(
        "reader",
        **{
            "glue.endpoint": place.address,
            "s3.endpoint": place.address,
            "client.region": deployment.REGION,
            "client.access-key-id": deployment.ACCOUNT,
            "client.secret-access-key": "secret",
        },
    )
    place.open.callback(catalog.glue.close)
    counts: Counter[int] = Counter()
    for name in catalog.list_tables(stack.resources["Tables"]):
        table = catalog.load_table(name)
        if "position__latitude" in table.schema().column_names:
            rows = table.scan("world_id = 'day' and is_active = true").to_arrow()
            counts.update(rows["tick"].to_pylist())
    return counts


def test_a_first_deployment_that_failed_does_not_stop_the_second(place, template, parameters):
    chosen = {**parameters, "Namespace": "second"}
    formation = place.client("cloudformation")

    def attempted(*, fails: bool) -> str:
        formation.create_stack(
            StackName="second",
            TemplateBody=kept_part(template, fails=fails),
            Parameters=[
                {"ParameterKey": key, "ParameterValue": value} for key, value in chosen.items()
            ],
        )
        return until(settled, 60)

    def settled() -> str | None:
        (stack,) = formation.describe_stacks(StackName="second")["Stacks"]
        return None if stack["StackStatus"].endswith("_IN_PROGRESS") else stack["StackStatus"]

    first = attempted(fails=True)
    formation.delete_stack(StackName="second")
    formation.get_waiter("stack_delete_complete").wait(StackName="second")
    second = attempted(fails=False)

    assert (first, second) == ("ROLLBACK_COMPLETE", "CREATE_COMPLETE")
