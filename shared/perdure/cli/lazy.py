"""Commands by name: a module is imported when its command is called, so that help is quick."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class Lazy(click.Group):
    """A group whose commands are named as ``module:attribute``, with the help shown for each."""

    def __init__(self, *, commands: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(**settings)
        self._named = commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._named)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        named = self._named.get(cmd_name)
        if named is None:
            return None
        command: click.Command = loaded(named[0])
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self._named.items()])


def loaded(reference: str) -> Any:
    """Import what ``module:attribute`` names."""
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)
