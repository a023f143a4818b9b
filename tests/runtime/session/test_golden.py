"""A journal that this version has written is read and written the same by every later one."""

from __future__ import annotations

import asyncio
import dataclasses
import typing

import pytest
from tests.runtime.session.golden_journal import (
    COMMITS,
    GOLDEN,
    REF,
    fold_of,
    kept,
    spelled,
    stored_kept,
    told,
)

from perdure.kernel.session.facts import KNOWN
from perdure.kernel.session.features import FEATURES
from perdure.kernel.session.frames import Entry
from perdure.runtime.session.transcript import Transcripts, Wanted

pytestmark = pytest.mark.sessions

NEVER_WRITTEN = {("Steered", "hooks")}


def parts(value):
    """Yield every dataclass within a value."""
    if dataclasses.is_dataclass(value):
        yield value
        for each in dataclasses.fields(value):
            yield from parts(getattr(value, each.name))
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from parts(each)


def test_the_golden_journal_has_every_type_of_record_and_every_field():
    facts = [fact for commit in COMMITS for fact in commit]

    filled = {}
    for part in (part for fact in facts for part in parts(fact)):
        names = {each.name for each in dataclasses.fields(part)}
        found = filled.setdefault(type(part), set())
        found |= {name for name in names if getattr(part, name) is not None}

    assert {type(fact).type for fact in facts} == set(KNOWN)
    missing = {
        (kind.__name__, name)
        for kind, found in filled.items()
        for name in set(typing.get_type_hints(kind)) - {"type", "features"} - found
    }
    assert missing <= NEVER_WRITTEN
    assert {feature for fact in facts for feature in fact.requires} == FEATURES


def test_the_same_facts_are_written_in_the_same_bytes():
    assert spelled() == kept()


@pytest.mark.parametrize("name", sorted(name for name in kept() if name.startswith("log_")))
def test_an_entry_is_read_and_spelled_again_byte_for_byte(name):
    body = kept()[name]
    sort = name.removesuffix(".json").replace("_", "/")

    assert Entry.read(REF.partition, sort, body).body() == body


def test_the_golden_journal_comes_to_what_it_came_to():
    _, means = stored_kept()

    fold = asyncio.run(fold_of(means))

    assert told(fold) == (GOLDEN / "fold.txt").read_text(encoding="utf-8")


def test_the_golden_journal_is_shown_frame_by_frame():
    _, means = stored_kept()

    page = asyncio.run(Transcripts(means).read(REF, Wanted(limit=500)))

    shown = [(frame.seq, frame.type, frame.payload) for frame in page.frames]
    facts = [fact for commit in COMMITS for fact in commit]
    assert shown == [(seq, fact.type, fact.payload()) for seq, fact in enumerate(facts, 1)]
