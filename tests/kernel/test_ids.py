"""Which texts may name something, and how the ids of unnamed commands are read."""

from __future__ import annotations

import pytest

from perdure.kernel import limits
from perdure.kernel.errors import InvalidId
from perdure.kernel.ids import (
    BatchId,
    CommandId,
    checked_command_id,
    checked_id,
    indexed_command_id,
    parsed_command_id,
    short_hash,
)

GOOD, BAD = True, False


def is_accepted(check, *arguments, **options):
    try:
        check(*arguments, **options)
    except InvalidId:
        return BAD
    return GOOD


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("a", GOOD),
        ("ä ö ü", GOOD),
        ("日本", GOOD),
        ("a@b", GOOD),
        ("a__b", GOOD),
        ("...", GOOD),
        (".", BAD),
        ("..", BAD),
        ("x" * 128, GOOD),
        ("x" * 129, BAD),
        ("é" * 64, GOOD),
        ("é" * 65, BAD),
        ("", BAD),
        ("a/b", BAD),
        ("a\0", BAD),
        ("a\n", BAD),
        ("a\x7f", BAD),
        ("a\x85", BAD),
        ("\ud800", BAD),
        ("x" * 100_000 + "/", BAD),
    ],
)
def test_ids_are_short_and_without_slashes_and_control_characters(text, verdict):
    assert is_accepted(checked_id, text, what="an id") is verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("load-7", GOOD),
        ("load.x7", GOOD),
        ("7", GOOD),
        ("load.", GOOD),
        ("load.7", BAD),
        ("load.007", BAD),
        (".7", BAD),
        ("load.٣", BAD),
        ("\ud800.7", BAD),
        ("x" * 200 + ".7", BAD),
    ],
)
def test_a_callers_command_id_does_not_look_like_one_the_batch_gives(text, verdict):
    assert is_accepted(checked_command_id, text) is verdict


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("b.0", ("b", 0)),
        ("b.12", ("b", 12)),
        ("b.1.2", ("b.1", 2)),
        ("b.012", None),
        ("b.٣", None),
        (".3", None),
        ("b", None),
        ("b.", None),
        ("b.x", None),
    ],
)
def test_ids_given_by_a_batch_are_read_back_and_no_others(command, verdict):
    assert parsed_command_id(CommandId(command)) == verdict


def test_the_id_of_the_last_command_of_the_longest_batch_id_is_an_id():
    batch = BatchId("b" * limits.BATCH_ID_BYTES_MAX)

    last = indexed_command_id(batch, limits.BATCH_COMMANDS_MAX - 1)

    assert is_accepted(checked_id, last, what="a command id")
    assert parsed_command_id(last) == (batch, limits.BATCH_COMMANDS_MAX - 1)


def test_hashes_tell_lists_of_parts_apart():
    assert len({short_hash("ab", "c"), short_hash("a", "bc"), short_hash("abc")}) == 3
    assert len(short_hash("x")) == 22
