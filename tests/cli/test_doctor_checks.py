"""Checks of the doctor by themselves: what is judged how, and how long anybody waits for it."""

from __future__ import annotations

import re
import threading
import time
from email.utils import formatdate

import pytest
from tests.house.sources import ROOT

from perdure.api.checkup import Check, fail, ok, run_checks
from perdure.api.checkup_clock import SKEW_MS_FAIL, compared
from perdure.api.checkup_local import sqlite_finding
from perdure.api.checkup_worlds import LAG_MAX, OVERDUE_MS_MAX, Seen, judged
from perdure.api.wiring_lake import LEASE_MS_CLOUD
from perdure.cli.doctor import CHECKS
from perdure.cli.doctor_versions import package_findings, python_findings
from perdure.kernel.errors import StoreRefused, StoreUnavailable
from perdure.kernel.ids import Instant

pytestmark = pytest.mark.cloud

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    ("off_ms", "level"),
    [
        (0, "ok"),
        (4_000, "ok"),
        (-4_000, "ok"),
        (8_000, "warn"),
        (-8_000, "warn"),
        (SKEW_MS_FAIL + 3_000, "fail"),
        (-SKEW_MS_FAIL - 3_000, "fail"),
    ],
)
def test_clock_that_is_off_is_judged_by_how_far(off_ms, level):
    moment = 1_796_000_000
    now = moment * 1_000 - off_ms

    found = compared(
        formatdate(moment, usegmt=True), began_ms=now, ended_ms=now + 10, who="somebody"
    )

    assert found.level == level
    if level != "ok":
        assert ("behind" if off_ms > 0 else "ahead") in found.found


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_clock_without_a_date_is_not_compared(date):
    assert compared(date, began_ms=0, ended_ms=0, who="somebody").level == "skip"


def test_clock_fails_where_a_lease_of_the_cloud_would_be_misread():
    assert SKEW_MS_FAIL == LEASE_MS_CLOUD


def test_python_sqlite_and_packages_out_of_range_are_told():
    (python,) = python_findings(">=3.11", "3.10.2")
    old, absent = package_findings(["click>=99", "no-such-thing>=1", "nor-this; extra == 'x'"])

    assert (python.level, python.found) == ("fail", "Python 3.10.2, not >=3.11")
    assert old.remedy == "pip install 'click>=99'"
    assert absent.found == "no-such-thing is not installed"
    assert sqlite_finding((3, 36, 0)).level == "fail"


def world(world_id, **more):
    usual = {"status": "active", "stalled": False, "writer_mode": "resumable"}
    return {"world_id": world_id, "fence_held_until": None, **usual, **more}


def test_worlds_that_wait_for_somebody_are_one_line_a_kind():
    now = Instant(10**12)
    private = {"writer_mode": "cleanup_only"}
    seen = Seen(
        worlds=[
            world("stuck", stalled=True),
            world("ended", stalled=True, status="destroyed"),
            world("left", **private, fence_held_until=now - 1),
            world("kept", **private, fence_held_until=now + 1),
            *(world(f"slow-{number}") for number in range(7)),
        ],
        lags={"kept": LAG_MAX, **{f"slow-{number}": LAG_MAX + 1 for number in range(7)}},
        due_at={"kept": now - OVERDUE_MS_MAX, "stuck": now - OVERDUE_MS_MAX - 1},
        asked=11,
    )

    stalled, overdue, abandoned, lagging = judged(seen, now)

    assert stalled.found == "1 worlds stalled: stuck"
    assert overdue.found == "1 worlds overdue: stuck"
    assert abandoned.found == "1 worlds private and abandoned: left"
    assert lagging.found.endswith("slow-0, slow-1, slow-2, slow-3, slow-4 and 2 more")
    assert all(each.level == "warn" and each.remedy for each in (stalled, overdue, lagging))


def test_check_that_hangs_fails_in_its_time_and_holds_nobody_up():
    began, over = time.monotonic(), threading.Event()

    hung, well, waiting = run_checks(
        [
            Check("hung", lambda: [ok(f"{over.wait(120)}")], "wake it", seconds=0.2),
            Check("well", lambda: [ok("fine")], "-"),
            Check("waiting", lambda: [ok("fine")], "-", after=("hung",)),
        ]
    )

    over.set()
    assert time.monotonic() - began < 60
    assert (hung.level, hung.remedy, hung.may_pass) == ("fail", "wake it", True)
    assert (well.level, waiting.level) == ("ok", "skip")


def test_check_that_breaks_is_a_failure_without_secrets_in_one_line():
    def breaks():
        raise RuntimeError(f"no\nway with {SECRET}")

    (found,) = run_checks([Check("odd", breaks, "mend it")], secrets=[SECRET, "no"])

    assert found.found == "RuntimeError: no way with [hidden]"
    assert found.remedy == "mend it"


def test_finding_that_is_not_well_has_a_remedy():
    with pytest.raises(AssertionError):
        fail("broken", "")


def test_every_check_has_its_section_in_the_guide():
    page = (ROOT / "docs" / "operations" / "doctor.md").read_text(encoding="utf-8")

    assert tuple(re.findall(r"^### `(.+)`$", page, re.MULTILINE)) == CHECKS


def test_every_check_of_the_code_is_in_the_list():
    named = set()
    for path in (ROOT / "shared" / "perdure").rglob("*.py"):
        if "checkup" in path.name or "doctor" in path.name:
            text = path.read_text(encoding="utf-8")
            named |= set(re.findall(r'\b(?:Check|_check|asked)\(\s*"([\w-]+)"', text))
            named |= {f"{of}-write" for of in re.findall(r'\bwritten\("(\w+)"', text)}

    assert named == set(CHECKS)


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (StoreRefused(expected="permission to use the table", found="AccessDenied: arn:…"), False),
        (StoreUnavailable(expected="an answer", found="none"), True),
    ],
)
def test_store_that_refuses_a_check_has_to_be_mended_and_is_quoted(error, may_pass):
    def refused():
        raise error

    (found,) = run_checks([Check("floor", refused, "install another version")])

    assert (found.level, found.may_pass) == ("fail", may_pass)
    assert error.found in found.found
    assert ("permission" in found.remedy) == (not may_pass)
