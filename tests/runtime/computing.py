"""A small app and a small state, and how the tests of compute run one on the other."""

from __future__ import annotations

import asyncio

import pyarrow.compute as pc
from tests.lake.worldlings import MODELS, REGISTRY, spawn

from perdure.lake.staging import Staging
from perdure.lake.state import EMPTY
from perdure.runtime.app import App
from perdure.runtime.compute import TickFacts, compute

FACTS = TickFacts("w", "run", 7, 1_000)


def small_app():
    app = App()
    for model in MODELS:
        app.component(model)
    return app


def small_state():
    return applied(
        EMPTY,
        spawn(1, 2, Position={"x": 1.0, "y": 0.0}, Velocity={"dx": 0.5}),
        spawn(2, 1, Position={"x": 2.0, "y": 0.0}, Velocity={"dx": 0.25}),
        spawn(
            3,
            3,
            Position={"x": 3.0, "y": 0.0},
            Velocity={"dx": 1.0},
            Label={"text": None, "rank": 1, "is_new": False},
        ),
        spawn(4, 4, Position={"x": 4.0, "y": 0.0}),
    )


def applied(state, *commands):
    staging = Staging(state, REGISTRY)
    assert len(staging.apply(commands).applied) == len(commands)
    return staging.state()


def ran(app, state, facts=FACTS, **options):
    return asyncio.run(compute(state, app.processors(), app.registry, facts, **options))


def put(rows, column, values):
    return rows.set_column(rows.schema.get_field_index(column), column, values)


def drift(rows, tick):
    return put(rows, "position__x", pc.add(rows["position__x"], rows["velocity__dx"]))
