"""Functions as tools: they run in this process, so what they raise is their answer.

A function that leaves the process itself (asks a service, writes to a store) and loses the answer
raises :class:`~perdure.kernel.errors.OutcomeUnknown`: then the call counts as unknown. Any other
exception says that the call failed.

How long a function may take is the business of whoever calls it: a thread cannot be stopped, and
what is under way when time is over is unknown.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, get_type_hints, overload

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_json

from perdure.kernel.canonical import canonical
from perdure.kernel.errors import Invalid, OutcomeUnknown
from perdure.kernel.session.messages import Effect
from perdure.kernel.shown import text_of
from perdure.runtime.session.docstrings import read
from perdure.runtime.session.ports import (
    CallOutcome,
    CallRequest,
    Completed,
    OutcomeNotKnown,
    ToolSpec,
)
from perdure.runtime.session.threads import in_thread
from perdure.runtime.session.tool_answers import answered, failed, invalid, threw
from perdure.runtime.session.toolbox import checked_spec

MODULE: Final = "function"

_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A tool that is a function of this process."""

    function: Callable[..., Any]
    spec: ToolSpec
    arguments: TypeAdapter[dict[str, Any]]
    """Turns a call's arguments into those of the function."""

    takes_call: bool

    async def call(self, request: CallRequest) -> CallOutcome:
        try:
            arguments = self.arguments.validate_json(canonical(request.args))
        except ValidationError as error:
            return failed("schema_invalid", _spelled(error))
        if self.takes_call:
            arguments["call"] = request
        if not _is_async(self.function):
            return await in_thread(lambda: self._ran(arguments), name=self.spec.name)
        try:
            return _answer(await self.function(**arguments))
        except Exception as error:  # noqa: BLE001  # whatever it is, the function says it
            return _raised(error)

    def _ran(self, arguments: Mapping[str, Any]) -> CallOutcome:
        try:
            return _answer(self.function(**arguments))
        except Exception as error:  # noqa: BLE001  # whatever it is, the function says it
            return _raised(error)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *,
    effect: Effect = ...,
    needs_approval: bool = ...,
    timeout_ms: int = ...,
    name: str | None = ...,
    description: str | None = ...,
    schema: Mapping[str, Any] | None = ...,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: Effect = "effectful",
    needs_approval: bool = False,
    timeout_ms: int = 30_000,
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function: a decorator. Raises Invalid.

    Name, description and schema are the function's own unless others are given. A parameter
    ``call`` is no argument: it takes the :class:`CallRequest`, and with it the call key.
    """

    def made(function: Callable[..., Any]) -> FunctionTool:
        known_as = name if name is not None else str(getattr(function, "__name__", ""))
        told = read(inspect.getdoc(function) or "")
        signature, takes_call = _arguments_of(function, known_as)
        arguments = _adapted(function, signature, known_as)
        spec = ToolSpec(
            name=known_as,
            description=told.text if description is None else description,
            schema=_schema_of(arguments, told.parameters) if schema is None else schema,
            effect=effect,
            needs_approval=needs_approval,
            timeout_ms=timeout_ms,
            module=MODULE,
        )
        return FunctionTool(function, checked_spec(spec), arguments, takes_call)

    return made if function is None else made(function)


def _arguments_of(function: Callable[..., Any], name: str) -> tuple[inspect.Signature, bool]:
    """Return what a model says of a call of the function, and whether it takes the call too."""
    code = _code_of(function)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise Invalid(expected=f"tool {name!r} to return its answer", found="a generator")
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    for each in parameters:
        if each.kind not in {*_NAMED, inspect.Parameter.VAR_KEYWORD}:
            raise Invalid(
                expected=f"tool {name!r} to take its arguments by name", found=f"parameter {each}"
            )
    taken = [each for each in parameters if each.name != "call"]
    return signature.replace(parameters=taken), len(taken) < len(parameters)


def _adapted(
    function: Callable[..., Any], signature: inspect.Signature, name: str
) -> TypeAdapter[dict[str, Any]]:
    """Return what turns a JSON object into arguments by the signature's types."""

    def take(**arguments: Any) -> dict[str, Any]:
        return arguments

    named = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY) if each.kind in _NAMED else each
        for each in signature.parameters.values()
    ]
    take.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]
    try:
        take.__annotations__ = _hints_of(function)
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(take)  # type: ignore[arg-type]  # a function is no type form
    except (NameError, TypeError, PydanticUserError) as error:
        raise Invalid(
            expected=f"tool {name!r} with parameters whose types have a JSON Schema",
            found=text_of(error).splitlines()[0],
        ) from error
    return adapter


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(_code_of(function), include_extras=True)
    return {name: hint for name, hint in hints.items() if name not in {"call", "return"}}


class _Untitled(GenerateJsonSchema):
    """Leaves out titles that only repeat names: a model is told the schema with every step."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schema_of(
    arguments: TypeAdapter[dict[str, Any]], described: Mapping[str, str]
) -> dict[str, Any]:
    try:
        schema = arguments.json_schema(schema_generator=_Untitled)
    except PydanticUserError as error:
        raise Invalid(
            expected="parameters whose types have a JSON Schema",
            found=text_of(error).splitlines()[0],
        ) from error
    for name, about in schema.get("properties", {}).items():
        if name in described:
            about.setdefault("description", described[name])
    return schema


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(_code_of(function))


def _code_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what runs when something is called: an object's method, a partial function's own."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _spelled(error: ValidationError) -> str:
    return " ".join(
        f"At $.{'.'.join(map(str, each['loc']))}: {each['msg']}." for each in error.errors()[:3]
    )


def _raised(error: Exception) -> CallOutcome:
    if isinstance(error, OutcomeUnknown):
        return OutcomeNotKnown(error.code, str(error))
    return threw(error)


def _answer(value: Any) -> Completed:
    try:
        spelled = to_json(value, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        return invalid(text_of(error))
    return answered(spelled)
