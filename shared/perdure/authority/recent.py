"""Records as this process last committed them: guesses that spare a load, proved by the next commit.

A guess that a decision uses is named in its view, so the commit that follows happens only if
every guess was right. A decision without a commit proves nothing and is never answered
from a guess.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from perdure.kernel.commit import Commit, Put, Remove
from perdure.kernel.ids import Partition
from perdure.kernel.record import Record
from perdure.kernel.view import ABSENT, Guess, Key, Reads, Stored, View, Written

RECORDS_MAX: Final = 8
"""Records kept of one stream: its head, its last page, and a few more."""

BODY_BYTES_MAX: Final = 4_096
STREAMS_MAX: Final = 512

COMMITS_UNTIL_TRUSTED: Final = 4
"""After a wrong guess there is a rival: guess again when it has been quiet for so long."""


class Recent:
    """The last known records of one stream."""

    __slots__ = ("_doubts", "_records")

    def __init__(self) -> None:
        self._doubts = 0
        self._records: dict[Key[Any], tuple[Stored, Record]] = {}

    def guess(self, reads: Reads) -> tuple[View, Reads]:
        """Return a view of guesses about the stream, and what is left of ``reads`` to load."""
        if self._doubts or not self._records:
            return View({}), reads
        guesses: dict[Key[Any], Guess] = dict(self._records)
        left = tuple(key for key in reads.keys if key not in guesses)
        # One load takes as long for many keys as for one: new keys are guessed to save it.
        if not (reads.peeks or reads.ranges) and reads.absent.issuperset(left):
            guesses |= dict.fromkeys(left, ABSENT)
            left = ()
        return View({}, guesses=guesses), Reads(
            left, reads.ranges, reads.peeks, reads.snapshot, reads.absent
        )

    def learn(self, commit: Commit, written: Written) -> None:
        """Keep what a commit that happened has written over and will be written over again."""
        self._doubts = max(0, self._doubts - 1)
        for action in commit.actions:
            if isinstance(action, Put):
                record = written[action.key]
                assert record is not None, "a removed record is not put"
                self._keep(action, commit, record)
            elif isinstance(action, Remove):
                self._records.pop(action.key, None)
        surplus = len(self._records) - RECORDS_MAX
        if surplus > 0:
            for key in self._least_likely(surplus, written):
                del self._records[key]

    def forget(self) -> None:
        """Forget everything: a guess was wrong, or nobody knows what happened."""
        self._records.clear()
        self._doubts = COMMITS_UNTIL_TRUSTED

    def _least_likely(self, count: int, written: Written) -> list[Key[Any]]:
        """Return those least likely to be written over: first what was written only once, long ago.

        What was just written stays, if it can: a new page is the next to be written over.
        """
        records = self._records
        found = []
        for key, (stored, _) in records.items():  # most often there are enough of these
            if stored.version.revision == 1 and key not in written:
                found.append(key)
                if len(found) == count:
                    return found
        return sorted(
            records, key=lambda key: (key in written, records[key][0].version.revision > 1)
        )[:count]

    def _keep(self, put: Put, commit: Commit, record: Record) -> None:
        self._records.pop(put.key, None)  # what was written last is dropped last
        if not record.immutable and len(put.body) <= BODY_BYTES_MAX:
            self._records[put.key] = (Stored(put.version(commit.token), put.body), record)


class RecentStreams:
    """What is known of the streams written last."""

    def __init__(self) -> None:
        self._streams: OrderedDict[Partition, Recent] = OrderedDict()

    def of(self, stream: Partition) -> Recent:
        recent = self._streams.get(stream)
        if recent is None:
            recent = self._streams[stream] = Recent()
            if len(self._streams) > STREAMS_MAX:
                self._streams.popitem(last=False)
        else:
            self._streams.move_to_end(stream)
        return recent
