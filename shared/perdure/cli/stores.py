"""`perdure stores …`: document stores, their documents, their rows and their log."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

import click

from perdure.cli import exports, show
from perdure.cli.client import Answered, Client, Place, Query, placed, store_path
from perdure.cli.told import moment

STORES: Final = ("store_id", "seq", "next_id", "log_from", "created_at")
DOCUMENTS: Final = ("document_id", "kind", "key", "history", "revision", "created_at", "changed_at")

DOCUMENT_IS: Final = """\
DOCUMENT is an id, or owner/namespace/kind or owner/namespace/kind/key; a slash within a part is
%2F."""


@click.group()
def stores() -> None:
    """Keep documents and rows in document stores."""


for _each in exports.COMMANDS:
    stores.add_command(_each)


@stores.command()
@click.argument("store_id", metavar="[STORE]", required=False)
@placed
def create(store_id: str | None, place: Place, *, as_json: bool) -> None:
    """Begin a document store; its id is drawn if not given."""
    body = {} if store_id is None else {"store_id": store_id}
    with place.client(make=True) as client:
        told(client.ask("POST", "/v1/stores", body=body), as_json=as_json)


@stores.command(name="list")
@placed
def list_stores(place: Place, *, as_json: bool) -> None:
    """List the document stores of a storage."""
    with place.client() as client:
        found = list(paged(client, "/v1/stores", "stores", {}, limit=1_000))
    if as_json:
        show.as_json({"stores": found})
    else:
        spelled = [{**each, "created_at": moment(each["created_at"])} for each in found]
        show.table(spelled, STORES, empty="no document stores")


@stores.command(name="show")
@click.argument("store_id", metavar="STORE")
@placed
def show_store(store_id: str, place: Place, *, as_json: bool) -> None:
    """Tell what is known of STORE, and which tables it has."""
    with place.client() as client:
        info = client.ask("GET", store_path(store_id))
        tables = client.ask("GET", store_path(store_id, "tables"))["tables"]
    told({**info, "tables": tables if as_json else _named(tables)}, as_json=as_json)


@stores.command(
    help=f"Let DOCUMENT of STORE say VALUE, JSON (- is standard input).\n\n{DOCUMENT_IS}"
)
@click.argument("store_id", metavar="STORE")
@click.argument("document")
@click.argument("value")
@click.option("--history", default="latest", show_default=True, help="none, latest or rewindable.")
@click.option("--version", type=click.IntRange(1), default=1, help="Version of its definition.")
@click.option("--commit-id", help="Id of the commit: the same again changes nothing.")
@placed
def put(
    store_id: str,
    document: str,
    value: str,
    place: Place,
    *,
    commit_id: str | None,
    as_json: bool,
    **said: Any,
) -> None:
    """Make a document, or give it its next content if nobody has since it was read."""
    content = {"value": _json_of(value), "version": said["version"]}
    with place.client() as client:
        known = _known(client, store_id, document)
        if known is not None:
            write = {"write": "document.change", "id": known["document_id"], **content}
            write["revision"] = known["revision"]
        else:
            write = {"write": "document.create", **address_of(document), **content}
            write["history"] = said["history"]
        told(committed(client, store_id, [write], commit_id), as_json=as_json)


@stores.command(help=f"Print what DOCUMENT of STORE says.\n\n{DOCUMENT_IS}")
@click.argument("store_id", metavar="STORE")
@click.argument("document")
@click.option("--at", type=click.IntRange(0), help="As of the end of this commit; else now.")
@placed
def get(store_id: str, document: str, place: Place, *, at: int | None, as_json: bool) -> None:
    """Print what a document says."""
    with place.client() as client:
        found = read(client, store_id, document, at)
    show.as_json(found if as_json else found["value"])


@stores.command(help=f"List the commits that have written DOCUMENT of STORE.\n\n{DOCUMENT_IS}")
@click.argument("store_id", metavar="STORE")
@click.argument("document")
@placed
def history(store_id: str, document: str, place: Place, *, as_json: bool) -> None:
    """List the commits that have written a document, as far as the log goes back."""
    with place.client() as client:
        if document.isdecimal():
            id = int(document)
        else:
            id = read(client, store_id, document)["document"]["document_id"]
        found = [
            {"seq": entry["seq"], "at": entry["at"], "did": did["w"].removeprefix("document.")}
            | {"content": did.get("content", {}).get("kind")}
            for entry in logged(client, store_id, client.ask("GET", store_path(store_id)))
            for did in entry["writes"]
            if did["w"].startswith("document.") and did["id"] == id
        ]
    if as_json:
        show.as_json({"document_id": id, "commits": found})
    else:
        spelled = [{**each, "at": moment(each["at"])} for each in found]
        show.table(spelled, ("seq", "at", "did", "content"), empty="nothing in the log")


@stores.command()
@click.argument("store_id", metavar="STORE")
@click.argument("owner")
@click.argument("namespace")
@click.option("--kind", help="Those of one kind.")
@click.option("--at", type=click.IntRange(0), help="As of the end of this commit; else now.")
@placed
def documents(
    store_id: str,
    owner: str,
    namespace: str,
    place: Place,
    *,
    kind: str | None,
    at: int | None,
    as_json: bool,
) -> None:
    """List the documents that live in NAMESPACE of OWNER."""
    query = {"owner": owner, "namespace": namespace, "kind": kind, "at": at}
    with place.client() as client:
        path = store_path(store_id, "documents")
        found = list(paged(client, path, "documents", query, limit=1_000))
    if as_json:
        show.as_json({"documents": found})
    else:
        show.table(found, DOCUMENTS, empty="no documents")


@stores.command()
@click.argument("store_id", metavar="STORE")
@click.argument("file", type=click.File("rb"))
@click.option("--commit-id", help="Id of the commit: the same again changes nothing.")
@placed
def commit(store_id: str, file: Any, place: Place, *, commit_id: str | None, as_json: bool) -> None:
    """Apply the writes in FILE, a JSON list (- is standard input), all or none."""
    writes = _json_of(file.read())
    with place.client() as client:
        told(committed(client, store_id, writes, commit_id), as_json=as_json)


@stores.command()
@click.argument("store_id", metavar="STORE")
@click.argument("table", metavar="OWNER:TABLE")
@click.argument("file", type=click.File("rb"))
@placed
def declare(store_id: str, table: str, file: Any, place: Place, *, as_json: bool) -> None:
    """Make OWNER:TABLE as FILE has it, JSON with columns, key, indexes and version."""
    body = _json_of(file.read())
    with place.client() as client:
        reply = client.ask("PUT", store_path(store_id, "tables", table), body=body)
    told(reply, as_json=as_json)


@stores.command()
@click.argument("store_id", metavar="STORE")
@click.argument("table", metavar="OWNER:TABLE")
@click.option("--index", help="Rows of this index, by the values of all its columns.")
@click.option("--values", default="[]", help="JSON list: what key or index begins with.")
@click.option("--descending", is_flag=True, help="The last row first.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True)
@placed
def rows(
    store_id: str,
    table: str,
    place: Place,
    *,
    descending: bool,
    limit: int,
    as_json: bool,
    **said: str | None,
) -> None:
    """List rows of OWNER:TABLE in the order of their keys."""
    query = {**said, "order": "descending" if descending else None}
    with place.client() as client:
        path = store_path(store_id, "tables", table, "rows")
        found = list(paged(client, path, "rows", query, limit=min(limit, 1_000), most=limit))
    if as_json:
        show.as_json({"rows": found})
        return
    shown = [each["row"] for each in found]
    columns = sorted({name for each in shown for name in each})
    show.table(shown, columns, empty="no rows")


@stores.command()
@click.argument("store_id", metavar="STORE")
@click.option("--after", type=click.IntRange(0), default=0, help="Begin behind this commit.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@click.option("--lineage", help="History that was read before; another is refused.")
@placed
def log(
    store_id: str, place: Place, *, after: int, limit: int, lineage: str | None, as_json: bool
) -> None:
    """Read the commits of STORE as they were applied."""
    query = {"after": after, "limit": limit, "lineage": lineage}
    with place.client() as client:
        page = client.ask("GET", store_path(store_id, "log"), query=query)
    if as_json:
        show.as_json(page)
        return
    spelled = [
        {"seq": each["seq"], "at": moment(each["at"]), "writes": each["writes"]}
        for each in page["entries"]
    ]
    show.table(spelled, ("seq", "at", "writes"), empty="nothing behind that")


def told(info: dict[str, Any], *, as_json: bool) -> None:
    """Print what was answered."""
    if as_json:
        show.as_json(info)
    else:
        made = info.get("created_at")
        show.facts(info if made is None else {**info, "created_at": moment(made)})


def committed(
    client: Client, store_id: str, writes: Any, commit_id: str | None = None
) -> dict[str, Any]:
    """Commit writes. Whatever is sent again on the way, they happen once."""
    body = {"commit_id": commit_id or uuid.uuid4().hex, "writes": writes}
    reply: dict[str, Any] = client.ask("POST", store_path(store_id, "commits"), body=body)
    return reply


def read(client: Client, store_id: str, document: str, at: int | None = None) -> dict[str, Any]:
    """Return a document by its id, or by its address."""
    if document.isdecimal():
        path, query = store_path(store_id, "documents", document), {}
    else:
        path, query = store_path(store_id, "lookup"), address_of(document)
    found: dict[str, Any] = client.ask("GET", path, query={**query, "at": at})
    return found


def address_of(document: str) -> dict[str, Any]:
    """Return the parts of an address. Raises UsageError."""
    parts = [unquote(part) for part in document.split("/")]
    if len(parts) not in (3, 4):
        raise click.UsageError(f"a document is an id or owner/namespace/kind[/key], not {document}")
    return dict(zip(("owner", "namespace", "kind", "key"), parts, strict=False))


def paged(
    client: Client, path: str, name: str, query: Query, *, limit: int, most: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield what a listing has, page by page, at most so many."""
    left, following = most, None
    while left is None or left > 0:
        page = client.ask("GET", path, query={**query, "limit": limit, "next": following})
        yield from page[name][:left]
        left = None if left is None else left - len(page[name])
        following = page.get("next")
        if following is None:
            return


def logged(client: Client, store_id: str, info: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the commits that a log still has, up to the last of ``info``."""
    after = info["log_from"] - 1
    while after < info["seq"]:
        query = {"after": after, "lineage": info["lineage"]}
        page = client.ask("GET", store_path(store_id, "log"), query=query)
        yield from page["entries"]
        after = page["next"]


def _known(client: Client, store_id: str, document: str) -> dict[str, Any] | None:
    """Return the record of a document that may not be there yet."""
    try:
        found: dict[str, Any] = read(client, store_id, document)["document"]
    except Answered as answered:
        if answered.code == "unknown_document" and not document.isdecimal():
            return None
        raise
    return found


def _named(tables: list[dict[str, Any]]) -> list[str]:
    return [f"{each['table']} (version {each['version']})" for each in tables]


def _json_of(text: str | bytes) -> Any:
    """Read JSON that somebody wrote. Raises UsageError."""
    try:
        return json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise click.UsageError(f"that is not JSON: {error}") from None
