"""Durable's `Storage` on a document store, for those who have `pi-durable-python`."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import contextmanager
from typing import Any, Self

from pi_durable.errors import StorageRequestError

from perdure.kernel.documents.errors import HistoryNotKept, UnknownConversation
from perdure.kernel.errors import Invalid, PerdureError
from perdure.runtime.documents.conversations import ConversationStorage
from perdure.runtime.documents.store import OpenStore


class PiStorage:
    """What a Durable Session commits to and reads from.

    A request that asks for what cannot be is a StorageRequestError of Durable's, which fails that
    read alone; every other error ends the Session, as Durable has it.
    """

    def __init__(self, storage: ConversationStorage) -> None:
        self.storage = storage

    @classmethod
    async def open(cls, store: OpenStore, owner: str = "pi", *, lease_ms: int = 0) -> Self:
        """Open Durable's storage on a store, as :meth:`ConversationStorage.open` does.

        A Session that another process has opened since is refused its next commit, and fails.
        """
        return cls(await ConversationStorage.open(store, owner, lease_ms=lease_ms))

    async def commit(self, writes: Sequence[Any], context: Any) -> Any:
        return await self.storage.commit(writes)

    async def mint_id(self) -> int:
        return self.storage.mint()

    async def conversation(self, id: Any, context: Any) -> Any:
        with _requests():
            return await self.storage.conversation(id)

    async def scan_conversations(self, query: Any, limit: int, cursor: Any, context: Any) -> Any:
        with _requests():
            return await self.storage.scan_conversations(query, limit, cursor)

    async def entry(self, *args: Any) -> Any:
        with _requests():
            if len(args) == 2:
                return await self.storage.entry(args[0])
            conversation, id, _ = args
            if type(id) is not int:
                raise StorageRequestError("Storage.entry() requires an entry ID")
            return await self.storage.visible_entry(conversation, id)

    async def find_latest_head_marker(
        self, conversation_id: Any, at_or_before_entry_id: Any, context: Any
    ) -> Any:
        with _requests():
            return await self.storage.latest_head(conversation_id, at_or_before_entry_id)

    async def scan_entries(self, query: Any, limit: int, cursor: Any, context: Any) -> Any:
        with _requests():
            return await self.storage.scan_entries(query, limit, cursor)

    async def task(self, id: Any, context: Any) -> Any:
        with _requests():
            return await self.storage.task(id)

    async def scan_tasks(self, query: Any, limit: int, cursor: Any, context: Any) -> Any:
        with _requests():
            return await self.storage.scan_tasks(query, limit, cursor)

    async def submission(self, id: Any, context: Any) -> Any:
        with _requests():
            return await self.storage.submission(id)

    async def scan_submissions(self, query: Any, limit: int, cursor: Any, context: Any) -> Any:
        with _requests():
            return await self.storage.scan_submissions(query, limit, cursor)

    async def submission_by_request(
        self, conversation_id: Any, request_id: str, context: Any
    ) -> Any:
        with _requests():
            return await self.storage.submission_by_request(conversation_id, request_id)

    async def find_document(self, address: Any, at: Any, context: Any) -> Any:
        with _requests():
            return await self.storage.find_document(address, _point(at))

    async def document(self, id: Any, at: Any, context: Any) -> Any:
        with _requests():
            return await self.storage.document(id, _point(at))

    async def scan_documents(self, query: Any, limit: int, cursor: Any, context: Any) -> Any:
        with _requests():
            return await self.storage.scan_documents(
                query["scope"], limit, cursor, at=_point(query["at"]), kind=query.get("kind")
            )

    def close(self, context: Any) -> Awaitable[None]:
        return self.storage.close()


def _point(at: Any) -> Any:
    return None if at == "current" else at


@contextmanager
def _requests() -> Any:
    """Tell Durable of a request that asks for what cannot be as of one."""
    try:
        yield
    except (Invalid, UnknownConversation, HistoryNotKept) as error:
        raise StorageRequestError(said(error)) from error


def said(error: PerdureError) -> str:
    """Spell an error for Durable."""
    return f"{error.code}: {error}"
