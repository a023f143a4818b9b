"""A store in one DynamoDB table: the authority in the cloud."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from perdure.authority import dynamodb_wire as wire
from perdure.authority import system
from perdure.authority.dynamodb_errors import Ruling, Verdict, ruling
from perdure.authority.store import RevisionConflict
from perdure.kernel import limits
from perdure.kernel.commit import Check, Commit, Put
from perdure.kernel.errors import OutcomeUnknown, PerdureError, StoreUnavailable
from perdure.kernel.view import Key, Range, Reads, Stored, View

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

THREADS: Final = 16
TRIES_MAX: Final = 8
PAUSE_SECONDS_FIRST: Final = 0.025
PAUSE_SECONDS_MAX: Final = 1.0

RECOVERY_SECONDS: Final = 5.0
"""A transaction that got stuck is finished by a retry this long after the first try, not
by an earlier one. Source: DynamoDB, TransactionInProgressException."""

_UNPROCESSED: Final = Ruling(
    Verdict.AGAIN,
    StoreUnavailable(expected="the records asked for", found="only unprocessed keys"),
)

_DONE_OR_UNDER_WAY: Final = {Verdict.COMMITTED, Verdict.UNDER_WAY, Verdict.READ_BACK}

Records = dict[Key[Any], Stored | None]


@dataclass(slots=True)
class Counters:
    """What the store has cost so far, as DynamoDB reports it or as its rules say."""

    requests: int = 0
    retries: int = 0
    read_units: float = 0.0
    write_units: float = 0.0
    actions: int = 0
    """Actions of the commits that happened."""


@dataclass(slots=True)
class _Sending:
    """One commit, however often it is sent."""

    is_unsure: bool = False
    """DynamoDB has known its token: it may have happened, whatever is answered next."""


class DynamoStore:
    """Reads strongly, writes conditionally, retries itself and sees every answer."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        *,
        threads: int = THREADS,
        chance: Callable[[], float] = system.chance,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.counters = Counters()
        self._client = client
        self._table = table
        self._chance = chance
        self._pause = pause
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="dynamodb")
        self._is_closed = False

    async def load(self, reads: Reads) -> View:
        keys = list(dict.fromkeys((*reads.keys, *reads.peeks)))
        stored: Records = dict.fromkeys(keys)
        if reads.snapshot and keys:
            stored |= await self._snapshot(keys)
        else:
            size = limits.LOAD_KEYS_MAX
            parts = [keys[start : start + size] for start in range(0, len(keys), size)]
            for records in await asyncio.gather(*(self._batch(part) for part in parts)):
                stored |= records
        found: dict[Range[Any], list[Key[Any]]] = {}
        ranges = await asyncio.gather(*(self._range(wanted) for wanted in reads.ranges))
        for wanted, records in zip(reads.ranges, ranges, strict=True):
            found[wanted] = list(records)
            for key, record in records.items():
                stored.setdefault(key, record)
        return View(stored, found, reads.keys, is_snapshot=reads.snapshot and not ranges)

    async def commit(self, commit: Commit) -> None:
        sending = _Sending()
        try:
            await self._commit(commit, sending)
        except PerdureError as error:
            if sending.is_unsure and not isinstance(error, OutcomeUnknown):
                raise _unknown(error) from error
            raise

    async def close(self) -> None:
        self._is_closed = True
        await asyncio.to_thread(self._pool.shutdown)

    async def _commit(self, commit: Commit, sending: _Sending) -> None:
        call = self._call(commit)
        units = wire.write_units(commit.actions, commit.token)
        waited = 0.0
        for tries in range(1, TRIES_MAX + 1):
            try:
                answer = await self._sent(call)
            except (ClientError, BotoCoreError) as error:
                ruled = ruling(error, commit.token)
                sending.is_unsure |= ruled.verdict in _DONE_OR_UNDER_WAY
                if await self._is_done(commit, ruled):
                    self.counters.write_units += units
                    self.counters.actions += len(commit.actions)
                    return
                if tries == TRIES_MAX:
                    raise ruled.error from error
                waited += await self._rest(tries, ruled, waited)
            else:
                self.counters.write_units += _reported(answer, units)
                self.counters.actions += len(commit.actions)
                return

    async def _is_done(self, commit: Commit, ruled: Ruling) -> bool:
        """Tell a commit that happened from one to be sent again; raise if it is neither."""
        match ruled.verdict:
            case Verdict.COMMITTED:
                if not wire.is_single(commit.actions):
                    await self._written(commit)  # whoever is told of it shall find all of it
                return True
            case Verdict.CONFLICT:
                failed = [commit.actions[place] for place in ruled.failed] or commit.actions
                raise RevisionConflict(*(action.key for action in failed))
            case Verdict.READ_BACK:
                if await self._has_happened(commit):
                    return True
                raise _unknown(ruled.error)
            case Verdict.UNKNOWN:
                raise _unknown(ruled.error)
            case Verdict.REFUSED:
                raise ruled.error
            case Verdict.AGAIN | Verdict.UNDER_WAY:
                return False

    async def _has_happened(self, commit: Commit) -> bool:
        records = await self._written(commit)
        return any(
            record is not None and record.version.token == commit.token
            for record in records.values()
        )

    async def _written(self, commit: Commit) -> Records:
        """Return the records that a commit writes, none of them in the midst of a transaction."""
        return await self._snapshot(
            [each.key for each in commit.actions if not isinstance(each, Check)]
        )

    def _call(self, commit: Commit) -> Callable[[], Any]:
        token = commit.token
        if wire.is_single(commit.actions):
            (put,) = (each for each in commit.actions if isinstance(each, Put))
            return partial(
                self._client.put_item,
                **wire.put(self._table, put, token),
                ReturnConsumedCapacity="TOTAL",
            )
        return partial(
            self._client.transact_write_items,
            TransactItems=[wire.transact(self._table, each, token) for each in commit.actions],
            ClientRequestToken=token,
            ReturnConsumedCapacity="TOTAL",
        )

    async def _snapshot(self, keys: Sequence[Key[Any]]) -> Records:
        get: Any = [{"Get": {"TableName": self._table, "Key": wire.address(key)}} for key in keys]
        call = partial(
            self._client.transact_get_items, TransactItems=get, ReturnConsumedCapacity="TOTAL"
        )
        answer = await self._read(call)
        pairs = zip(keys, answer["Responses"], strict=True)
        records = {key: _stored(each.get("Item")) for key, each in pairs}
        self.counters.read_units += _reported(answer, 2 * _units(records))
        return records

    async def _batch(self, keys: Sequence[Key[Any]]) -> Records:
        """Read at most LOAD_KEYS_MAX records, however many answers that takes."""
        records: Records = dict.fromkeys(keys)
        by_address = {(key.partition, key.sort): key for key in keys}
        asked: Any = [wire.address(key) for key in keys]
        tries = 0
        while asked:
            tries += 1
            items: Any = {self._table: {"Keys": asked, "ConsistentRead": True}}
            call = partial(
                self._client.batch_get_item, RequestItems=items, ReturnConsumedCapacity="TOTAL"
            )
            answer = await self._read(call)
            got = {
                by_address[item["pk"]["S"], item["sk"]["S"]]: wire.stored(item)
                for item in answer["Responses"].get(self._table, [])
            }
            self.counters.read_units += _reported(answer, _units(got))
            records |= got
            asked = answer.get("UnprocessedKeys", {}).get(self._table, {}).get("Keys")
            if got:
                tries = 0  # a large answer comes in parts: that is no throttling
            elif asked:
                await self._rest(tries, _UNPROCESSED, 0.0)
        return records

    async def _range(self, wanted: Range[Any]) -> Records:
        records: Records = {}
        start: Any = {}
        while wanted.first < wanted.last:
            params = wire.query(self._table, wanted, wanted.limit - len(records))
            answer = await self._read(partial(self._client.query, **params, **start))
            page: Records = {}
            for item in answer["Items"]:
                sort = item["sk"]["S"]
                if sort < wanted.last:  # a key condition cannot leave its upper end out
                    page[Key(wanted.partition, sort, wanted.of)] = wire.stored(item)
            self.counters.read_units += _reported(answer, wire.query_units(_sizes(page)))
            room = wanted.limit - len(records)
            records |= dict(list(page.items())[:room])
            if len(records) == wanted.limit or "LastEvaluatedKey" not in answer:
                break
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
        return records

    async def _read(self, call: Callable[[], Any]) -> Any:
        """Send a read until it is answered: nothing can go wrong by reading again."""
        tries = 0
        while True:
            tries += 1
            try:
                return await self._sent(call)
            except (ClientError, BotoCoreError) as error:
                ruled = ruling(error)
                if ruled.verdict is Verdict.REFUSED:
                    raise ruled.error from error
                await self._rest(tries, ruled, 0.0)

    async def _sent(self, call: Callable[[], Any]) -> Any:
        if self._is_closed:
            raise StoreUnavailable(expected="an open store", found="a closed one")
        self.counters.requests += 1
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    async def _rest(self, tries: int, ruled: Ruling, waited: float) -> float:
        """Pause with full jitter, and return for how many seconds; raise after the last try."""
        self.counters.retries += 1
        if tries >= TRIES_MAX:
            raise ruled.error
        seconds = self._chance() * min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_FIRST * (1 << tries))
        if ruled.verdict is Verdict.UNDER_WAY and tries > 1:
            seconds = max(seconds, RECOVERY_SECONDS - waited)
        await self._pause(seconds)
        return seconds


def _unknown(error: PerdureError) -> OutcomeUnknown:
    return OutcomeUnknown(expected="an answer to a commit", found=error.found)


def _stored(item: Any) -> Stored | None:
    return None if item is None else wire.stored(item)


def _units(records: Mapping[Key[Any], Stored | None]) -> float:
    return wire.read_units(_sizes(records))


def _sizes(records: Mapping[Key[Any], Stored | None]) -> Iterator[int]:
    for key, record in records.items():
        yield 0 if record is None else wire.item_bytes(key, record.version, record.body)


def _reported(answer: Mapping[str, Any], computed: float) -> float:
    """Return the units an engine reports, or those its rules make."""
    capacity = answer.get("ConsumedCapacity")
    if not capacity:
        return computed
    tables = capacity if isinstance(capacity, list) else [capacity]
    return float(sum(table.get("CapacityUnits", 0.0) for table in tables))
