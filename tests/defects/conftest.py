"""What the tests of known defects share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.place import Place


@pytest.fixture
def place(tmp_path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.catalog.close()
