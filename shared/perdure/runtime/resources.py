"""Resources: live objects that processors share by name, each made once in a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from perdure.kernel.errors import UnknownResource
from perdure.kernel.shown import shown

Factory: TypeAlias = Callable[[], Any]


class Resources:
    """Live objects by name, as ``tick.resources["name"]``. Each is made when first asked for.

    All worlds that one process ticks share the object, forks too. A tick that is computed
    again asks the resource again: what it answers must not differ, or the tick will.
    """

    def __init__(self, pool: Pool, names: frozenset[str]) -> None:
        self._pool = pool
        self._names = names

    def __getitem__(self, name: str) -> Any:
        """Return the object. Raises UnknownResource."""
        if name not in self._names:
            raise UnknownResource(
                expected=f"a resource of this world: {', '.join(self) or 'it has none'}",
                found=shown(name),
            )
        return self._pool.made(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names))


class Pool:
    """The factories of an application, and what they have made in this process."""

    def __init__(self) -> None:
        self._factories: dict[str, Factory] = {}
        self._made: dict[str, Any] = {}
        # The emulator ticks in several threads.
        self._one_at_a_time = threading.RLock()

    def add(self, name: str, factory: Factory) -> None:
        """Register a factory. Raises ValueError for a name that is taken."""
        if name in self._factories:
            raise ValueError(f"Expected one resource named {name!r}; found two.")
        self._factories[name] = factory

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._factories)

    def made(self, name: str) -> Any:
        """Return the object of a name, made now if it was not before."""
        with self._one_at_a_time:
            if name not in self._made:
                self._made[name] = self._factories[name]()
            return self._made[name]

    def only(self, names: Iterable[str]) -> Resources:
        """Return the resources of these names."""
        return Resources(self, frozenset(names))


NO_RESOURCES: Final = Pool().only(())
