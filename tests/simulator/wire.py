"""DynamoDB as its driver shows it: the real store is above, the disk below, and faults in between.

Only what the store asks for is here: conditional puts, transactions with a token that is known for
ten minutes, strong reads one record at a time, transactional reads, and answers in pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError
from tests.simulator.disk import Disk
from tests.simulator.faults import Faults
from tests.simulator.loop import Answer, SimulatedLoop
from tests.simulator.trace import Trace

from perdure.kernel.commit import Action, Check, Commit, Put, Remove
from perdure.kernel.ids import Partition, Token
from perdure.kernel.record import Record
from perdure.kernel.view import Key, Range, Reads, Stored, Version

TABLE = "perdure"
TOKEN_SECONDS = 600.0
LATE_SECONDS = 20.0


@dataclass(eq=False)
class Region:
    """What all clients share: the disk, and the tokens of transactions that were done."""

    disk: Disk
    done: dict[str, float] = field(default_factory=dict)


@dataclass(eq=False)
class SimulatedClient:
    """A client of one process."""

    who: str
    loop: SimulatedLoop
    region: Region
    faults: Faults
    trace: Trace
    is_torn: bool

    def put_item(self, **request: Any) -> Any:
        action = _put(request)
        commit = Commit(Token(request["Item"]["tok"]["S"]), (action,))
        self._committed(commit, is_single=True)
        return Answer(partial(self.region.disk.answered, commit))

    def transact_write_items(self, **request: Any) -> Any:
        token = Token(request["ClientRequestToken"])
        commit = Commit(token, tuple(map(_action, request["TransactItems"])))
        self._committed(commit)
        return Answer(partial(self.region.disk.answered, commit))

    def batch_get_item(self, **request: Any) -> Any:
        self._answer_may_be_lost("BatchGetItem")
        asked = request["RequestItems"][TABLE]["Keys"]
        if len(asked) > 1 and self.faults.hits("keys unprocessed", self._odd()):
            kept = 1 + int(self.faults.chance.random() * (len(asked) - 1))
            rest = {TABLE: {"Keys": asked[kept:]}}
            return {"Responses": {TABLE: self._items(asked[:kept])}, "UnprocessedKeys": rest}
        return {"Responses": {TABLE: self._items(asked)}}

    def transact_get_items(self, **request: Any) -> Any:
        self._answer_may_be_lost("TransactGetItems")
        keys = [_key(each["Get"]["Key"]) for each in request["TransactItems"]]
        view = self.region.disk.look(Reads(keys=tuple(keys), snapshot=True))
        self._tell("loads {}", Reads(keys=tuple(keys), snapshot=True))
        found = [(key, view.stored[key]) for key in keys]
        return {
            "Responses": [{} if each is None else {"Item": _item(k, each)} for k, each in found]
        }

    def query(self, **request: Any) -> Any:
        self._answer_may_be_lost("Query")
        wanted = _range(request)
        room = request["Limit"]
        most = self.faults.weather.page_records
        size = min(room, self.faults.chance.randint(1, most) if most < room else most)
        part = Range(wanted.partition, wanted.first, wanted.last, Record, size, wanted.descending)
        view = self.region.disk.look(Reads(ranges=(part,)))
        self._tell("loads {}", Reads(ranges=(part,)))
        keys = view.keys_of(part)
        items = [_item(key, stored) for key in keys if (stored := view.stored[key]) is not None]
        if len(keys) < size:
            return {"Items": items}
        self.faults.seen["page boundary"] += 1
        last = {"pk": {"S": keys[-1].partition}, "sk": {"S": keys[-1].sort}}
        return {"Items": items, "LastEvaluatedKey": last}

    def _committed(self, commit: Commit, *, is_single: bool = False) -> None:
        fault = self.faults.drawn(self.faults.weather.commits)
        self._tell("sends {}{}", commit, fault)
        match fault:
            case "lost before":
                self._lost()
            case "late":
                seconds = self.faults.chance.random() * LATE_SECONDS * self.faults.pace
                self.loop.outside(seconds, self._arrives_late, commit, is_single)
                self._lost()
            case "lost after":
                self._apply(commit, is_single=is_single)
                self._lost(arrived=True)
            case "twice":
                self._apply(commit, is_single=is_single)
                self._check(commit, is_single=is_single)
            case "conflict" if not is_single:
                reasons: list[Any] = [{"Code": "None"} for _ in commit.actions]
                reasons[-1] = {"Code": "TransactionConflict"}
                _cancelled(reasons)
            case "conflict":
                raise _error("TransactionConflictException")
            case "busy":
                raise _error("ThrottlingException")
            case _:
                self._apply(commit, is_single=is_single)

    def _lost(self, *, arrived: bool = False) -> NoReturn:
        """Answer with one of the errors after which nobody knows."""
        kinds = ["timeout", "500", "in progress"]
        kind = kinds[int(self.faults.chance.random() * len(kinds))]
        if arrived and self.faults.chance.random() < 0.2:
            kind = "mismatch"
        self.faults.seen[f"wire: {kind}"] += 1
        match kind:
            case "500":
                raise _error("InternalServerError", status=500)
            case "in progress":
                raise _error("TransactionInProgressException")
            case "mismatch":
                raise _error("IdempotentParameterMismatchException")
            case _:
                raise ReadTimeoutError(endpoint_url="simulated")

    def _arrives_late(self, commit: Commit, is_single: bool) -> None:  # noqa: FBT001
        try:
            self._apply(commit, is_single=is_single)
        except ClientError:
            self._tell("has a late {} refused", commit)
        else:
            self._tell("has a late {} done", commit)

    def _apply(self, commit: Commit, *, is_single: bool) -> None:
        now = self.loop.seconds
        done = self.region.done.get(commit.token)
        if not is_single and done is not None and now - done < TOKEN_SECONDS:
            return  # a token that is known does nothing again
        self._check(commit, is_single=is_single)
        torn = self.is_torn and self.faults.chance.random() < self.faults.weather.torn
        self.region.disk.apply(commit, torn=torn)
        if not is_single:
            self.region.done[commit.token] = now

    def _check(self, commit: Commit, *, is_single: bool) -> None:
        """Compare what is there with the conditions, and answer as DynamoDB does if they fail."""
        records = self.region.disk.records()
        reasons: list[Any] = []
        for action in commit.actions:
            stored = records.get(action.key)
            if (None if stored is None else stored.version) == action.seen:
                reasons.append({"Code": "None"})
                continue
            reason: Any = {"Code": "ConditionalCheckFailed"}
            if stored is not None:
                reason["Item"] = _item(action.key, stored)
            reasons.append(reason)
        failed = [each for each in reasons if each["Code"] != "None"]
        if not failed:
            return
        self._tell("is told that conditions of {} fail", commit)
        if is_single:
            raise _error("ConditionalCheckFailedException", **failed[0])
        _cancelled(reasons)

    def _answer_may_be_lost(self, what: str) -> None:
        if self.faults.drawn(self.faults.weather.loads) is None:
            return
        self._tell("asks with {}, and has no answer", what)
        if self.faults.chance.random() < 0.5:
            raise ConnectTimeoutError(endpoint_url="simulated")
        raise _error("ProvisionedThroughputExceededException")

    def _items(self, asked: Sequence[Any]) -> list[Any]:
        keys = tuple(_key(each) for each in asked)
        view = self.region.disk.look(Reads(peeks=keys))
        self._tell("loads {}", Reads(peeks=keys))
        found = [(key, view.stored[key]) for key in keys]
        return [_item(key, stored) for key, stored in found if stored is not None]

    def _odd(self) -> float:
        return 0.1 if self.faults.weather.loads else 0.0

    def _tell(self, what: str, *details: Any) -> None:
        self.trace.tell(self.who, what, *details)


def _key(address: Any) -> Key[Any]:
    return Key(Partition(address["pk"]["S"]), address["sk"]["S"], Record)


def _item(key: Key[Any], stored: Stored) -> Any:
    return {
        "pk": {"S": key.partition},
        "sk": {"S": key.sort},
        "rev": {"N": str(stored.version.revision)},
        "tok": {"S": stored.version.token},
        "body": {"B": stored.body},
    }


def _seen(spelled: Any) -> Version | None:
    values = spelled.get("ExpressionAttributeValues")
    if values is None:
        assert spelled["ConditionExpression"] == "attribute_not_exists(pk)"
        return None
    assert spelled["ConditionExpression"] == "rev = :rev AND tok = :tok"
    return Version(int(values[":rev"]["N"]), Token(values[":tok"]["S"]))


def _put(spelled: Any) -> Put:
    item = spelled["Item"]
    put = Put(_key(item), _seen(spelled), bytes(item["body"]["B"]))
    assert put.revision == int(item["rev"]["N"]), "a put raises the revision it has seen by one"
    return put


def _action(spelled: Any) -> Action:
    ((kind, said),) = spelled.items()
    if kind == "Put":
        return _put(said)
    seen = _seen(said)
    if kind == "ConditionCheck":
        return Check(_key(said["Key"]), seen)
    assert kind == "Delete"
    assert seen is not None, "only what was seen is deleted"
    return Remove(_key(said["Key"]), seen)


def _range(request: Any) -> Range[Any]:
    """Read a key condition: what BETWEEN brings in at its upper end is brought in here, too."""
    values = request["ExpressionAttributeValues"]
    first, last = values.get(":first", {"S": ""})["S"], values[":last"]["S"]
    if ":first" in values:
        last += "\0"
    descending = not request["ScanIndexForward"]
    start = request.get("ExclusiveStartKey")
    if start is not None and descending:
        last = start["sk"]["S"]
    elif start is not None:
        first = start["sk"]["S"] + "\0"
    return Range(Partition(values[":pk"]["S"]), first, last, Record, descending=descending)


def _error(code: str, *, status: int = 400, **more: Any) -> ClientError:
    item = {"Item": more["Item"]} if "Item" in more else {}
    response: Any = {
        "Error": {"Code": code, "Message": code},
        "ResponseMetadata": {"HTTPStatusCode": status},
        **item,
    }
    return ClientError(response, "Simulated")


def _cancelled(reasons: list[Any]) -> NoReturn:
    error: Any = _error("TransactionCanceledException")
    error.response["CancellationReasons"] = reasons
    raise error
