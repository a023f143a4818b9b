"""Every step, one death: the day ends as if nobody had died."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.proof.account import wrong
from tests.proof.day import ACTS, CORE, Told, small_limits
from tests.proof.deaths import killed
from tests.proof.ground import FileGround, PaperGround
from tests.proof.ground_cloud import CloudGround
from tests.proof.matrix import Matrix, begun, lived, played, rehearsed, resumed
from tests.support.steps import Steps

from perdure.lake.catalog import open_local

pytestmark = pytest.mark.proof


@pytest.fixture(autouse=True)
def few_are_many():
    with small_limits():
        yield


def placed(tmp_path, ground):
    root = tmp_path / "ground"
    root.mkdir()
    return ground(root)


def steps_of(matrix: Matrix) -> Counter[str]:
    """Count the steps of all acts by kind."""
    return sum(matrix.steps.values(), Counter())


def test_whoever_dies_at_any_step_of_admission_tick_and_landing_the_day_ends_the_same(tmp_path):
    """A death before a step leaves what a death after the step before it leaves."""
    ground = placed(tmp_path, PaperGround)

    matrix = played(ground, tmp_path, acts=CORE, whens=("after", "lost"))

    assert matrix.differing == []
    assert steps_of(matrix).keys() == {"commit", "put", "create table", "commit table"}
    assert len(matrix.deaths) > 100


@pytest.mark.slow
def test_whoever_dies_at_any_step_of_anything_the_day_ends_the_same(tmp_path):
    ground = placed(tmp_path, PaperGround)

    matrix = played(ground, tmp_path)

    assert matrix.differing == []
    assert matrix.steps.keys() == ACTS.keys()
    assert len(matrix.deaths) > 600


@pytest.mark.slow
def test_kill_9_at_any_step_of_anything_the_day_ends_the_same(tmp_path):
    ground = placed(tmp_path, FileGround)

    matrix = played(ground, tmp_path, whens=("before", "after"), dying=killed)

    assert matrix.differing == []
    assert matrix.steps.keys() == ACTS.keys()


@pytest.mark.slow
@pytest.mark.cloud
@pytest.mark.xdist_group("ministack")
def test_whoever_dies_at_any_step_in_the_cloud_the_day_ends_the_same(aws, tmp_path):
    ground = placed(tmp_path, lambda root: CloudGround(root, aws))

    matrix = played(ground, tmp_path, acts=CORE)

    assert matrix.differing == []
    assert steps_of(matrix).keys() == {"commit", "put", "create table", "commit table"}


@pytest.mark.parametrize(
    "what",
    ["day: findings", "moved: day: findings", "events told twice", "open landings"],
)
def test_a_day_on_which_nobody_died_is_held_to_what_must_be_empty(what):
    right = {"worlds": ["day"], what: []}

    assert wrong(right) == []
    assert wrong({**right, what: ["one"]}) == [f"{what}: ['one']"]


def test_a_matrix_tells_of_events_that_came_into_the_table_twice(tmp_path):
    *_, scene = rehearsed(placed(tmp_path, PaperGround), tmp_path, "landing")
    again = begun(scene, tmp_path / "again")
    asyncio.run(lived(again, ("landing",), Told(), Steps()))
    catalog = open_local(again.root)
    audit = catalog.load_table("main.audit")
    audit.append(audit.scan().to_arrow())
    catalog.close()

    differs = resumed(again, scene)

    assert [each.partition(":")[0] for each in differs] == ["events told twice", "table audit"]
