"""Installing peers: into a directory of this clone, once, with versions that are named."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

HOME = Path(__file__).parents[3] / ".bench-peers"
"""Beside the environments of this clone, and as little part of it as they are."""

PINS = Path(__file__).parent
DONE = "installed"
MINOR_MAX = 20


class Missing(Exception):
    """A peer cannot be had here: why, in one line."""


async def from_npm(name: str, *packages: str) -> Path:
    """Return the directory of a peer from npm; no script of a package is run. Raises Missing."""
    if shutil.which("npm") is None:
        raise Missing("npm is not on the path")
    home = HOME / name
    if not _is_there(home, packages):
        home.mkdir(parents=True, exist_ok=True)
        options = ("--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(home))
        await _ran("npm", "install", *options, *packages)
        _note(home, packages)
    return home


async def from_pypi(name: str, *, minor_min: int = 11) -> Path:
    """Return the Python of a peer's own environment, pinned by a file here. Raises Missing."""
    home, pins = HOME / name, PINS / f"{name}.txt"
    packages = pins.read_text(encoding="utf-8").splitlines()
    if not _is_there(home, packages):
        shutil.rmtree(home, ignore_errors=True)
        home.parent.mkdir(parents=True, exist_ok=True)
        await _ran(await python(minor_min), "-m", "venv", str(home))
        await _ran(str(home / "bin" / "pip"), "install", "--quiet", "--no-deps", "-r", str(pins))
        _note(home, packages)
    return home / "bin" / "python"


async def python(minor_min: int) -> str:
    """Return a Python 3 that is new enough, on the path or of pyenv. Raises Missing."""
    for each in _pythons(minor_min):
        try:
            await _ran(each, "-c", "import venv")  # a shim of pyenv may lead nowhere
        except Missing:
            continue
        return each
    raise Missing(f"no Python 3.{minor_min} or later was found")


def _pythons(minor_min: int) -> list[str]:
    minors = range(minor_min, MINOR_MAX)
    pyenv = Path("~/.pyenv/versions").expanduser()
    named = [shutil.which(f"python3.{minor}") for minor in minors]
    held = [str(each) for minor in minors for each in pyenv.glob(f"3.{minor}.*/bin/python3")]
    return [each for each in (*named, *held) if each is not None]


def _is_there(home: Path, packages: Sequence[str]) -> bool:
    done = home / DONE
    return done.exists() and done.read_text(encoding="utf-8") == "\n".join(packages)


def _note(home: Path, packages: Sequence[str]) -> None:
    (home / DONE).write_text("\n".join(packages), encoding="utf-8")


async def _ran(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    told, _ = await process.communicate()
    if process.returncode != 0:
        lines = told.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise Missing(f"`{command[0]}` ended with {process.returncode}: {lines[-1][:200]}")
