"""Steps: a process that dies before or after any one thing it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.lake.catalog import LocalCatalog


class Died(BaseException):
    """The process is gone."""


class Steps:
    """Counts the steps of a process, and ends it before or after one of them."""

    def __init__(self, die_at: int | None = None, *, after: bool = False) -> None:
        self.taken = 0
        self._die_at = die_at
        self._after = after
        self._is_dead = False

    def take(self, step: Callable[[], Any]) -> Any:
        if self._is_dead:
            raise Died
        self.taken += 1
        if self.taken == self._die_at:
            self._is_dead = True
            if self._after:
                step()
            raise Died
        return step()


class DyingAuthority:
    def __init__(self, inner: Any, steps: Steps) -> None:
        self._inner, self._steps = inner, steps

    async def execute(self, request):
        def step():
            coroutine = self._inner.execute(request)
            try:
                coroutine.send(None)
            except StopIteration as done:
                return done.value
            raise AssertionError("the fake never waits")

        return self._steps.take(step)


def dying_catalog(steps: Steps) -> type[LocalCatalog]:
    class DyingCatalog(LocalCatalog):
        def create_table(self, *arguments, **options):
            return steps.take(lambda: super(DyingCatalog, self).create_table(*arguments, **options))

        def commit_table(self, *arguments):
            return steps.take(lambda: super(DyingCatalog, self).commit_table(*arguments))

    return DyingCatalog
