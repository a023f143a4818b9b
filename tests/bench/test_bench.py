from __future__ import annotations

import pytest
from tests.bench.bench import QUICK
from tests.bench.run import CASES, measured


@pytest.mark.bench
@pytest.mark.parametrize("case", CASES)
def test_every_figure_is_a_positive_number(case):
    figures, facts = measured([case], QUICK)

    assert facts["sync_ms"] > 0
    assert figures[case]
    for figure in figures[case]:
        assert figure.measured.low > 0, figure.name
        assert figure.floor is None or figure.floor.low > 0, figure.name
