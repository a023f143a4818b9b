"""A declaration of a job says what goes in and comes out, and refuses what no store could keep."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, Json, computed_field, create_model

from perdure.kernel.documents.errors import JobAborted, JobInterrupted, JobThrew, UnknownJob
from perdure.kernel.documents.jobs.value import (
    Aborted,
    Done,
    Failed,
    RestartLimit,
    Threw,
    WireError,
)
from perdure.kernel.errors import (
    Conflict,
    Invalid,
    InvalidId,
    InvalidValue,
    MissingField,
    PerdureError,
    TooLarge,
    WrongType,
)
from perdure.runtime.app import App
from perdure.runtime.documents.jobs.declaration import Job, Shape
from perdure.runtime.documents.jobs.outcomes import error_of, result_of, threw, wire_of

pytestmark = pytest.mark.stores


class Args(BaseModel):
    path: str
    at: dt.date | None = None


class Result(BaseModel):
    count: int


class State(BaseModel):
    read: int = 0


class Odd(Exception):
    code = "odd_path"
    details = {"path": "a"}  # noqa: RUF012  # as somebody else's error may have them


async def works(run):
    return Result(count=0)


def declared(name="notes.import", function=works, **more) -> Job:
    return App("notes").job(name, **{"owner": "notes", "args": Args, "result": Result, **more})(
        function
    )


def test_an_app_knows_its_jobs_by_name():
    app = App("notes")
    job = app.job("notes.import", owner="notes", args=Args, result=Result)(works)

    assert app.job_named("notes.import") is job
    assert app.job_owners() == ("notes",)
    with pytest.raises(UnknownJob, match=r"one of the jobs notes\.import; found 'notes\.export'"):
        app.job_named("notes.export")
    with pytest.raises(ValueError, match="found two"):
        app.job("notes.import", owner="notes", args=Args, result=Result)(works)


def test_a_job_has_one_finish():
    job = declared()

    async def finish(ending): ...

    job.finish(finish)

    assert job.finished is finish
    with pytest.raises(ValueError, match="one finish"):
        job.finish(finish)


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"name": "a b"}, InvalidId),
        ({"owner": "a/b"}, InvalidId),
        ({"version": 0}, Invalid),
        ({"version": True}, Invalid),
        ({"resume": "again"}, Invalid),
        ({"result": bytes}, Invalid),
        ({"result": list[bytes]}, Invalid),
        ({"args": Odd}, Invalid),
        ({"state": Args}, MissingField),
        ({"state": State, "initial": lambda: {"read": "many"}}, Invalid),
        ({"function": lambda run: None}, TypeError),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value.__name__,
)
def test_a_declaration_that_cannot_be_kept_is_refused(wrong, refusal):
    with pytest.raises(refusal):
        declared(**wrong)


def test_a_finish_is_async():
    with pytest.raises(TypeError, match="an async function"):
        declared().finish(lambda ending: None)


def test_a_state_begins_as_its_declaration_says():
    assert declared().first_state() is None
    assert declared(state=State).first_state() == {"read": 0}
    assert declared(state=State, initial=lambda: State(read=4)).first_state() == {"read": 4}


def test_arguments_are_kept_as_json():
    job = declared()

    kept = job.checked_args(Args(path="a", at=dt.date(2026, 1, 2)))

    assert kept == {"path": "a", "at": "2026-01-02"}
    assert job.args.read(kept) == Args(path="a", at=dt.date(2026, 1, 2))


@pytest.mark.parametrize(
    ("given", "refusal"),
    [({}, MissingField), ({"path": 1}, WrongType), ({"path": "x" * 300_000}, TooLarge)],
    ids=["missing", "type", "size"],
)
def test_arguments_of_another_shape_are_refused(given, refusal):
    with pytest.raises(refusal):
        declared().checked_args(given)


# fingerprints


def shaped(of):
    return create_model("Args", path=(of, ...))


def test_a_fingerprint_changes_with_each_shape_and_with_nothing_else():
    class Described(BaseModel):
        """Words that nobody's data depends on."""

        path: str = Field(title="Where", description="What to read.", examples=["a"])
        at: dt.date | None = None

    Described.__name__ = "Args"

    class Titled(BaseModel):
        title: str

    class Untitled(BaseModel):
        name: str

    plain = declared().fingerprint

    assert declared(args=Described).fingerprint == plain
    assert declared(version=2).fingerprint == plain
    others = [
        declared(args=shaped(str)),
        declared(args=shaped(int)),
        declared(result=State),
        declared(state=State),
        declared(args=Titled),
        declared(args=Untitled),
    ]
    assert len({plain, *(each.fingerprint for each in others)}) == 7


# what is kept is read again


class Aliased(BaseModel):
    count: int = Field(default=0, alias="howMany")
    twice: Json[int] = "0"

    @computed_field
    @property
    def more(self) -> int:
        return self.count + 1


class Anything(BaseModel):
    model_config = ConfigDict(extra="forbid")

    said: Any = None


def test_a_value_is_kept_under_the_names_that_it_is_read_by():
    shape = Shape(Aliased, "state")
    kept = shape.spelled(Aliased(howMany=3, twice="6"))

    assert kept == {"howMany": 3, "twice": "6"}
    assert shape.read(kept) == Aliased(howMany=3, twice="6")


def test_half_of_a_pair_and_depth_are_read_as_they_are_kept():
    shape, deep = Shape(Anything, "state"), [[]]
    for _ in range(220):
        deep = [deep]

    for said in ("\ud800", deep):
        assert shape.read(shape.spelled(Anything(said=said))) == Anything(said=said)


def test_what_is_too_deep_for_json_is_refused():
    deep = []
    for _ in range(5_000):
        deep = [deep]

    with pytest.raises(InvalidValue, match="not too deep"):
        Shape(Anything, "args").spelled({"said": deep})


# errors, stored and raised again


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Trapped(Exception):
    """An error whose own code fails wherever it is looked at."""

    @property
    def code(self):
        raise RuntimeError("no code")

    @property
    def details(self):
        raise RuntimeError("no details")


class Exiting(Exception):
    def __str__(self):
        raise SystemExit


class Unwound(dict):
    def items(self):
        raise RuntimeError("no items")


class Bare(Conflict):
    def __init__(self):
        Exception.__init__(self, "bare")


class Cutless(str):
    __slots__ = ()

    def __getitem__(self, _):
        raise RuntimeError("not to be cut")


@pytest.mark.parametrize(
    ("error", "wire"),
    [
        (Trapped("no"), WireError("trapped", "no")),
        (Exiting(), WireError("exiting", "Exiting")),
        (Bare(), WireError("bare", "bare")),
        (Conflict(expected=5, found=b"x"), WireError("conflict", "Expected 5; found b'x'.")),
    ],
    ids=["attributes_fail", "text_exits", "without_halves", "halves_of_no_text"],
)
def test_an_error_that_cannot_be_looked_at_is_stored_all_the_same(error, wire):
    assert wire_of(error) == wire


def test_details_and_codes_that_fail_are_left_out():
    unwound, cutless = ValueError("no"), ValueError("no")
    unwound.details = Unwound(a=1)
    cutless.code = Cutless("odd")

    assert wire_of(unwound) == WireError("value_error", "no")
    assert wire_of(cutless) == WireError("value_error", "ValueError")


@pytest.mark.parametrize(
    ("error", "wire"),
    [
        (
            Conflict(expected="one", found="two"),
            WireError("conflict", "Expected one; found two.", {"expected": "one", "found": "two"}),
        ),
        (ValueError("no"), WireError("value_error", "no")),
        (Odd("no"), WireError("odd_path", "no", {"path": "a"})),
        (Unprintable(), WireError("unprintable", "Unprintable")),
        (ValueError("x" * 5_000), WireError("value_error", "x" * 2_000)),
    ],
    ids=["ours", "theirs", "with_details", "unprintable", "long"],
)
def test_an_error_is_stored_as_its_code_its_text_and_its_details(error, wire):
    assert wire_of(error) == wire
    assert threw(error) == Failed(Threw(wire))


def test_details_are_as_a_store_gives_them_back():
    error = ValueError("no")
    error.details = ("a", {1: "b"})

    assert wire_of(error).details == ["a", {"1": "b"}]


def test_details_that_no_store_keeps_are_left_out():
    for details in ({1, 2}, "x" * 5_000, float("nan")):
        error = ValueError("no")
        error.details = details
        assert wire_of(error).details is None


def test_an_error_of_ours_is_raised_again_as_what_it_was():
    found = error_of(wire_of(Conflict(expected="one", found="two")))

    assert (type(found), found.expected, found.found) == (Conflict, "one", "two")


def test_an_error_of_others_is_raised_again_with_all_that_was_kept():
    wire = WireError("odd_path", "no", {"path": "a"})

    found = error_of(wire)

    assert isinstance(found, JobThrew)
    assert found.error == wire
    assert "odd_path: no" in str(found)
    assert wire_of(found) == wire


@pytest.mark.parametrize(
    ("outcome", "refusal"),
    [
        (Failed(Threw(WireError("odd", "no"))), JobThrew),
        (Failed(Aborted("enough")), JobAborted),
        (Failed(RestartLimit(5)), JobInterrupted),
    ],
    ids=["threw", "aborted", "restart_limit"],
)
def test_an_outcome_is_its_result_or_its_error(outcome, refusal):
    assert result_of(Done({"count": 1})) == {"count": 1}
    with pytest.raises(refusal) as raised:
        result_of(outcome)
    assert isinstance(raised.value, PerdureError)
