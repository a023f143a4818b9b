"""Views: what conditions a commit, what only informs it, and what has to be loaded first."""

from __future__ import annotations

import pickle

import pytest
from tests.support.worldly import WORLD

from perdure.kernel.commit import Check, Put, Remove, derived
from perdure.kernel.ids import Token
from perdure.kernel.records import Head, Manifest, Name, head_key, manifest_key, name_key
from perdure.kernel.view import Key, Missing, Range, Reads, Removed, Stored, Version, View

HEAD = Head(partition=WORLD.partition)
SEEN = Version(3, Token("seen"))
TOKEN = Token("mine")


def there(record):
    return {record.key: Stored(SEEN, record.body())}


def actions(view, *writes):
    return derived(view, writes, TOKEN).actions


def named(key):
    view = View(there(HEAD))
    view.get(key)
    return actions(view, Name(partition=WORLD.catalog, name="n", world=WORLD.world))


def peeked(key):
    view = View(there(HEAD))
    view.peek(key)
    return actions(view, Name(partition=WORLD.catalog, name="n", world=WORLD.world))


CLAIM = Put(name_key(WORLD.catalog, "n"), None, b'{"name":"n","world":"world"}')


@pytest.mark.parametrize(
    ("look", "verdict"),
    [(named, (CLAIM, Check(HEAD.key, SEEN))), (peeked, (CLAIM,))],
)
def test_what_is_asked_for_by_name_conditions_the_commit(look, verdict):
    assert look(HEAD.key) == verdict


def test_what_was_looked_for_and_not_found_must_stay_absent():
    key = manifest_key(WORLD.partition, 1)
    view = View({**there(HEAD), key: None}, named=(key,))

    assert actions(view, HEAD) == (Put(HEAD.key, SEEN, HEAD.body()), Check(key, None))


def test_what_was_never_looked_for_is_written_only_while_absent():
    assert actions(View({}), HEAD) == (Put(HEAD.key, None, HEAD.body()),)


def test_the_last_write_of_a_record_wins():
    other = Head(partition=WORLD.partition, open_commands=9)
    view = View(there(HEAD))
    claim = Name(partition=WORLD.catalog, name="n", world=WORLD.world)

    assert actions(view, HEAD, other) == (Put(HEAD.key, SEEN, other.body()),)
    assert actions(view, claim, HEAD, Removed(HEAD.key)) == (CLAIM, Remove(HEAD.key, SEEN))


def test_what_was_not_loaded_has_to_be():
    view = View({})

    with pytest.raises(Missing) as named_missing:
        view.get(HEAD.key)
    with pytest.raises(Missing) as peeked_missing:
        view.peek(HEAD.key)
    with pytest.raises(Missing) as many_missing:
        view.require(keys=[HEAD.key], peeks=[CLAIM.key])
    wanted = Range(WORLD.partition, "a", "b", Head)
    with pytest.raises(Missing) as range_missing:
        view.find(wanted)

    assert named_missing.value.reads == Reads(keys=(HEAD.key,))
    assert peeked_missing.value.reads == Reads(peeks=(HEAD.key,))
    assert many_missing.value.reads == Reads(keys=(HEAD.key,), peeks=(CLAIM.key,))
    assert range_missing.value.reads == Reads(ranges=(wanted,))


def test_later_decisions_see_what_earlier_ones_write():
    view = View(there(HEAD))
    other = Head(partition=WORLD.partition, open_commands=9)

    view.absorb([other])
    assert view.get(HEAD.key) == other
    view.absorb([Removed(HEAD.key)])
    assert view.get(HEAD.key) is None


def test_reads_are_joined_each_record_once_and_a_name_is_more_than_a_peek():
    joined = Reads.union(
        Reads(peeks=(HEAD.key, CLAIM.key)), Reads(keys=(HEAD.key,)), Reads(snapshot=True)
    )

    assert joined == Reads(keys=(HEAD.key,), peeks=(CLAIM.key,), snapshot=True)


def test_a_key_is_its_address():
    key = head_key(WORLD.partition)
    other = Key(WORLD.partition, "head", Manifest)

    assert key == other
    assert hash(key) == hash(other)
    assert key != Key(WORLD.partition, "heads", Head)
    assert key != Key(WORLD.catalog, "head", Head)
    assert key != (WORLD.partition, "head")
    assert pickle.loads(pickle.dumps(key)) == key
    assert pickle.loads(pickle.dumps(key)).of is Head
