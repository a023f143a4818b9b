"""Variables of each function, though all of them run in one process.

In Lambda a function's variables are its process's. Here `os.environ` answers whoever asks by
the context it runs in, which threads of a function and tasks of an event loop carry along.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

_OF_THE_FUNCTION: Final[ContextVar[Mapping[str, str] | None]] = ContextVar(
    "of_the_function", default=None
)


@contextmanager
def inside(variables: Mapping[str, str]) -> Iterator[None]:
    """Let what runs in here see a function's variables before those of the process."""
    before = _OF_THE_FUNCTION.get()
    apply(variables)
    try:
        yield
    finally:
        _OF_THE_FUNCTION.set(before)


def apply(variables: Mapping[str, str]) -> None:
    """Let this context see a function's variables for good: a thread of its own does."""
    install()
    _OF_THE_FUNCTION.set(variables)


def install() -> None:
    """Let `os.environ` answer by context; before anybody keeps the one that does not, as boto3 does."""
    if not isinstance(os.environ, _ByContext):
        os.environ = _ByContext(os.environ)  # noqa: B003  # the same variables stay behind it


def effective(declared: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return a function's variables: what the process says of the same name goes first.

    As `sam local` does, so that one run can be told something else than the template says.
    """
    return {name: os.environ.get(name, value) for name, value in declared.items()} | dict(given)


class _ByContext(os._Environ[str]):  # noqa: SLF001  # what a copy of it is of, too
    """The process's variables, behind those of the function in whose context somebody asks."""

    def __init__(self, real: os._Environ[str]) -> None:
        given: Any = real
        super().__init__(
            given._data,  # noqa: SLF001  # the same variables, and no second copy of them
            real.encodekey,
            real.decodekey,
            real.encodevalue,
            real.decodevalue,
        )

    def __getitem__(self, key: str) -> str:
        own = _OF_THE_FUNCTION.get()
        return own[key] if own is not None and key in own else super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:
        own = _OF_THE_FUNCTION.get() or {}
        yield from own
        yield from (name for name in super().__iter__() if name not in own)

    def __len__(self) -> int:
        return sum(1 for _ in self)
