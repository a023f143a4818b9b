"""Reports keep what was measured: ratios, budgets, JSON, and the page around the table."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest
from tests.bench.figures import Budget, Figure, Sample, in_turn
from tests.bench.machine_use import Use
from tests.bench.report import BEGIN, END, spelled, write_docs
from tests.bench.run import CASES, PEERS, Measured, chosen

AT = datetime(2013, 1, 1, tzinfo=UTC)
FACTS = {
    "cpus": 2,
    "cpu": "a processor",
    "system": "Linux",
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
QUIET = Use(seconds=3.0, load_before=0.1, load_after=0.9, others_cpus=0.05)


def test_ratio_is_taken_round_by_round():
    figure = Figure("it", "ms", Sample((10.0, 90.0, 20.0)), Sample((5.0, 30.0, 20.0)))

    assert figure.ratio == Sample((2.0, 3.0, 1.0))


@pytest.mark.parametrize(("figure", "is_met"), [(SLOW, False), (FAST, True)])
def test_budget_is_judged_by_the_median(figure, is_met):
    assert figure.is_met is is_met


def test_what_is_measured_first_in_one_round_is_measured_last_in_the_next():
    order = []

    def timed(name):
        async def run():
            order.append(name)
            return float(len(order))

        return run

    ours, floor = asyncio.run(in_turn(3, timed("ours"), timed("floor"), warm_up=False))

    assert order == ["ours", "floor", "floor", "ours", "ours", "floor"]
    assert (ours.values, floor.values) == ((1.0, 4.0, 5.0), (2.0, 3.0, 6.0))


def test_figure_without_a_budget_is_not_judged():
    assert Figure("it", "ms", Sample((1.0,))).is_met is None


def test_report_is_json():
    values = spelled({"case": Measured([SLOW])}, FACTS, command="it", scale="full", at=AT)

    (figure,) = json.loads(json.dumps(values))["cases"]["case"]
    assert (figure["median"], figure["ratio"]["median"], figure["is_met"]) == (40.0, 4.0, False)


def test_page_keeps_what_stands_around_the_figures(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"above\n{BEGIN}\n{END}\nbelow\n", encoding="utf-8")

    for _ in range(2):
        write_docs(
            page, {"case": Measured([SLOW, FAST], ("A note.",), QUIET)}, FACTS, command="it", at=AT
        )

    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"above\n{BEGIN}\n")
    assert text.endswith(f"{END}\nbelow\n")
    assert (
        text.count("| ticks | ms | 40 | 30 … 50 | 10 | 4.00 [3.00 … 5.00] | ≤ 2 times | no |") == 1
    )
    assert "\n- Floor: less.\n- A note.\n- Took 3 s, load 0.10 before and 0.90 after," in text


def test_page_keeps_the_sections_of_cases_that_were_not_measured(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")

    for case, command in (("month", "first"), ("admission", "second"), ("month", "third")):
        write_docs(page, {case: Measured([SLOW])}, FACTS, command=command, at=AT)

    text = page.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("### ")] == [
        "### admission",
        "### month",
    ]
    assert [command in text for command in ("`first`", "`second`", "`third`")] == [
        False,
        True,
        True,
    ]


def test_page_keeps_text_between_its_markers_that_belongs_to_no_case(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\nwritten first\n{END}\n", encoding="utf-8")
    kept = ("written first", "written later", "<!-- case: history -->\nwithout its end")

    write_docs(page, {"month": Measured([SLOW])}, FACTS, command="first", at=AT)
    written = page.read_text(encoding="utf-8").replace(
        END, f"written later\n\n<!-- case: history -->\nwithout its end\n{END}"
    )
    page.write_text(written, encoding="utf-8")
    for command in ("second", "third"):
        cases = {"admission": Measured([FAST]), "month": Measured([SLOW])}
        write_docs(page, cases, FACTS, command=command, at=AT)

    text = page.read_text(encoding="utf-8")
    assert [text.count(each) for each in kept] == [1, 1, 1]
    assert [text.count(f"### {case}\n") for case in ("admission", "month")] == [1, 1]
    assert [text.count(f"`{command}`") for command in ("first", "second", "third")] == [0, 0, 2]


@pytest.mark.parametrize(("others_cpus", "is_told"), [(0.05, False), (1.5, True), (None, False)])
def test_figures_of_a_busy_machine_are_told_as_such(others_cpus, is_told):
    use = Use(seconds=3.0, load_before=0.1, load_after=0.9, others_cpus=others_cpus)

    assert ("busy machine" in str(use)) is use.is_busy is is_told


@pytest.mark.parametrize(
    ("only", "skip", "peers", "expected"),
    [
        ((), (), False, set(CASES) - PEERS),
        ((), (), True, set(CASES)),
        ((), ("month",), False, set(CASES) - PEERS - {"month"}),
        (("month",), (), False, {"month"}),
        (("dbos",), (), False, {"dbos"}),
        (("month", "http"), ("http",), True, {"month"}),
    ],
)
def test_a_run_is_all_cases_or_those_asked_for(only, skip, peers, expected):
    assert set(chosen(only, skip, peers=peers)) == expected


def test_page_without_markers_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing here\n", encoding="utf-8")

    with pytest.raises(ValueError, match="markers"):
        write_docs(page, {}, FACTS, command="it", at=AT)

    assert page.read_text(encoding="utf-8") == "nothing here\n"
