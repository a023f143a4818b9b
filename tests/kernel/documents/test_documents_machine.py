"""Random lives of documents, told twice: by a store, and by a model that is a dictionary."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.models.documents import DocumentsModel, No, Wish
from tests.support.document_wishes import batches, everything, staged, told_by, told_by_model
from tests.support.documents import opened

from perdure.authority.memory import MemoryStore
from perdure.authority.sqlite import SqliteStore
from perdure.authority.store import Store
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.errors import PerdureError

pytestmark = pytest.mark.stores


def outcome_of(model: DocumentsModel, batch: list[Wish]) -> list[int] | str:
    """Return the ids that a batch gives in a model, or the code it is refused with."""
    try:
        return model.commit(batch)
    except No as no:
        return str(no)


class Lives(RuleBasedStateMachine):
    """Batches as they come: both tellings must agree on every reading at every commit."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = DocumentsModel()
        self.context = opened(self.runner.run(self.records()))
        self.store = self.runner.run(self.context.__aenter__())

    async def records(self) -> Store:
        return MemoryStore()

    def teardown(self) -> None:
        self.runner.run(self.context.__aexit__(None, None, None))
        self.runner.close()

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        batch = data.draw(batches(self.model))
        before = self.records_as_bytes()
        expected = outcome_of(self.model, batch)

        found = self.runner.run(self.outcome([staged(each) for each in batch]))

        assert found == expected
        if isinstance(expected, str):
            assert self.records_as_bytes() == before
            return
        everybody = sorted({*self.model.ids, 99})
        told = self.runner.run(told_by(self.store, everybody))
        assert told == told_by_model(self.model, everybody)

    async def outcome(self, batch: list[StagedWrite]) -> list[int] | str:
        try:
            return list((await self.store.commit(batch)).ids)
        except PerdureError as error:
            return error.code

    def records_as_bytes(self) -> dict[str, bytes]:
        return self.runner.run(self.store.read(everything(self.store.ref.partition)))


class LivesInAFile(Lives):
    """The same in SQLite."""

    async def records(self) -> Store:
        self.folder = tempfile.TemporaryDirectory()
        return await SqliteStore.open(Path(self.folder.name) / "store.db")

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


def settings_for(examples: int, steps: int) -> settings:
    return settings(
        phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to make one smaller takes minutes
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


class TestLives(Lives.TestCase):
    settings = settings_for(10, 12)


class TestLivesInAFile(LivesInAFile.TestCase):
    settings = settings_for(4, 8)


@pytest.mark.slow
class TestManyLives(Lives.TestCase):
    settings = settings_for(400, 30)


@pytest.mark.slow
class TestManyLivesInAFile(LivesInAFile.TestCase):
    settings = settings_for(40, 20)
