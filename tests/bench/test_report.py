from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from tests.bench.figures import Budget, Figure, Sample
from tests.bench.report import BEGIN, END, spelled, write_docs

AT = datetime(2013, 1, 1, tzinfo=UTC)
FACTS = {
    "cpus": 2,
    "cpu": "a processor",
    "system": "Linux",
    "load_before": [0.1],
    "python": "3.11",
    "sqlite": "3.40",
    "sync_ms": 0.1,
    "commit": "abc",
}
SLOW = Figure(
    "ticks", "ms", Sample((30.0, 40.0, 50.0)), Sample((10.0, 10.0, 10.0)), "less", Budget(2)
)
FAST = Figure(
    "commands", "commands/s", Sample((9.0,)), budget=Budget(5, of="figure", at_least=True)
)


def test_ratio_is_taken_round_by_round():
    figure = Figure("it", "ms", Sample((10.0, 90.0, 20.0)), Sample((5.0, 30.0, 20.0)))

    assert figure.ratio == Sample((2.0, 3.0, 1.0))


@pytest.mark.parametrize(("figure", "is_met"), [(SLOW, False), (FAST, True)])
def test_budget_is_judged_by_the_median(figure, is_met):
    assert figure.is_met is is_met


def test_figure_without_a_budget_is_not_judged():
    assert Figure("it", "ms", Sample((1.0,))).is_met is None


def test_report_is_json():
    values = spelled({"case": [SLOW]}, FACTS, command="it", scale="full", at=AT)

    (figure,) = json.loads(json.dumps(values))["cases"]["case"]
    assert (figure["median"], figure["ratio"]["median"], figure["is_met"]) == (40.0, 4.0, False)


def test_page_keeps_what_stands_around_the_figures(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"above\n{BEGIN}\nold figures\n{END}\nbelow\n", encoding="utf-8")

    for _ in range(2):
        write_docs(page, {"case": [SLOW, FAST]}, FACTS, command="it", at=AT)

    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"above\n{BEGIN}\n")
    assert text.endswith(f"{END}\nbelow\n")
    assert "old figures" not in text
    assert (
        text.count("| ticks | ms | 40 | 30 … 50 | 10 | 4.00 [3.00 … 5.00] | ≤ 2 times | no |") == 1
    )


def test_page_without_markers_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing here\n", encoding="utf-8")

    with pytest.raises(ValueError, match="markers"):
        write_docs(page, {}, FACTS, command="it", at=AT)

    assert page.read_text(encoding="utf-8") == "nothing here\n"
