"""The command line: worlds in a local directory, or behind the address of a deployment.

The commands that belong to a floor above, the emulator's and the example's, are named here and
imported by nobody below.
"""

from __future__ import annotations

import sys
from typing import Final, NoReturn

import click

from perdure.cli.client import Answered
from perdure.cli.lazy import Lazy
from perdure.kernel.errors import PerdureError, Unavailable

REFUSED: Final = 1
UNAVAILABLE: Final = 3

COMMANDS: Final = {
    "dev": ("perdure_emulator.dev:dev", "Run every function on loopback, without any cloud."),
    "token": ("perdure_emulator.token:token", "Print a token that `perdure dev` accepts."),
    "demo": ("airspace.demo:main", "Replay one real day of air traffic."),
    "worlds": ("perdure.cli.worlds:worlds", "List the worlds of a storage."),
    "world": (
        "perdure.cli.worlds:world",
        "Create a world, show one, fork it, resume it, or destroy it.",
    ),
    "submit": ("perdure.cli.commands:submit", "Submit commands from a file."),
    "command": ("perdure.cli.commands:command", "Show or cancel a command."),
    "tick": ("perdure.cli.ticks:tick", "Let a world advance."),
    "processors": (
        "perdure.cli.capabilities:processors",
        "List, add or remove the processors of a world.",
    ),
    "hooks": ("perdure.cli.capabilities:hooks", "List, add or remove the hooks of a world."),
    "resources": (
        "perdure.cli.capabilities:resources",
        "List, add or remove the resources of a world.",
    ),
    "query": ("perdure.cli.rows:query", "Read the rows of a world."),
    "log": ("perdure.cli.worlds:log", "Read the log of a world."),
    "history": ("perdure.cli.consumers:history", "Read what happened in a world."),
    "consumers": ("perdure.cli.consumers:consumers", "See who reads a world's log."),
    "session": ("perdure.cli.sessions:session", "Talk with the agents of an application."),
    "jobs": ("perdure.cli.jobs:jobs", "Start, see and end the jobs of a document store."),
    "stores": ("perdure.cli.stores:stores", "Keep documents and rows in document stores."),
    "verify": ("perdure.cli.verify:verify", "Verify the whole record of a world."),
    "doctor": ("perdure.cli.doctor:doctor", "Check an installation, and say what to do."),
    "migrate": ("perdure.cli.migrate:migrate", "Move a whole storage to another place."),
    "land": ("perdure.cli.ticks:land", "Copy what is published into the Iceberg tables."),
}

HELP: Final = """Durable worlds on serverless infrastructure.

Every command takes --root DIR, a storage on this machine that needs no server, or --url URL,
and --json. Exit codes: 0 done, 1 refused, 2 used wrongly, 3 unavailable.
"""

perdure = Lazy(name="perdure", help=HELP, commands=COMMANDS)


def main() -> NoReturn:
    """Run the command that the arguments name, and end with its exit code."""
    try:
        perdure.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _tell(error.format_message())
        sys.exit(error.exit_code)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _tell("interrupted; nothing that was accepted is lost")
        sys.exit(130)
    except Answered as error:
        _tell(str(error), *getattr(error, "__notes__", ()))
        sys.exit(UNAVAILABLE if error.may_pass else REFUSED)
    except PerdureError as error:
        _tell(f"{error.code}: {error}")
        sys.exit(UNAVAILABLE if isinstance(error, Unavailable) else REFUSED)
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        sys.stderr.close()
        sys.exit(0)
    sys.exit(0)


def _tell(*parts: str) -> None:
    """Say in one line on standard error what may have come in many."""
    lines = [line.strip() for part in parts for line in part.splitlines()]
    click.echo(f"perdure: {' '.join(filter(None, lines))}", err=True)


if __name__ == "__main__":
    main()
