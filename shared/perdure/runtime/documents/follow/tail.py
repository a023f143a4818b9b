"""Following a store across processes: a look at one commit, then the log behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Self

from perdure.kernel.documents.commit import check_undivided, check_whole
from perdure.kernel.documents.errors import LogTrimmed
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import StoreHead
from perdure.kernel.errors import Refused, Unavailable
from perdure.runtime.documents.follow.feed import Feed
from perdure.runtime.documents.log import read_log
from perdure.runtime.documents.reading import read_at_once
from perdure.runtime.documents.store import StoreMeans

POLL_SECONDS_FIRST: Final = 0.05
POLL_SECONDS_MAX: Final = 1.0
"""Between two looks at a log: twice as long each time that it has nothing new. Source: choice."""


class FollowedStore:
    """A document store as its log tells it, wherever its commits are made."""

    def __init__(self, means: StoreMeans, ref: DocumentStoreRef, feed: Feed) -> None:
        self.means = means
        self.ref = ref
        self.feed = feed
        self._place: LogPlace | None = None
        """Up to where the log was read; None if it must be asked where it ends."""

    @classmethod
    async def open(
        cls, means: StoreMeans, ref: DocumentStoreRef, *, feed: Feed | None = None
    ) -> Self:
        """Begin behind the last commit of a store that exists. Raises NotFound.

        ``feed`` is that of an open handle, if others' commits are to be told there as well.
        """
        head = await _head(means, ref)
        followed = cls(means, ref, Feed(head.seq) if feed is None else feed)
        followed._place = LogPlace(followed.feed.seq, None, head.lineage)
        return followed

    async def poll(self) -> int:
        """Tell of the commits that have come, and return how many there were, at most a page.

        A log that was trimmed lets everybody look again. What else is refused fails them, and the
        next call begins behind the last commit there is then. Raises Refused, Unavailable.
        """
        try:
            if self._place is None:
                await self._begin_anew()
                return 0
            return await self._read(self._place)
        except LogTrimmed:
            await self._begin_anew()
            return 0
        except Refused as error:
            self._place = None
            self.feed.fail(error)
            raise

    async def run(self) -> None:
        """Poll until it is cancelled, with pauses that grow while nothing comes."""
        seconds = POLL_SECONDS_FIRST
        while True:
            try:
                told = await self.poll()
            except (Refused, Unavailable):
                told = 0  # whom it concerns has been told
            seconds = POLL_SECONDS_FIRST if told else min(POLL_SECONDS_MAX, 2 * seconds)
            await self.means.pause(seconds)

    async def _read(self, place: LogPlace) -> int:
        if self.feed.seq > place.seq:  # a handle in this process has told of its own
            place = LogPlace(self.feed.seq, None, place.lineage)
        page = await read_log(self.means.authority, self.ref, place, pause=self.means.pause)
        check_whole(page.head, self.ref)
        check_undivided(page.head, self.ref)
        for entry in page.entries:
            self.feed.offer(entry)
        self._place = page.end
        return len(page.entries)

    async def _begin_anew(self) -> None:
        head = await _head(self.means, self.ref)
        check_undivided(head, self.ref)
        self._place = LogPlace(head.seq, head.digest, head.lineage)
        self.feed.restart(head.seq)


@asynccontextmanager
async def follow_store(means: StoreMeans, ref: DocumentStoreRef) -> AsyncIterator[FollowedStore]:
    """Follow a store that exists, polling its log in the background. Raises NotFound."""
    followed = await FollowedStore.open(means, ref)
    task = asyncio.create_task(followed.run())
    try:
        yield followed
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _head(means: StoreMeans, ref: DocumentStoreRef) -> StoreHead:
    head, _ = await read_at_once(means.authority, ref, lambda _: None, means.pause, means.whole)
    return head
