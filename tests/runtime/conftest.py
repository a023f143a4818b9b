"""What the tests of the runtime share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.lifecycle import Opening, opening_on
from tests.support.place import Place


@pytest.fixture
def place(tmp_path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.catalog.close()


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=pytest.mark.cloud)])
def opening(request, tmp_path) -> Opening:
    """What opens a harness on empty data, on each store that people use."""
    address = request.getfixturevalue("aws") if request.param == "dynamodb" else None
    return opening_on(request.param, tmp_path, address)
