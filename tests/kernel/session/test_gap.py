"""A range beside a running commit may show a later entry and not the one before it."""

from __future__ import annotations

import pytest
from tests.runtime.session.golden_journal import records

from perdure.kernel.session.read import following

pytestmark = pytest.mark.sessions


def test_a_page_ends_before_a_gap_which_is_no_damage_yet():
    _, entries, _, _ = records()
    first, second, third, *_ = entries

    whole = following(0, entries)
    torn = following(0, [first, third])
    behind = following(first.last, [second, third])

    assert whole == entries
    assert torn == [first]
    assert behind == [second, third]
