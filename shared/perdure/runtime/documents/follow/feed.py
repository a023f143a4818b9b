"""A feed: the commits of one document store in order, for whoever listens in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Final, Protocol

from perdure.kernel.documents.errors import LogTrimmed
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import Logged
from perdure.kernel.ids import Seq
from perdure.runtime.documents.follow.batch import Batch
from perdure.runtime.documents.log import read_log
from perdure.runtime.ports import Executes
from perdure.runtime.session.ports import Pause

CATCH_UP_ENTRIES_MAX: Final = 1_000
"""Commits of others that a handle reads before its own is told; behind more, listeners look again.
Source: choice; reading so many takes about as long as a look."""


_NOBODY: Final = nullcontext()


class Listener(Protocol):
    """Somebody who is told of commits. Nothing of it raises."""

    def committed(self, entry: Logged) -> None:
        """Take the next commit."""
        ...

    def missed(self) -> None:
        """Look at the store again: there are commits that nobody can tell any more."""
        ...

    def failed(self, error: Exception) -> None: ...


class Feed:
    """Tells each commit once, in order, whoever brings it: the handle that made it, or the log."""

    def __init__(self, seq: Seq) -> None:
        self.seq = seq
        """The last commit that was told."""
        self._listeners: dict[Listener, None] = {}
        self._batches: dict[Batch, int] = {}

    @property
    def is_heard(self) -> bool:
        return bool(self._listeners)

    def listen(self, listener: Listener, batch: Batch) -> Callable[[], None]:
        """Tell of what follows, within batches of the listener's host; return how to stop that."""
        self._listeners[listener] = None
        leave = self.join(batch)

        def detach() -> None:
            self._listeners.pop(listener, None)
            leave()

        return detach

    def join(self, batch: Batch) -> Callable[[], None]:
        """Let each commit be adopted within a batch of a host; return how to stop that.

        Whatever that host is told by ``adopt`` is then one frame with what the views are told.
        """
        self._batches[batch] = self._batches.get(batch, 0) + 1
        has_left = False

        def leave() -> None:
            nonlocal has_left
            if not has_left:
                has_left = True
                self._batches[batch] -= 1
                if not self._batches[batch]:
                    del self._batches[batch]

        return leave

    def within(self) -> AbstractContextManager[None]:
        """Run a batch of every host that listens, or join those that are running."""
        return self._within_all() if self._batches else _NOBODY

    @contextmanager
    def _within_all(self) -> Iterator[None]:
        with ExitStack() as stack:
            for batch in list(self._batches):
                stack.enter_context(batch.within())
            yield

    def offer(self, entry: Logged) -> None:
        """Tell of a commit that follows the last one told; an earlier one was told before."""
        if entry.seq <= self.seq:
            return
        assert entry.seq == self.seq + 1 or not self.is_heard, "a commit is told in its order"
        self.seq = entry.seq
        with self.within():
            for listener in list(self._listeners):
                listener.committed(entry)

    def restart(self, seq: Seq) -> None:
        """Go on behind ``seq``, and let everybody look again at what the store is."""
        self.seq = seq
        with self.within():
            for listener in list(self._listeners):
                listener.missed()

    def fail(self, error: Exception) -> None:
        """Tell everybody that nothing more can be told."""
        with self.within():
            for listener in list(self._listeners):
                listener.failed(error)


class FeedMeans(Protocol):
    """What reading the log of a store needs."""

    @property
    def authority(self) -> Executes: ...
    @property
    def pause(self) -> Pause: ...


async def caught_up(feed: Feed, means: FeedMeans, ref: DocumentStoreRef, through: Seq) -> None:
    """Tell of commits that others have made, up to ``through``, if anybody listens.

    What cannot be read fails the listeners and nobody else: this never raises.
    """
    try:
        if feed.is_heard and through - feed.seq > CATCH_UP_ENTRIES_MAX:
            feed.restart(through)
        while feed.is_heard and feed.seq < through:
            page = await read_log(means.authority, ref, LogPlace(feed.seq), pause=means.pause)
            for entry in page.entries:
                if entry.seq <= through:
                    feed.offer(entry)
    except LogTrimmed:
        feed.restart(through)
    except Exception as error:  # noqa: BLE001  # the commit has happened, whatever this is
        feed.fail(error)
        feed.seq = max(feed.seq, through)
    if not feed.is_heard:
        feed.seq = max(feed.seq, through)
