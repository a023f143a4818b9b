"""Steps: a process that dies before or after any one thing it does, or hears nothing of it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NoReturn, TypeVar

from pyiceberg.catalog.sql import SqlCatalog

from perdure.authority.in_place import in_place_of
from perdure.authority.memory import Crashed as Died
from perdure.authority.store import Store
from perdure.kernel.commit import Commit
from perdure.kernel.errors import OutcomeUnknown
from perdure.kernel.view import Reads, View
from perdure.lake.catalog import LocalCatalog

T = TypeVar("T")

When = Literal["before", "after", "lost"]
"""``lost``: the step is done, and whoever did it hears nothing."""


def die() -> NoReturn:
    """End the process, as far as one process can play it."""
    raise Died


def kill_9() -> NoReturn:
    """End the process for good."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody outlives this")


class Steps:
    """Counts the steps of a process, and ends it before or after one of them."""

    def __init__(
        self,
        die_at: int | None = None,
        *,
        after: bool = False,
        when: When | None = None,
        of: str | None = None,
        end: Callable[[], NoReturn] = die,
    ) -> None:
        self.kinds: list[str] = []
        """What each step was."""
        self._of = of
        """Only steps of this kind are counted to the last."""
        self._die_at = die_at
        self._counted = 0
        self._when = when or ("after" if after else "before")
        self._end = end
        self._is_dead = False
        self._turn = threading.Lock()

    @property
    def taken(self) -> int:
        return len(self.kinds)

    def check_alive(self) -> None:
        """Do nothing more in the name of a process that is dead."""
        if self._is_dead:
            raise Died

    def take(self, step: Callable[[], T], kind: str = "step") -> T:
        """Take a step; one that failed is not the one to die after."""
        if not self._begun(kind):
            return step()
        try:
            done = step()
        except Exception:
            self._die_at = self._counted + 1
            raise
        return self._over(done)

    async def reach(self, step: Callable[[], Awaitable[T]], kind: str) -> T:
        """Take a step that is waited for, likewise."""
        if not self._begun(kind):
            return await step()
        try:
            done = await step()
        except Exception:
            self._die_at = self._counted + 1
            raise
        return self._over(done)

    def _begun(self, kind: str) -> bool:
        """Count a step, and say whether it is the last of this process."""
        with self._turn:
            self.check_alive()
            self.kinds.append(kind)
            is_counted = self._of in {None, kind}
            self._counted += is_counted
            is_last = is_counted and self._counted == self._die_at
        if is_last and self._when == "before":
            self._die()
        return is_last

    def _over(self, done: T) -> T:
        if self._when == "lost":
            raise NoAnswer
        return self._die()

    def _die(self) -> NoReturn:
        self._is_dead = True
        self._end()


class NoAnswer(ConnectionError):
    """Something was done, and nobody says so."""


class SteppedStore:
    """A store whose commits are steps. A process that is dead reads nothing either."""

    def __init__(self, store: Store, steps: Steps) -> None:
        self._store, self._steps = store, steps

    async def load(self, reads: Reads) -> View:
        self._steps.check_alive()
        return await self._store.load(reads)

    async def commit(self, commit: Commit) -> None:
        try:
            await self._steps.reach(lambda: self._store.commit(commit), "commit")
        except NoAnswer:
            raise OutcomeUnknown(expected="an answer to a commit", found="none") from None

    async def close(self) -> None:
        await self._store.close()


def step_by_step(authority: Any, steps: Steps) -> None:
    """Let each commit of an authority that is open be a step, those made in place as well."""
    authority._store = SteppedStore(authority._store, steps)
    authority._commit_in_place = in_place_of(authority._store)


class SteppedObjects:
    """Objects whose puts and deletions are steps."""

    def __init__(self, objects: Any, steps: Steps) -> None:
        self._objects, self._steps = objects, steps

    def __getattr__(self, name: str) -> Any:
        self._steps.check_alive()
        return getattr(self._objects, name)

    async def put(self, name: str, data: Any) -> None:
        try:
            await self._steps.reach(lambda: self._objects.put(name, data), "put")
        except NoAnswer:
            raise OutcomeUnknown(expected=f"an answer to the put of {name}", found="none") from None

    async def delete(self, name: str) -> None:
        await self._steps.reach(lambda: self._objects.delete(name), "delete")


class DyingAuthority:
    """An authority that never waits, whose requests are steps."""

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
    """Return a catalog of tables in which whatever changes it is a step."""

    class Stepped(SqlCatalog):
        """Beneath the guard: what it raises is what a driver would."""

        def load_table(self, *arguments):
            steps.check_alive()
            return super().load_table(*arguments)

        def create_namespace(self, *arguments, **options):
            steps.check_alive()
            super().create_namespace(*arguments, **options)

        def create_table(self, *arguments, **options):
            made = super().create_table
            return steps.take(lambda: made(*arguments, **options), "create table")

        def commit_table(self, *arguments):
            committed = super().commit_table
            return steps.take(lambda: committed(*arguments), "commit table")

    class DyingCatalog(LocalCatalog, Stepped):
        """The catalog of a process that dies."""

    return DyingCatalog
