"""A peer that cannot be had is left out for a reason that is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.bench import archetype, dbos
from tests.bench.bench import QUICK, Bench
from tests.bench.peers import install
from tests.bench.peers.install import Missing


def test_python_that_is_too_new_to_exist_is_missing():
    with pytest.raises(Missing, match=r"no Python 3\.19 or later"):
        asyncio.run(install.python(19))


def test_npm_that_is_not_there_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(Missing, match="npm is not on the path"):
        asyncio.run(install.from_npm("it", "it@1"))


def test_a_package_that_cannot_be_installed_is_a_note_and_no_failure(monkeypatch, tmp_path):
    async def failing(_: str) -> Path:
        raise Missing("`pip` ended with 1: no network")

    monkeypatch.setattr(dbos, "from_pypi", failing)
    bench = Bench(tmp_path, QUICK)

    figures = asyncio.run(dbos.measure(bench))

    assert figures == []
    assert bench.notes == ["dbos==3.4.0 is left out: `pip` ended with 1: no network."]


@pytest.mark.parametrize(
    ("name", "package"), [("dbos", dbos.PACKAGE), ("archetype", archetype.PACKAGE)]
)
def test_what_is_installed_is_the_version_that_is_named(name, package):
    pins = (install.PINS / f"{name}.txt").read_text(encoding="utf-8").splitlines()

    assert package in pins
    assert all("==" in pin for pin in pins)
