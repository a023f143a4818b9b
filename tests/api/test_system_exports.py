"""Exports of Perdure's own job: done once for each job, whoever died before it could say so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.documents import opened

from perdure.api.settings import local
from perdure.api.system_exports import ExportsHere
from perdure.api.system_jobs import EXPORTS_BEGUN_MAX, ExportArgs, ExportState, exported
from perdure.api.wiring import made
from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.content import base
from perdure.kernel.documents.errors import InvalidExport
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.errors import TooLarge
from perdure.kernel.ids import JobId, StorageId
from perdure.runtime.documents.export import silently

pytestmark = pytest.mark.stores


def test_an_export_that_was_whole_before_its_process_died_is_found_again(tmp_path):
    async def run():
        chosen = made(local(tmp_path / "root", app="tests.support.chores:app"))
        async with opened(MemoryStore()) as store:
            await store.commit([note("first")])
            exports = ExportsHere(chosen, None, store.means)
            first = await exports(store.ref, JobId("j"), silently)
            await store.commit([note("second")])
            again = await exports(store.ref, JobId("j"), silently)
            other = await exports(store.ref, JobId("k"), silently)
        return first, again, other

    first, again, other = asyncio.run(run())

    assert again == first
    assert other[0] != first[0]
    assert other[1].counts.told() != first[1].counts.told()


def test_what_lies_there_and_is_no_export_is_told_of_and_stays(tmp_path):
    chosen = made(local(tmp_path / "root", app="tests.support.chores:app"))

    async def run():
        async with opened(MemoryStore()) as store:
            at, _ = await ExportsHere(chosen, None, store.means)(store.ref, JobId("j"), silently)
        return Path(at)

    at = asyncio.run(run())
    at.write_text("{}", encoding="utf-8")

    with pytest.raises(InvalidExport):
        asyncio.run(run())
    assert at.read_text(encoding="utf-8") == "{}"


async def test_an_export_that_no_invocation_ends_is_given_up_with_a_way_out():
    begun = ExportState(begun=EXPORTS_BEGUN_MAX)
    run: Any = SimpleNamespace(args=ExportArgs(store="notes"), state=begun)

    with pytest.raises(TooLarge, match="perdure stores export"):
        await exported(run, StorageId("memory"), None)


def note(key):
    return CreateDocument(Address("notes", "desk", "note", key), "none", base(1, {"key": key}))
