"""`perdure jobs …`: start the jobs of a document store, see where they stand, and end them."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any, Final, Protocol, runtime_checkable

import click

from perdure.cli import show
from perdure.cli.client import Client, Place, jobs_path, placed
from perdure.cli.durations import DURATION
from perdure.cli.told import moment

COLUMNS = ("name", "job_id", "phase", "restarts", "abort", "blocked", "key")
MOMENTS = ("created_at", "due_at", "ended_at", "held_until")

LOOK_SECONDS: Final = 1.0
"""Between two looks at a job that goes on elsewhere."""

WORK_SECONDS: Final = 60.0
"""What a job gets in one piece where it runs here."""

LEAST_MS: Final = 10_000
"""No job is begun with less time left: it must be stopped in order, and say so."""

RESTS: Final = ("ended", "blocked")
"""Phases in which nothing more happens by itself."""


OWNER: Final = click.option("--owner", help="Whose it is, if the application knows it no more.")


@runtime_checkable
class Works(Protocol):
    """A client that goes on with jobs itself."""

    def work_off(self, seconds: float) -> list[dict[str, Any]]:
        """Go on with the jobs that are due, for so long; return what was come to."""
        ...


@click.group()
def jobs() -> None:
    """Start the jobs of a document store, see where they stand, and end them."""


@jobs.command()
@click.argument("store_id", metavar="STORE")
@click.argument("name")
@click.option("--args", "args", default="{}", help="What it is started with, a JSON object.")
@click.option("--job-id", help="Id of the job: the same again changes nothing.")
@click.option("--key", help="What it is about, for who looks for it.")
@click.option("--in", "in_ms", type=DURATION, help="Begin only in so long, as 10m.")
@click.option("--watch", is_flag=True, help="Look on until it rests; of --root, do it here.")
@placed
def start(  # noqa: PLR0913  # one for each option
    store_id: str,
    name: str,
    place: Place,
    *,
    args: str,
    job_id: str | None,
    in_ms: int | None,
    key: str | None,
    watch: bool,
    as_json: bool,
) -> None:
    """Start the job NAME in STORE; Perdure's own are in the store perdure.system."""
    # Drawn here: whatever is sent again on the way, it is started once.
    job_id = job_id or uuid.uuid4().hex
    body: dict[str, Any] = {"name": name, "args": _object(args), "job_id": job_id, "key": key}
    if in_ms is not None:
        body["due_at"] = time.time_ns() // 1_000_000 + in_ms
    with place.client(make=True) as client:
        told = client.ask("POST", jobs_path(store_id), body=body)
        if watch:
            told = _watched(client, store_id, name, job_id, is_quiet=as_json)
    _told(told, as_json=as_json)


@jobs.command(name="list")
@click.argument("store_id", metavar="STORE")
@click.option("--name", help="Only jobs of this name.")
@click.option("--owner", help="Only jobs of this owner.")
@click.option("--phase", help="Only jobs in this phase; without it, those that have not ended.")
@placed
def list_jobs(store_id: str, place: Place, *, as_json: bool, **wanted: str | None) -> None:
    """List the jobs of STORE."""
    found: list[dict[str, Any]] = []
    following: str | None = None
    with place.client() as client:
        while True:
            page = client.ask("GET", jobs_path(store_id), query={**wanted, "next": following})
            found += page["jobs"]
            following = page.get("next")
            if following is None:
                break
    if as_json:
        show.as_json({"jobs": found})
    else:
        show.table(found, COLUMNS, empty="no jobs")


@jobs.command(name="show")
@click.argument("store_id", metavar="STORE")
@click.argument("name")
@click.argument("job_id", metavar="JOB")
@click.option("--watch", is_flag=True, help="Look on until it rests.")
@OWNER
@placed
def show_job(  # one for each option
    store_id: str,
    name: str,
    job_id: str,
    place: Place,
    *,
    watch: bool,
    owner: str | None,
    as_json: bool,
) -> None:
    """Tell where the job NAME JOB of STORE stands, or what it came to."""
    with place.client() as client:
        if watch:
            told = _watched(client, store_id, name, job_id, is_quiet=as_json, owner=owner)
        else:
            path = jobs_path(store_id, name, job_id)
            told = client.ask("GET", path, query={"owner": owner})
    _told(told, as_json=as_json)


@jobs.command()
@click.argument("store_id", metavar="STORE")
@click.argument("name")
@click.argument("job_id", metavar="JOB")
@click.option("--reason", default="aborted", help="Why.")
@OWNER
@placed
def abort(  # one for each option
    store_id: str,
    name: str,
    job_id: str,
    place: Place,
    *,
    reason: str,
    owner: str | None,
    as_json: bool,
) -> None:
    """Ask for the end of the job NAME JOB of STORE."""
    path = f"{jobs_path(store_id, name, job_id)}/abort"
    with place.client() as client:
        told = client.ask("POST", path, body={"reason": reason, "owner": owner})
    _told(told, as_json=as_json)


@jobs.command()
@click.argument("store_id", metavar="STORE")
@click.argument("name")
@click.argument("job_id", metavar="JOB")
@placed
def retry(store_id: str, name: str, job_id: str, place: Place, *, as_json: bool) -> None:
    """Let the blocked job NAME JOB of STORE go on where it was."""
    with place.client() as client:
        told = client.ask("POST", f"{jobs_path(store_id, name, job_id)}/retry")
    _told(told, as_json=as_json)


def _enough(_: click.Context, __: click.Parameter, ms: int) -> int:
    if ms < LEAST_MS:
        raise click.BadParameter(
            f"{ms} ms: no job is begun that has less than {LEAST_MS // 1_000}s to be stopped in"
        )
    return ms


@jobs.command()
@click.option(
    "--for",
    "ms",
    type=DURATION,
    default="60s",
    callback=_enough,
    help="Stop after so long, as 10m.",
)
@placed
def run(place: Place, *, ms: int, as_json: bool) -> None:
    """Go on here with every job of a local storage that is due."""
    with place.client() as client:
        if not isinstance(client, Works):
            raise click.UsageError("a deployment goes on with its jobs by itself; --root is needed")
        done = client.work_off(ms / 1_000)
    if as_json:
        show.as_json({"jobs": done})
    else:
        show.table(done, ("store", "job", "state"), empty="no job is due")


def _watched(
    client: Client,
    store_id: str,
    name: str,
    job_id: str,
    *,
    is_quiet: bool,
    owner: str | None = None,
) -> dict[str, Any]:
    """Look on at a job, or go on with it where it is here, until it rests."""
    path, before = jobs_path(store_id, name, job_id), None
    while True:
        if isinstance(client, Works):
            client.work_off(WORK_SECONDS)
        told: dict[str, Any] = client.ask("GET", path, query={"owner": owner})
        seen = (told["phase"], told["state"])
        if seen != before and not is_quiet:
            click.echo(f"{told['phase']} {json.dumps(told['state'], ensure_ascii=False)}")
        before = seen
        if told["phase"] in RESTS:
            return told
        time.sleep(LOOK_SECONDS)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"no JSON: {error}", param_hint="--args") from error
    if not isinstance(found, dict):
        raise click.BadParameter("must be a JSON object", param_hint="--args")
    return found


def _told(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show.as_json(told)
    else:
        spelled = {name: moment(told[name]) for name in MOMENTS if told.get(name) is not None}
        show.facts({**told, **spelled})
