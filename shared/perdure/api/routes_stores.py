"""Routes of document stores: begin one, commit to it, read its documents, its rows and its log."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from perdure.api import models_stores as models
from perdure.api.decoding import cursor, keyed, resumed, strict_json
from perdure.api.gateway import Answer, Request
from perdure.api.invocation import current
from perdure.api.models import Paging
from perdure.api.ports_stores import StorePorts
from perdure.api.routing import Route, route
from perdure.kernel.canonical import canonical
from perdure.kernel.documents.content import Loaded
from perdure.kernel.documents.create import DocumentStoreInfo
from perdure.kernel.documents.places import SAFE_INTEGER_MAX, Address
from perdure.kernel.documents.records import Document, Logged, Row
from perdure.kernel.documents.tables import StoredTable, Table
from perdure.kernel.errors import InvalidId, WrongType
from perdure.kernel.shown import shown
from perdure.runtime.documents.stores import RowsAsked

ONE: Final = "/v1/stores/<store>"
TABLE: Final = f"{ONE}/tables/<table>"


@route("POST", "/v1/stores", operation="create_store", reply=models.Store, status=201)
async def create_store(
    ports: StorePorts, body: models.CreateStore, request: Request
) -> dict[str, Any]:
    """Begin a document store. The same id again changes nothing."""
    return _info(await ports.stores.create(body.store_id, by=request.by))


@route("GET", "/v1/stores", operation="discover_stores", reply=models.Stores)
async def list_stores(ports: StorePorts, query: Paging) -> dict[str, Any]:
    """List the document stores of the storage, by id."""
    behind = resumed(query.next, scope="stores")
    found, more = await ports.stores.discover(behind, query.limit)
    page: dict[str, Any] = {"stores": [_info(each) for each in found]}
    return page if more is None else {**page, "next": cursor("stores", more)}


@route("GET", ONE, operation="get_store", reply=models.Store)
async def describe_store(ports: StorePorts, store: str) -> dict[str, Any]:
    """Tell what is known of one document store."""
    return _info(await ports.stores.describe(store))


@route(
    "POST",
    f"{ONE}/commits",
    operation="commit_to_store",
    reply=models.Committed,
    status=201,
    key="optional",
)
async def commit_to_store(
    ports: StorePorts, store: str, body: models.Commits, request: Request
) -> dict[str, Any]:
    """Apply writes as one commit, all or none, at most once by its commit id."""
    chosen = keyed(request.headers, body.commit_id, field="commit_id")
    if chosen is None:
        # Drawn here, so that it can be told also by an answer that comes before the store's.
        chosen = current().commit_id = ports.stores.drawn_commit_id()
    done = await ports.stores.commit(store, body.writes, commit_id=chosen, by=request.by)
    return {
        "commit_id": chosen,
        "seq": done.seq,
        "ids": list(done.ids),
        "replayed": done.replayed,
    }


@route("GET", f"{ONE}/tables", operation="read_rows", reply=models.Tables)
async def list_tables(ports: StorePorts, store: str) -> dict[str, Any]:
    """List the tables of a document store, by name."""
    return {"tables": [_table(each) for each in await ports.stores.tables(store)]}


@route("PUT", TABLE, operation="declare_table", reply=models.Table)
async def declare_table(
    ports: StorePorts, store: str, table: str, body: models.DeclareTable, request: Request
) -> dict[str, Any]:
    """Make a table, called by its owner and a name with a colon between, if it is not there."""
    owner, mark, name = table.partition(":")
    if not mark:
        raise InvalidId(expected="a table's name as owner:name", found=shown(table))
    indexes = {name: tuple(columns) for name, columns in body.indexes.items()}
    declared = Table(owner, name, body.columns, tuple(body.key), indexes, body.version)
    await ports.stores.declare(store, declared, by=request.by)
    return {
        "table": table,
        "version": body.version,
        "columns": body.columns,
        "key": body.key,
        "indexes": body.indexes,
    }


@route("GET", f"{TABLE}/rows", operation="read_rows", reply=models.Rows)
async def read_rows(ports: StorePorts, store: str, table: str, query: models.ListRows) -> Answer:
    """List rows in the order of their keys, or those of an index that hold certain values."""
    asked = RowsAsked(
        table,
        _listed(query.values, "values"),
        index=query.index,
        order=query.order,
        limit=query.limit,
        cursor=query.next,
    )
    found, more = await ports.stores.rows(store, asked)
    page: dict[str, Any] = {"rows": [_row(each) for each in found]}
    return _spelled(page if more is None else {**page, "next": more})


@route("GET", f"{TABLE}/row", operation="read_rows", reply=models.Row)
async def read_row(ports: StorePorts, store: str, table: str, query: models.OneRow) -> Answer:
    """Read the row under a key."""
    return _spelled(_row(await ports.stores.row(store, table, _listed(query.key, "key"))))


@route("GET", f"{ONE}/documents", operation="read_documents", reply=models.Documents)
async def list_documents(ports: StorePorts, store: str, query: models.ListDocuments) -> Answer:
    """List the documents of a namespace that live, or lived at a commit, without their contents."""
    found, more = await ports.stores.documents(
        store,
        query.owner,
        query.namespace,
        kind=query.kind,
        at=query.at,
        limit=query.limit,
        cursor=query.next,
    )
    page: dict[str, Any] = {"documents": [_record(each) for each in found]}
    return _spelled(page if more is None else {**page, "next": more})


@route("GET", f"{ONE}/documents/<document>", operation="read_documents", reply=models.Document)
async def read_document(ports: StorePorts, store: str, document: str, query: models.At) -> Answer:
    """Read what a document says, or what it said at a commit."""
    return _loaded(await ports.stores.document(store, _number(document), query.at))


@route("GET", f"{ONE}/lookup", operation="read_documents", reply=models.Document)
async def lookup_document(ports: StorePorts, store: str, query: models.Lookup) -> Answer:
    """Read what the document at an address says, or what it said at a commit."""
    address = Address(query.owner, query.namespace, query.kind, query.key)
    return _loaded(await ports.stores.lookup(store, address, query.at))


@route("GET", f"{ONE}/log", operation="read_store_log", reply=models.StoreLogPage)
async def read_store_log(ports: StorePorts, store: str, query: models.StoreLog) -> Answer:
    """Read the commits behind ``after``, each as it was applied."""
    page = await ports.stores.log(
        store, after=query.after, limit=query.limit, lineage=query.lineage
    )
    # Byte by byte as they lie there: a digest is of these.
    entries = b",".join(_logged(each) for each in page.entries)
    head = page.head
    told = b'{"entries":[%s],"lineage":%s,"log_from":%d,"next":%d,"seq":%d}' % (
        entries,
        canonical(head.lineage),
        head.log_from,
        page.end.seq,
        head.seq,
    )
    return Answer(200, told)


def _info(info: DocumentStoreInfo) -> dict[str, Any]:
    held = [{"owner": each.owner, "epoch": each.epoch, "until": each.until} for each in info.held]
    return {**asdict(info), "held": held}


def _table(table: StoredTable) -> dict[str, Any]:
    return {
        "table": table.name,
        "version": table.version,
        "columns": table.columns,
        "key": table.key_columns,
        "indexes": table.indexes,
        "moving_to": table.moving_to,
    }


def _record(document: Document) -> dict[str, Any]:
    return {
        "document_id": document.id,
        "owner": document.owner,
        "namespace": document.namespace,
        "kind": document.kind,
        "key": document.member,
        "history": document.history,
        "version": document.version,
        "revision": document.revision,
        "meta": document.meta,
        "created_at": document.created_at,
        "changed_at": document.last,
        "retired_at": document.retired_at,
    }


def _loaded(loaded: Loaded) -> Answer:
    return _spelled(
        {
            "document": _record(loaded.document),
            "version": loaded.version,
            "value": loaded.value,
            "deltas": loaded.deltas,
        }
    )


def _row(row: Row) -> dict[str, Any]:
    return {"key": list(row.row_key), "version": row.version, "row": row.value}


def _logged(entry: Logged) -> bytes:
    body = entry.body()
    return b'{"digest":"%s",%s' % (entry.digest.encode(), body[1:])


def _spelled(told: dict[str, Any]) -> Answer:
    # Values may hold the lone half of a pair, which UTF-8 cannot: canonical JSON is ASCII.
    return Answer(200, canonical(told))


def _listed(text: str, name: str) -> list[Any]:
    """Read a JSON list out of a query. Raises InvalidJson, WrongType."""
    found = strict_json(text.encode(errors="surrogatepass"))
    if not isinstance(found, list):
        raise WrongType(expected=f"query.{name}: a JSON list", found=shown(found))
    return found


def _number(document: str) -> int:
    """Read the id of a document. Raises InvalidId."""
    if not (document.isascii() and document.isdecimal() and len(document) <= 16):
        raise InvalidId(expected="the id of a document, a number", found=shown(document))
    if not 1 <= int(document) <= SAFE_INTEGER_MAX:
        raise InvalidId(expected=f"an id of 1 to {SAFE_INTEGER_MAX}", found=shown(document))
    return int(document)


ROUTES: Final[tuple[Route[Any], ...]] = (
    create_store,
    list_stores,
    describe_store,
    commit_to_store,
    list_tables,
    declare_table,
    read_rows,
    read_row,
    list_documents,
    read_document,
    lookup_document,
    read_store_log,
)
