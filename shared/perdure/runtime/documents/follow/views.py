"""Views of a document store: a look at one commit, then what each later commit changes."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from perdure.kernel.documents.commit import check_undivided
from perdure.kernel.documents.followed import Followed
from perdure.kernel.documents.ops import patched
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import Logged, StoreHead
from perdure.kernel.ids import Seq
from perdure.runtime.documents.follow.feed import Feed, caught_up
from perdure.runtime.documents.follow.host import Host, Observation, Observer
from perdure.runtime.documents.follow.sources import Source, same
from perdure.runtime.documents.reading import ReadsAndExecutes, read_at_once
from perdure.runtime.documents.showing import WholeCommits
from perdure.runtime.session.ports import Pause


class ViewMeans(Protocol):
    """What looking at a store needs."""

    @property
    def authority(self) -> ReadsAndExecutes: ...
    @property
    def pause(self) -> Pause: ...
    @property
    def whole(self) -> WholeCommits: ...


class Followable(Protocol):
    """A document store with somebody who tells of its commits."""

    @property
    def means(self) -> ViewMeans: ...
    @property
    def ref(self) -> DocumentStoreRef: ...
    @property
    def feed(self) -> Feed: ...


def follow_view(host: Host, store: Followable, what: Followed) -> Source:
    """Return a source of a host that is what ``what`` says of a store, as far as it is told.

    A frame for each commit that changes it. The value of something whose commits cannot be told
    any more is looked at again, and replaced in one frame. It ends as ``what`` does; a store that
    cannot be read fails the host's attempt.
    """

    async def attach(observer: Observer) -> Observation | None:
        return await _Following(store, what, observer).begun(host)

    return host.follow(attach)


class _Following:
    """One attachment to a store: holds the value, as the commits up to ``seq`` have left it."""

    def __init__(self, store: Followable, what: Followed, observer: Observer) -> None:
        self._store = store
        self._what = what
        self._observer: Observer | None = observer
        self._value: Any = None
        self._seq = Seq(0)
        self._unread: list[Logged] | None = []
        """Commits that were told while it looks at the store; None if it does not look."""
        self._look: asyncio.Task[None] | None = None
        self._must_look_again = False

    async def begun(self, host: Host) -> Observation | None:
        """Look at the store, and let it tell what follows. None if that is over already."""
        stop = self._store.feed.listen(self, host.batch)

        def detach() -> None:
            stop()
            self._observer = None
            if self._look is not None:
                self._look.cancel()

        try:
            self._value = await self._looked()
        except BaseException:
            detach()
            raise
        if self._what.is_over(self._value):
            detach()
            return None
        observation = Observation(self._value, detach)
        self._read_on()
        return observation

    def committed(self, entry: Logged) -> None:
        if self._unread is not None:
            self._unread.append(entry)
        elif entry.seq > self._seq:
            self._apply(entry)

    def missed(self) -> None:
        if self._unread is None:
            self._unread = []
            self._look = asyncio.create_task(self._look_again())
        else:
            self._must_look_again = True

    def failed(self, error: Exception) -> None:
        if self._observer is not None:
            self._observer.failed(error)

    def _apply(self, entry: Logged) -> None:
        try:
            ops = self._what.ops(self._value, entry.told())
            if ops is None:
                self.missed()
                return
            self._seq = entry.seq
            self._change(ops, entry.seq)
        except Exception as error:  # noqa: BLE001  # the commit has happened, whatever this is
            self.failed(error)

    def _change(self, ops: list[Any], seq: Seq) -> None:
        if not ops or self._observer is None:
            return
        self._value = patched(self._value, ops)
        self._observer.change(ops, seq)
        if self._what.is_over(self._value):
            self._observer.ended()

    async def _looked(self) -> Any:
        """Return the value as it is after one commit, which is the last that counts from now on."""
        while True:
            self._must_look_again = False
            head, value = await self._read()
            check_undivided(head, self._store.ref)
            # Whoever else listens is told of it first: what follows two views is never of two commits.
            await caught_up(self._store.feed, self._store.means, self._store.ref, head.seq)
            if not self._must_look_again:
                self._seq = head.seq
                return value

    async def _read(self) -> tuple[StoreHead, Any]:
        means, ref = self._store.means, self._store.ref
        return await read_at_once(
            means.authority,
            ref,
            lambda view: self._what.look(view, ref.partition),
            means.pause,
            means.whole,
        )

    async def _look_again(self) -> None:
        try:
            value = self._what.again(self._value, await self._looked())
            if not same(value, self._value):
                self._change([["r", value]], self._seq)
        except Exception as error:  # noqa: BLE001  # nobody waits for this task
            self.failed(error)
        else:
            self._look = None
            self._read_on()

    def _read_on(self) -> None:
        unread, self._unread = self._unread or [], None
        for entry in unread:
            self.committed(entry)
