"""One fuzzed deployment for all tests of a process, put back before each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.fuzz.hull import Hull, seeded


@pytest.fixture(scope="package")
def kept(tmp_path_factory) -> Iterator[Hull]:
    yield from seeded(tmp_path_factory.mktemp("fuzzed"))


@pytest.fixture
def hull(kept) -> Hull:
    kept.restore()
    return kept
