"""What lies in objects, in files and in items, and what comes back from clients and queues."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import zlib
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.api.rig import SCHEDULED
from tests.fuzz.mutated import BITS, JSON, NUMBERS, mutations, quiet, read_or_refused
from tests.lake.test_segment import ORIGIN, SCHEMA, TABLE, WORLD, rows

from perdure.api.decoding import cursor, resumed, strict_json
from perdure.api.events import check_http, kind_of
from perdure.api.gateway import http_event
from perdure.api.queue import due_of, message_of
from perdure.authority import dynamodb_wire
from perdure.authority.memory import MemoryStore
from perdure.authority.sqlite import SqliteStore
from perdure.kernel.commit import Commit, Put
from perdure.kernel.errors import Corrupt, PerdureError
from perdure.kernel.ids import Seq, StorageId, Token
from perdure.kernel.log import LogEntry, log_key
from perdure.kernel.records import TableRows, head_key
from perdure.kernel.trim import Archive, Trim
from perdure.kernel.view import Reads, Version
from perdure.lake.segment import inlined, rows_of, segment_bytes
from perdure.runtime.archive import ArchivedStore, archived, bodies_of

pytestmark = pytest.mark.proof
STORAGE = StorageId("storage")
EXAMPLES = 30
EXAMPLES_SLOW = 2_000
SECONDS_MAX = 60
"""Only what never ends takes so long."""
JUNK = st.binary(max_size=40) | st.sampled_from(BITS)
TEXTS = st.text(max_size=40) | st.sampled_from([each.decode("latin-1") for each in BITS])


class Holding:
    """Objects that are whatever bytes they are said to be."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    async def get(self, name: str) -> bytes:
        return self.data


def run(work):
    return asyncio.run(work)


FILE = bytes(segment_bytes(rows(2_000)))
HELD = TableRows(
    table=TABLE,
    rows=2_000,
    segment="segment/x.arrow",
    bytes=len(FILE),
    sha256=hashlib.sha256(FILE).hexdigest(),
)


@quiet(EXAMPLES)
@given(data=mutations(st.just(FILE), st.just(FILE[::-1])) | JUNK)
def test_segment_that_changed_is_refused_by_its_digest(data):
    found = read_or_refused(lambda: run(rows_of(HELD, ORIGIN, SCHEMA, Holding(data))))

    assert (found is not None) == (data == FILE)


@quiet(EXAMPLES)
@given(data=st.integers(0, len(FILE) - 1).map(lambda size: FILE[:size]) | JUNK)
@example(data=b"")
@example(data=b"ARROW1\0\0" + FILE[:40] + b"ARROW1")
def test_segment_that_is_no_file_of_arrow_is_refused_though_its_digest_is_right(data):
    held = replace(HELD, sha256=hashlib.sha256(data).hexdigest())

    with pytest.raises(Corrupt):
        run(rows_of(held, ORIGIN, SCHEMA, Holding(data)))


@quiet(EXAMPLES)
@given(
    name=st.sampled_from((*SCHEMA.names, "other")),
    values=st.lists(JSON, max_size=3) | st.lists(st.integers(), min_size=3, max_size=3),
)
def test_inline_rows_that_changed_are_refused_or_read(name, values):
    held = inlined(TABLE, rows(3))
    changed = replace(held, inline={**held.inline, name: values})

    read_or_refused(lambda: run(rows_of(changed, ORIGIN, SCHEMA, Holding(b""))))


def entries(count: int) -> list[LogEntry]:
    return [
        LogEntry(partition=WORLD, seq=Seq(seq), at=seq, kind="admitted", facts={}, previous="")
        for seq in range(1, count + 1)
    ]


BLOCK = archived(entries(9))
ARCHIVE = Archive(
    partition=WORLD, first=Seq(1), last=Seq(9), object=BLOCK.name, sha256=BLOCK.sha256
)


@quiet(EXAMPLES)
@given(data=mutations(st.just(BLOCK.data), st.binary()) | JUNK, is_signed=st.booleans())
@example(data=zlib.compress(b"one\ntwo"), is_signed=True)
@example(data=BLOCK.data[:-1], is_signed=True)
def test_archive_that_changed_is_refused_or_read(data, is_signed):
    sha256 = hashlib.sha256(data).hexdigest() if is_signed else ARCHIVE.sha256

    found = read_or_refused(lambda: run(bodies_of(replace(ARCHIVE, sha256=sha256), Holding(data))))

    assert found is None or len(found) == 9


@pytest.mark.parametrize(
    "fields", [{"first": 5}, {"last": 3}, {"last": 12}, {"first": 0}, {"first": 9, "last": 1}]
)
@pytest.mark.parametrize("seq", [1, 4, 9])
def test_archive_that_says_it_holds_other_entries_is_refused_and_not_asked_for_ever(fields, seq):
    kept = MemoryStore()
    trim = Trim(partition=WORLD, log_through=Seq(9), removed_through=Seq(9))
    wrong = replace(ARCHIVE, **fields)
    puts = [Put(ARCHIVE.key, None, b"\0" + wrong.body()), Put(trim.key, None, b"\0" + trim.body())]

    async def story():
        await kept.commit(Commit(Token("t"), tuple(puts)))
        store = ArchivedStore(kept, lambda: Holding(BLOCK.data))
        key = log_key(WORLD, Seq(seq))
        async with asyncio.timeout(SECONDS_MAX):
            return (await store.load(Reads(peeks=(key,)))).stored[key]

    with pytest.raises(Corrupt):
        run(story())


NOTES = [head_key(f"w/{number}") for number in range(30)]


@pytest.fixture(scope="module")
def sqlite_file(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("sqlite") / "kept.db"

    async def written():
        store = await SqliteStore.open(path)
        for number, key in enumerate(NOTES):
            await store.commit(Commit(Token(f"t{number}"), (Put(key, None, b"\0{}" * 90),)))
        await store.close()

    run(written())
    return path.read_bytes()


def is_read_or_refused(path, data: bytes) -> None:
    path.write_bytes(data)

    async def story():
        async with asyncio.timeout(SECONDS_MAX):
            store = await SqliteStore.open(path, busy_ms=100)
            try:
                view = await store.load(Reads(keys=tuple(NOTES)))
                for stored in view.stored.values():
                    assert stored is None or isinstance(stored.body, bytes)
                new = Commit(Token("new"), (Put(head_key("w/new"), None, b"\0{}"),))
                await store.commit(new)
            finally:
                await store.close()

    read_or_refused(lambda: run(story()))
    for each in path.parent.iterdir():
        each.unlink()


def sqlite_survives(tmp_path, sqlite_file, examples: int) -> None:
    @quiet(examples)
    @given(data=st.data())
    def mutated(data):
        changed = bytearray(sqlite_file)
        for _ in range(data.draw(st.integers(1, 4))):
            # The header, the heads of pages, and anywhere.
            page = 4_096 * data.draw(st.integers(0, len(sqlite_file) // 4_096 - 1))
            places = st.integers(0, 99) | st.integers(page, page + 60)
            at = data.draw(places | st.integers(0, len(sqlite_file) - 1))
            changed[at] = data.draw(st.integers(0, 255))
        whole = data.draw(st.sampled_from((len(changed),) * 4 + (0, 1, 99, 4_096, 5_000)))
        is_read_or_refused(tmp_path / "kept.db", bytes(changed[:whole]))

    mutated()


def test_sqlite_file_that_changed_is_refused_or_read(tmp_path, sqlite_file):
    sqlite_survives(tmp_path, sqlite_file, 40)


@pytest.mark.slow
def test_sqlite_file_that_changed_is_so_thousands_of_times(tmp_path, sqlite_file):
    sqlite_survives(tmp_path, sqlite_file, EXAMPLES_SLOW)


@quiet(EXAMPLES)
@given(
    name=st.sampled_from(("rev", "tok", "body", "pk")),
    value=JSON
    | st.fixed_dictionaries({}, optional={"N": JSON, "S": JSON, "B": JSON | st.binary()}),
)
@example(name="body", value={"B": 10**12})
@example(name="rev", value={"N": "9" * 5_000})
@example(name="rev", value={"N": "1e3"})
def test_item_of_dynamodb_that_changed_is_refused_or_read(name, value):
    good = {
        **dynamodb_wire.address(NOTES[0]),
        "rev": {"N": "3"},
        "tok": {"S": "t"},
        "body": {"B": b"\0{}"},
    }

    found = read_or_refused(lambda: dynamodb_wire.stored({**good, name: value}))

    assert found is None or isinstance(found.body, bytes)
    assert dynamodb_wire.stored(good).version == Version(3, Token("t"))


@quiet(80)
@given(text=TEXTS | st.binary(max_size=40).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_cursor_is_ours_or_refused(text):
    found = read_or_refused(lambda: resumed(text, scope="here"))

    if found is not None:
        assert cursor("here", found).rstrip("=") == text.rstrip("=")


@quiet(80)
@given(after=st.text(max_size=20))
def test_cursor_leads_back_to_its_place_and_to_no_other_question(after):
    text = cursor("here", after)

    assert resumed(text, scope="here") == after
    with pytest.raises(PerdureError):
        resumed(text, scope="there")


@quiet(80)
@given(body=TEXTS | JSON | JSON.map(json.dumps))
def test_message_is_ours_or_refused(body):
    found = read_or_refused(lambda: due_of(STORAGE, body))

    assert found is None or due_of(STORAGE, message_of(found).body) == found


@quiet(80)
@given(body=JUNK | JSON.map(lambda each: json.dumps(each).encode()) | NUMBERS.map(b"%d".__mod__))
def test_json_of_a_request_is_read_or_refused(body):
    found = read_or_refused(lambda: strict_json(body))

    assert found is None or json.loads(body) == found


def places(value, at=()):
    yield at
    for name, each in value.items() if isinstance(value, dict) else ():
        yield from places(each, (*at, name))


def changed_at(value, place, new):
    if not place:
        return new
    return {**value, place[0]: changed_at(value[place[0]], place[1:], new)}


HTTP = http_event(
    "GET", "/v1/worlds", query="limit=1", headers={"host": "x"}, request_id="1",
    authorizer={"jwt": {"claims": {"sub": "ann", "role": "admin"}, "scopes": None}},
)  # fmt: skip


@quiet(100)
@given(data=st.data())
def test_event_of_any_shape_is_told_what_it_lacks(data):
    event = data.draw(st.sampled_from((HTTP, SCHEDULED, {"Records": [{}]})))
    place = data.draw(st.sampled_from([*places(event)]))
    changed = changed_at(event, place, data.draw(JSON))

    kind = read_or_refused(lambda: kind_of(changed))

    if kind == "http":
        read_or_refused(lambda: check_http(changed))
