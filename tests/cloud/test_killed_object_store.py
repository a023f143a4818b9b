"""An object store that is killed in the midst of landing: started again, every row is there once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.support.day import BOTH, ONLY, a_day, expected
from tests.support.place import Place
from tests.support.seaweedfs import KEY, SECRET, SeaweedFS
from tests.support.wire import Asked, Wire, wire_to

from perdure.kernel.errors import StoreUnavailable
from perdure.lake.catalog import open_file
from perdure.lake.s3 import S3Objects
from perdure.runtime import land as land_module

pytestmark = [pytest.mark.cloud, pytest.mark.slow]

BUCKET = "lake"
NUMBERS = count(1)
LANDINGS_MAX = 20


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[SeaweedFS]:
    store = SeaweedFS(tmp_path_factory.mktemp("seaweedfs"))
    with contextlib.closing(store):
        store.start()
        client = store.client()
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield store


@pytest.fixture
def wire(store) -> Iterator[Wire]:
    with wire_to(store.address) as wire:
        wire.concerns = lambda asked: False
        yield wire


@pytest.fixture
def place(store, wire, tmp_path: Path) -> Iterator[Place]:
    """A place whose segments and tables are in the object store, its catalog in a file here."""
    prefix = f"case-{next(NUMBERS)}"
    catalog = open_file(
        tmp_path / "iceberg.db",
        {
            "py-io-impl": "perdure.lake.remote.RemoteFileIO",
            "warehouse": f"s3://{BUCKET}/{prefix}/warehouse",
            "s3.endpoint": wire.address,
            "s3.region": "us-east-1",
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
        },
    )
    place = Place(tmp_path, catalog)
    client = store.client()
    place.objects = S3Objects(client, BUCKET, prefix)
    yield place
    client.close()
    catalog.close()


def is_write(asked: Asked) -> bool:
    return asked.method in {"PUT", "POST"}


def writes_of_a_landing(place: Place, wire: Wire) -> int:
    a_day(place, "first", inline=False)
    place.land("first")
    wire.concerns = is_write
    a_day(place, "dry", inline=False)
    place.land("dry")
    wire.concerns = lambda asked: False
    return len(wire.seen)


def landed_in_the_end(place: Place, *worlds: str) -> None:
    """Land as a schedule does: while the store comes up, it is unavailable, and asked again."""
    for _ in range(LANDINGS_MAX):
        place.authority.now += land_module.LEASE_MS
        try:
            place.land(*worlds)
        except StoreUnavailable:
            time.sleep(1)
        else:
            return
    raise AssertionError("the store does not come up")


@pytest.mark.parametrize("part", [0.0, 0.2, 0.4, 0.6, 0.8, 0.999])
def test_killed_before_any_write_of_a_landing_it_has_every_row_once_in_the_end(
    store, place, wire, part
):
    fatal = int(writes_of_a_landing(place, wire) * part)
    worlds = [a_day(place, name, inline=False) for name in ("w", "v")]
    wire.seen.clear()
    killed: list[Asked] = []

    def killing(asked: Asked) -> bool:
        if is_write(asked) and len(wire.seen) == fatal:
            killed.append(asked)
            store.kill()
        return is_write(asked)

    wire.concerns = killing
    with pytest.raises(StoreUnavailable):
        place.land("w", "v", holder="the dead")
    wire.concerns = lambda asked: False
    assert killed
    store.start()

    landed_in_the_end(place, "w", "v")

    names = ("first", "dry", "w", "v")
    assert place.keys(*BOTH) == sum((expected(name, (1, 2, 3)) for name in names), Counter())
    assert place.keys(*ONLY) == sum((expected(name, (9,)) for name in names), Counter())
    assert [world.landed_tick() for world in worlds] == [4, 4]
    for world in worlds:
        for manifest in world.manifests:
            for held in manifest.tables:
                assert len(asyncio.run(place.objects.get(held.segment))) == held.bytes


def test_it_listens_on_loopback_alone(store):
    listening = [
        line.split()[1]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    ]
    ours = {f"{port:04X}" for port in store._ports.values()}

    assert {each for each in listening if each.rpartition(":")[2] in ours}
    assert {
        each for each in listening if each.rpartition(":")[2] in ours and each[:8] != "0100007F"
    } == set()
