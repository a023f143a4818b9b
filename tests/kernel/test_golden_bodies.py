"""Golden bodies: what an earlier version has written is read, and spelled again byte for byte."""

from __future__ import annotations

import json

import pytest

from perdure.kernel.canonical import canonical
from perdure.kernel.ids import Partition
from perdure.kernel.records import Manifest, World
from perdure.kernel.upkeep import Schedule

pytestmark = pytest.mark.cloud

# As version b6b6093 spelled them: `git show b6b6093:shared/perdure/kernel/records.py`.
WORLD = (
    b'{"app":"day","begins":0,"created_at":1800000000000,"every_ms":60000,"kind":"","lineage":[],'
    b'"name":"harbour","parent":null,"run":"01890000-0000-7000-8000-000000000000",'
    b'"storage":"storage","world":"w","writer_mode":"resumable"}'
)
SCHEDULE = b'{"every_ms":60000,"missed":"coalesce","next_at":1800000060000}'
MANIFEST = (
    b'{"at":1800000060000,"cancelled":[[6,6]],"checkpoint":null,"drained_seq":11,"entities":1,'
    b'"epoch":2,"next_in_tick_entity_id":4503599627370496,"outcomes":[],'
    b'"previous":"abababababababababababababababababababababababababababababababab",'
    b'"processors":["drift"],"seq":12,"settled":[[3,5]],"tables":[{"bytes":0,"inline":'
    b'{"entity_id":[4],"position__x":[0.5]},"rows":1,"segment":null,"sha256":"",'
    b'"table":"position_3f2a"}],"tick":7,"token":"t7"}'
)
MANIFEST_DIGEST = "38d757e1a4bba8cdc5f8afaf1ce93a73da835f1c967282f8d2c62ca0b055b205"

# As today's version spells them with what it has added.
WORLD_NOW = WORLD.replace(b'"name"', b'"missed":"skip","name"')
SCHEDULE_NOW = SCHEDULE.replace(b"}", b',"skipped":3}')
MANIFEST_NOW = MANIFEST.replace(
    b'"seq":12',
    b'"scheduled":{"missed":2,"policy":"coalesce","serves":1800000060000},"seq":12',
)


def read(kind, body):
    return kind.read(Partition("w/storage/w"), "whatever", body)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (World, WORLD),
        (World, WORLD_NOW),
        (Schedule, SCHEDULE),
        (Schedule, SCHEDULE_NOW),
        (Manifest, MANIFEST),
        (Manifest, MANIFEST_NOW),
    ],
)
def test_a_body_that_was_written_is_read_and_spelled_again_byte_for_byte(kind, body):
    record = read(kind, body)

    assert record.body() == body
    assert read(kind, record.body()) == record


def test_a_manifest_of_before_has_the_digest_of_before_and_another_one_with_more_in_it():
    assert read(Manifest, MANIFEST).digest == MANIFEST_DIGEST
    assert read(Manifest, MANIFEST_NOW).digest != MANIFEST_DIGEST


def test_fields_of_before_are_read_with_the_default_of_what_was_added():
    assert read(World, WORLD).missed == "coalesce"
    assert read(Schedule, SCHEDULE).skipped == 0
    assert read(Manifest, MANIFEST).scheduled is None


@pytest.mark.parametrize("body", [WORLD_NOW, SCHEDULE_NOW, MANIFEST_NOW])
def test_golden_bodies_are_canonical(body):
    assert canonical(json.loads(body)) == body
