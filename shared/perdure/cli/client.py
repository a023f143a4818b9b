"""The client: one way to ask, whether the functions run in this process or behind an address."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote

import click

from perdure.cli.lazy import loaded
from perdure.kernel.errors import Refused, Unavailable, kinds_of
from perdure.kernel.ids import checked_id

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

PATIENCE_SECONDS: Final = 75
"""How long a request is repeated that may succeed later: longer than a dead writer's lease."""

Query = Mapping[str, str | int | None]


class Client(Protocol):
    """Asks the HTTP interface."""

    rows_per_page: int

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        key: str | None = None,
    ) -> Any:
        """Return the JSON of a good answer. ``key`` is the Idempotency-Key.

        Asks again for a while what may succeed later. Raises Answered.
        """
        ...

    def close(self) -> None: ...


class Answered(Exception):
    """A problem that was answered: its code, what was told, and whether asking later may help.

    ``status`` is the HTTP status, if there is one. It decides only for codes that are not ours.
    """

    def __init__(self, problem: Mapping[str, Any], *, status: int | None = None) -> None:
        super().__init__(f"{problem['code']}: {problem['detail']}")
        self.code = str(problem["code"])
        foreign = status is None or status >= 500 or status == HTTPStatus.TOO_MANY_REQUESTS
        self.may_pass = _MAY_PASS.get(self.code, foreign)


_MAY_PASS: Final[Mapping[str, bool]] = {
    Refused.code: False,
    Unavailable.code: True,
    **{kind.code: False for kind in kinds_of(Refused)},
    **{kind.code: True for kind in kinds_of(Unavailable)},
}


def patiently(send: Callable[[], R], pause_of: Callable[[R], str | None]) -> R:
    """Send until the answer names no pause after which to ask again, or patience ends."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        answer = send()
        pause = pause_of(answer)
        if pause is None or time.monotonic() + float(pause) > until:
            return answer
        time.sleep(float(pause))


def path_of(world: str, *more: str) -> str:
    """Return the path of a world, or of something in it. Raises InvalidId."""
    return _path("worlds", checked_id(world, what="a world id"), *more)


def session_path(session: str, *more: str) -> str:
    """Return the path of a session, or of something in it. Raises InvalidId."""
    return _path("sessions", checked_id(session, what="a session id"), *more)


def jobs_path(store: str, *one: str) -> str:
    """Return the path of the jobs of a document store, or of one of them by name and id.

    Raises InvalidId.
    """
    return _path("stores", checked_id(store, what="a document store's id"), "jobs", *one)


def store_path(store: str, *more: str) -> str:
    """Return the path of a document store, or of something in it. Raises InvalidId."""
    return _path("stores", checked_id(store, what="a document store's id"), *more)


def _path(kind: str, named: str, *more: str) -> str:
    checked = [checked_id(each, what="an id") for each in more[1:]]
    parts = ["v1", kind, named, *more[:1], *checked]
    return "".join(f"/{quote(part, safe='')}" for part in parts)


class Place:
    """Where to ask, as the options say."""

    def __init__(
        self, root: Path | None, url: str | None, app: str | None, token: str | None
    ) -> None:
        self.root = root
        self.url = url
        self.app = app
        self.token = None if token is None else token.strip()

    @contextmanager
    def client(self, *, make: bool = False) -> Iterator[Client]:
        """Connect. With ``make`` a local storage that is not there yet is made."""
        if (self.root is None) == (self.url is None):
            raise click.UsageError("one of --root and --url is needed")
        # By name: a local storage needs no HTTP client, and an address no storage.
        client: Client = (
            loaded("perdure.cli.remote:Remote")(self.url, token=self.token)
            if self.root is None
            else loaded("perdure.cli.embedded:Embedded")(self.root, app=self.app, make=make)
        )
        try:
            yield client
        finally:
            client.close()


_OPTIONS: Final = (
    click.option(
        "--root",
        type=click.Path(path_type=Path, file_okay=False),
        help="Directory of a storage on this machine.",
    ),
    click.option("--url", help="Address of a deployment or of `perdure dev`."),
    click.option(
        "--token",
        envvar="PERDURE_TOKEN",
        help="Who asks of --url; better in the environment, as PERDURE_TOKEN.",
    ),
    click.option("--app", help="Application of a local storage, as module:attribute."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)


def placed(command: F) -> F:
    """Give a command the options that say where to ask, as ``place``, and ``as_json``."""

    def run(  # the options, by their names
        *args: Any,
        root: Path | None,
        url: str | None,
        app: str | None,
        token: str | None,
        **options: Any,
    ) -> Any:
        return command(*args, place=Place(root, url, app, token), **options)

    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    for option in reversed(_OPTIONS):
        run = option(run)
    return run  # type: ignore[return-value]  # click sees the options, callers the function
