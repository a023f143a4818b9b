"""Measurements still run: every case comes to positive figures, however small they are."""

from __future__ import annotations

import pytest
from tests.bench.bench import QUICK
from tests.bench.run import CASES, PEERS, measured


@pytest.mark.bench
@pytest.mark.parametrize("case", [name for name in CASES if name not in PEERS])
def test_every_figure_is_a_positive_number(case):
    cases, facts = measured([case], QUICK)

    assert facts["sync_ms"] > 0
    assert cases[case].figures
    for figure in cases[case].figures:
        assert figure.measured.low > 0, figure.name
        assert figure.floor is None or figure.floor.low > 0, figure.name
