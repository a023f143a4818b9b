"""Declaration of a job: its name, the shapes of what goes in and comes out, and its functions."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, get_args

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from perdure.kernel.canonical import canonical, digest
from perdure.kernel.documents.jobs.value import Resume, check_value
from perdure.kernel.documents.tables import checked_name
from perdure.kernel.errors import Invalid, InvalidValue, fault
from perdure.kernel.shown import path_shown, shown, text_of

if TYPE_CHECKING:
    from perdure.kernel.documents.step import StagedWrite
    from perdure.runtime.documents.jobs.finish import JobFinish
    from perdure.runtime.documents.jobs.run import JobRun

Function = Callable[["JobRun"], Awaitable[Any]]
Finish = Callable[["JobFinish"], Awaitable["Sequence[StagedWrite] | None"]]
CheckpointWhen = Callable[[Any, Sequence[Any], int], bool]
"""Says of a state, of the operations that led to it and of the deltas since its last base whether
it is written as a base. It is asked once for each change."""

FunctionT = TypeVar("FunctionT", bound=Function)
FinishT = TypeVar("FinishT", bound=Finish)

DELTAS_MAX: Final = 32
"""Deltas after which a state is written whole, unless its declaration says when."""

_RESUMES: Final = get_args(Resume)
_REMARKS: Final = frozenset({"title", "description", "examples", "deprecated"})
_NAMED: Final = frozenset({"properties", "$defs", "patternProperties", "dependentSchemas"})


def after_deltas(_value: Any, _ops: Sequence[Any], deltas: int) -> bool:
    """Say that a state is written whole after every DELTAS_MAX deltas."""
    return deltas >= DELTAS_MAX


class Shape:
    """What a job takes, keeps or comes to, as pydantic knows it; JSON outside of functions."""

    def __init__(self, of: Any, what: str) -> None:
        self._what = what
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(of)
            self.schema = _bare(self._adapter.json_schema(mode="serialization"))
        except PydanticUserError as error:
            raise Invalid(expected=f"{what} of JSON", found=str(error).splitlines()[0]) from error
        if _holds_bytes(self.schema):
            raise Invalid(expected=f"{what} of JSON alone", found="bytes")

    def spelled(self, value: Any) -> Any:
        """Return the JSON of a value, checked. Raises InvalidValue kinds."""
        try:
            checked = self._adapter.validate_python(value)
            # Under the names, and of the fields, that it is read again by.
            return self._adapter.dump_python(checked, mode="json", by_alias=True, round_trip=True)
        except ValidationError as error:
            raise self._fault(error) from error
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            raise InvalidValue(
                expected=f"{self._what} of JSON, not too deep", found=text_of(error)
            ) from error

    def _fault(self, error: ValidationError) -> InvalidValue:
        first = error.errors(include_url=False, include_context=False)[0]
        where = path_shown((self._what, *first["loc"]))
        return fault(first["type"], where, first["msg"], shown(first["input"]))

    def read(self, told: Any) -> Any:
        """Return the value that some JSON spells. Raises InvalidValue kinds."""
        try:
            return self._parsed(told)
        except ValidationError as error:
            raise self._fault(error) from error

    def _parsed(self, told: Any) -> Any:
        try:
            return self._adapter.validate_json(canonical(told))
        except ValidationError as error:
            if error.errors(include_url=False)[0]["type"] != "json_invalid":
                raise
        # Half of a pair, or a depth, that pydantic's reader of JSON does not take.
        return self._adapter.validate_python(told)


class JobOptions(TypedDict, total=False):
    """What a declaration says beside name, owner and the shapes of arguments and result."""

    version: int
    state: Any
    """Shape of its state; None for a job without one."""

    initial: Callable[[], Any]
    """Makes the state that a job begins with; without it, the state's own defaults are that."""

    checkpoint_when: CheckpointWhen
    resume: Resume


@dataclass(kw_only=True, eq=False)
class Job:
    """A declared job. Its functions are registered with it, and called where it is run."""

    name: str
    owner: str
    args: Shape
    result: Shape
    function: Function
    version: int = 1
    state: Shape | None = None
    initial: Callable[[], Any] | None = None
    checkpoint_when: CheckpointWhen = after_deltas
    resume: Resume = "rerun"
    finished: Finish | None = None
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        checked_name(self.name, what="a job's name")
        checked_name(self.owner, what="an owner")
        if type(self.version) is not int or self.version < 1:
            raise Invalid(expected="a version of 1 or more", found=shown(self.version))
        if self.resume not in _RESUMES:
            raise Invalid(expected=f"resume of {', '.join(_RESUMES)}", found=shown(self.resume))
        _check_awaitable(self.function, self.name)
        self.first_state()
        state = None if self.state is None else self.state.schema
        schemas = (self.args.schema, self.result.schema, state)
        self.fingerprint = digest("perdure.job.shape.v1", *map(canonical, schemas))

    def finish(self, function: FinishT) -> FinishT:
        """Register what is called with a job's outcome: a decorator.

        It may return staged writes, which are committed with the job's end. What it does beside
        that may be done again: it is called until it has succeeded once.
        """
        if self.finished is not None:
            raise ValueError(f"Expected one finish of job {self.name!r}; found two.")
        _check_awaitable(function, self.name)
        self.finished = function
        return function

    def first_state(self) -> Any:
        """Return the JSON of the state that a job begins with. Raises InvalidValue kinds."""
        if self.state is None:
            return None
        return self.state.spelled({} if self.initial is None else self.initial())

    def checked_args(self, given: Any) -> Any:
        """Return the JSON of arguments. Raises InvalidValue kinds, TooLarge."""
        spelled = self.args.spelled(given)
        check_value(spelled, "a job's arguments")
        return spelled


def declared(
    name: str, function: Function, *, owner: str, args: Any, result: Any, options: JobOptions
) -> Job:
    """Return the job that an application declares so. Raises Invalid kinds, TypeError."""
    state = options.get("state")
    return Job(
        name=name,
        owner=owner,
        args=Shape(args, "args"),
        result=Shape(result, "result"),
        function=function,
        version=options.get("version", 1),
        state=None if state is None else Shape(state, "state"),
        initial=options.get("initial"),
        checkpoint_when=options.get("checkpoint_when", after_deltas),
        resume=options.get("resume", "rerun"),
    )


def _check_awaitable(function: Any, name: str) -> None:
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"Expected an async function for job {name!r}; found another.")


def _bare(schema: Any) -> Any:
    """Return a schema without remarks: what nobody's data depends on is not in a fingerprint."""
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        name: {each: _bare(inner) for each, inner in value.items()}
        if name in _NAMED and isinstance(value, Mapping)
        else _bare(value)
        for name, value in schema.items()
        if name not in _REMARKS
    }


def _holds_bytes(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_holds_bytes, schema))
    if not isinstance(schema, Mapping):
        return False
    is_bytes = schema.get("format") in {"binary", "base64url"} and schema.get("type") == "string"
    return is_bytes or any(map(_holds_bytes, schema.values()))
