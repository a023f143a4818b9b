"""Fast spellings: each gives the very bytes, and the very refusals, of the plain way."""

from __future__ import annotations

import dataclasses
import json
from collections import OrderedDict
from dataclasses import replace
from typing import Annotated
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, field_validator

from perdure.kernel import batch as batches
from perdure.kernel.alike import alike, spelled_floats
from perdure.kernel.batch import prepared
from perdure.kernel.canonical import canonical
from perdure.kernel.component import Component, Registry
from perdure.kernel.documents.held import HeldOwner
from perdure.kernel.documents.records import HISTORIES, Document, StoreHead
from perdure.kernel.documents.underway import Importing
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import BatchId, WorldId
from perdure.kernel.operations import AddComponents, Despawn, Spawn, Update, parsed_commands
from perdure.kernel.pages import Page, PageEntry
from perdure.kernel.places import PageName
from perdure.kernel.plain import plain_fields
from perdure.kernel.record import Record
from perdure.kernel.records import BatchKey, Drain, Fence, Group, Head, Probe

pytestmark = pytest.mark.proof

SOME = settings(max_examples=60, deadline=None)


class Place(Component):
    y: float
    x: float


class Facts(Component):
    name: str
    count: int | None
    is_open: bool = True
    share: float | None = None


class Tag(Component):
    pass


class Positive(Component):
    amount: Annotated[float, Field(gt=0)]


class Shouted(Component):
    word: str

    @field_validator("word")
    @classmethod
    def raised(cls, word: str) -> str:
        return word.upper()


class Posted(Component):
    at: int

    def model_post_init(self, _: object) -> None:
        self.__dict__["at"] = self.at + 1


class Made(Component):
    at: int

    def __init__(self, **fields: int) -> None:
        super().__init__(**{**fields, "at": 7})


class Renamed(Component):
    at: int = Field(alias="when")


class Loose(Component, strict=False):
    at: int


PLAIN = (Place, Facts, Tag)
REGISTRY = Registry([*PLAIN, Positive, Shouted, Posted, Made])

numbers = st.one_of(
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.integers(-5, 5),
    st.sampled_from([0.1, 1 / 3, 1e16, 1e-5, 1e22, -0.0, 2.0**53, 5e-324]),
)
anything = st.one_of(numbers, st.booleans(), st.none(), st.text(max_size=3), st.just("\ud800"))
values = st.one_of(
    st.fixed_dictionaries({"x": st.floats(-1e3, 1e3), "y": st.floats(-1e3, 1e3)}),
    st.fixed_dictionaries({"x": numbers, "y": numbers}),
    st.fixed_dictionaries(
        {"name": st.text(max_size=3), "count": st.none() | st.integers(-9, 9)},
        optional={"is_open": st.booleans(), "share": st.none() | numbers},
    ),
    st.dictionaries(st.sampled_from(["x", "y", "name", "count", "amount", "word", "at"]), anything),
    st.just({}),
)
references = st.sampled_from(
    ["Place", "Facts", "Tag", "Positive", "Shouted", "Posted", "Made", "Nobody"]
    + [f"{each.__name__}@{each.component.fingerprint}" for each in PLAIN]
)
options = st.fixed_dictionaries(
    {},
    optional={
        "tick": st.none() | st.integers(0, 3),
        "priority": st.none() | st.integers(-2, 2),
        "max_attempts": st.none() | st.integers(1, 3),
        "command_id": st.none() | st.sampled_from(["mine", "yours"]),
    },
)


@st.composite
def outlines(draw):
    """Draw commands that share their outline, each with values of its own."""
    named = draw(st.lists(st.tuples(references, values), min_size=1, max_size=3))
    drawn = {reference: st.just(value) | values for reference, value in named}
    kind = draw(st.sampled_from(["spawn", "spawn", "update", "add_components"]))
    shared = draw(options)
    made = []
    for _ in range(draw(st.integers(1, 12))):
        command = {
            "operation": kind,
            "components": {name: draw(held) for name, held in drawn.items()},
            **shared,
        }
        if kind != "spawn":
            command["entity_id"] = draw(st.integers(1, 2**63 - 1))
        made.append(command)
    return made


def in_objects(command):
    """Put components in place of values where they are good for one, as Python callers do."""
    held = {}
    for reference, value in command["components"].items():
        try:
            held[reference] = REGISTRY.named(reference).model_validate(value)
        except (PerdureError, ValueError):
            held[reference] = value
    return {**command, "components": held}


def verdict(commands):
    """Return what a batch comes to: every part of it, or the refusal word by word."""
    try:
        return prepared(WorldId("w"), BatchId("b"), commands, REGISTRY)
    except PerdureError as error:
        return (error.code, str(error))


def verdict_of_the_plain_way(commands):
    with patch.object(batches, "alike", lambda *_: None):
        return verdict(commands)


@SOME
@given(outlines(), st.booleans())
def test_commands_alike_come_to_what_each_of_them_comes_to(raw, as_objects):
    raw = [in_objects(each) for each in raw] if as_objects else raw
    try:
        commands = parsed_commands(raw)
    except PerdureError:
        return

    assert verdict(commands) == verdict_of_the_plain_way(commands)


good_places = st.fixed_dictionaries(
    {
        "x": st.floats(-(2.0**53), 2.0**53) | st.integers(-9, 9),
        "y": st.floats(0, 1),
    }
)
good_facts = st.fixed_dictionaries(
    {
        "name": st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
        "count": st.none() | st.integers(-(2**63), 2**63 - 1),
        "is_open": st.booleans(),
        "share": st.none() | st.floats(0, 1),
    }
)


@SOME
@given(
    st.lists(st.tuples(good_places, good_facts), min_size=1, max_size=80),
    options.filter(lambda held: held.get("command_id") is None),
    st.booleans(),
)
def test_plain_commands_take_the_short_way_and_are_the_same_bytes(rows, shared, as_objects):
    raw = [
        {"operation": "spawn", "components": {"Place": place, "Facts": facts, "Tag": {}}, **shared}
        for place, facts in rows
    ]
    commands = parsed_commands([in_objects(each) for each in raw] if as_objects else raw)

    short = alike(commands, lambda name, _: REGISTRY.named(name))

    assert short is not None
    assert verdict(commands) == verdict_of_the_plain_way(commands)
    read = json.loads(verdict(commands).payload)
    assert canonical(read["commands"]) == b"[%b]" % short.spelled


@pytest.mark.parametrize("model", [Positive, Shouted, Posted, Made, Renamed, Loose])
def test_a_class_that_asks_more_than_types_takes_the_long_way(model):
    assert plain_fields(model) is None


@pytest.mark.parametrize("model", PLAIN)
def test_a_class_of_plain_fields_takes_the_short_way(model):
    assert plain_fields(model) is not None


@pytest.mark.parametrize(
    "forged",
    [
        [Spawn.model_construct(components={"Tag": {}}, tick=True), Spawn(Tag(), tick=1)],
        [Spawn.model_construct(components={"Tag": {}}, max_attempts=[1])],
        [Spawn.model_construct(components={"Place": Place.model_construct(x="1", y=2.0)})],
        [Spawn.model_construct(components={"Place": Place.model_construct(x=1.0)})],
        [Update.model_construct(entity_id=1.0, components={"Tag": {}})],
        [AddComponents.model_construct(entity_id=True, components={"Tag": {}})],
        [Spawn(Tag()), Despawn(entity_id=1)],
        [Spawn(Facts(name="x" * 400_000, count=1))],
        [Spawn(Facts(name="x" * 200_000, count=1)) for _ in range(40)],
    ],
)
def test_what_was_made_past_its_class_or_is_too_large_is_told_as_before(forged):
    assert verdict(forged) == verdict_of_the_plain_way(forged)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=8, max_size=400))
def test_a_column_of_floats_is_spelled_as_python_spells_each(column):
    assert list(map(str, spelled_floats(column))) == list(map(repr, column))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(10**11, 10**16 - 1), min_size=500, max_size=500), st.integers(0, 15))
def test_measured_values_are_spelled_as_python_spells_each(digits, places):
    column = [(-1) ** each * each / 10**places for each in digits]

    assert list(map(str, spelled_floats(column))) == list(map(repr, column))


ids = st.integers(-(2**63), 2**63)
words = st.text(max_size=5)
pages = st.builds(PageName, ids, ids, ids)
fences = st.builds(Fence, epoch=ids, holder=st.none() | words, until=ids)
probes = st.builds(Probe, stage=st.sampled_from(["apply", "compute"]), first=ids, last=ids)
drains = st.builds(
    Drain,
    tick=ids,
    starts=ids,
    probe=st.none() | probes,
    culprits=st.lists(st.tuples(ids, ids), max_size=2).map(tuple),
)
heads = st.builds(
    Head,
    partition=st.just("w/s/w"),
    status=st.sampled_from(["active", "closing", "destroyed", "moving", "moved"]),
    fence=fences,
    drain=drains,
    last_page=st.none() | pages,
    wake_at=st.none() | ids,
    **dict.fromkeys(("writer_mode", "manifest_digest", "log_digest"), words),
    **dict.fromkeys(("published", "seq", "next_sequence", "next_entity_id", "checkpoint"), ids),
    **dict.fromkeys(("cancelled_below", "open_commands", "required", "configured"), ids),
)
store_heads = st.builds(
    StoreHead,
    partition=st.just("d/s/s"),
    follows=st.booleans(),
    held=st.lists(
        st.builds(HeldOwner, epoch=ids, until=ids, **dict.fromkeys(("owner", "holder"), words)),
        max_size=2,
    ).map(tuple),
    diverged=st.none() | words,
    importing=st.none() | st.builds(Importing, sha256=words, done=ids),
    log_from=st.just(1) | ids,
    **dict.fromkeys(("lineage", "digest"), words),
    **dict.fromkeys(("seq", "next_id", "epoch", "schema"), ids),
)
plain_store_heads = store_heads.map(lambda each: replace(each, diverged=None, importing=None))
groups = st.builds(Group, tick=ids, priority=ids, count=ids, page=pages)
batch_keys = st.builds(
    BatchKey,
    partition=st.just("w/s/w"),
    groups=st.lists(groups, max_size=3).map(tuple),
    **dict.fromkeys(("batch", "digest"), words),
    **dict.fromkeys(("seq", "published", "first_sequence", "first_entity_id"), ids),
)


documents = st.builds(
    Document,
    partition=st.just("d/s/s"),
    member=st.none() | words | st.just("\ud800"),
    history=st.sampled_from(HISTORIES),
    meta=st.none() | st.booleans() | words | st.dictionaries(words, ids | st.none(), max_size=2),
    retired_at=st.none() | ids,
    **dict.fromkeys(("owner", "namespace", "kind"), words | st.just("\ud800")),
    **dict.fromkeys(("id", "version", "revision", "base", "last", "deltas", "created_at"), ids),
)


@SOME
@given(documents)
def test_a_document_spelled_by_hand_has_the_bytes_of_its_fields(record):
    fields = {each.name: getattr(record, each.name) for each in dataclasses.fields(record)}
    del fields["partition"]

    assert record.body() == canonical(fields)
    assert record == Document.read(record.partition, record.key.sort, record.body())


@SOME
@given(heads | batch_keys | plain_store_heads | store_heads)
def test_records_spelled_by_hand_have_the_bytes_of_every_record(record):
    assert record.body() == Record.body(record)
    assert record == type(record).read(record.partition, record.key.sort, record.body())


entries = st.builds(
    PageEntry,
    seq=ids,
    group=ids,
    count=ids,
    open=st.none() | st.lists(st.tuples(ids, ids), max_size=2).map(tuple),
    attempts=st.integers(0, 3),
    world=st.none() | words,
)


@SOME
@given(st.lists(entries, max_size=4))
def test_a_page_is_the_same_bytes_however_its_entries_came(held):
    plain = []
    for each in held:
        fields = [each.seq, each.group, each.count, each.open, each.attempts, each.world]
        while len(fields) > 3 and not fields[-1]:
            fields.pop()
        plain.append(fields)

    page = Page.of("w/s/w", PageName(1, 0, 1), held)
    grown = Page.of("w/s/w", PageName(1, 0, 1))
    for each in held:
        grown = grown.appended(each)

    assert page.body() == grown.body() == canonical(plain)


PLACE = {"y": 1.0, "x": 2.0}


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize(
    "command",
    [
        Spawn.model_construct(components={"Place": 5}),
        Spawn(components={"Place": PLACE}).model_copy(update={"operation": "teleport"}),
        Spawn(components={"Place": PLACE}).model_copy(update={"zz": 1}),
        Spawn.model_construct(components={"Tag": OrderedDict(x=1)}),
    ],
    ids=["no value", "another operation", "a field more", "another mapping"],
)
def test_a_command_tampered_with_after_it_was_checked_is_looked_at(command, count):
    def model_of(reference, kind):
        return {"Place": Place, "Tag": Tag}[reference]

    assert alike([command] * count, model_of) is None
