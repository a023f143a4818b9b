"""Tools of the airspace's tests."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest
from rich.console import Console


@pytest.fixture
def count_calls() -> Callable[[Callable[[], object]], int]:
    """Return a function that counts the calls, of Python and of C, made by what it is given."""

    def counted(work: Callable[[], object]) -> int:
        calls = 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            work()
        finally:
            sys.setprofile(before)
        return calls

    return counted


@pytest.fixture
def quiet_console() -> Console:
    """A console that shows nothing."""
    return Console(file=io.StringIO())
