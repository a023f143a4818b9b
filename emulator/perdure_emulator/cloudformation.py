"""CloudFormation as far as a template's values need it: parameters, conditions, references.

Whatever cannot be known before a deployment is :class:`Unresolved`: a parameter without a default,
an attribute of a resource that the emulator does not make.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from perdure.kernel.errors import InvalidValue
from perdure_emulator.parameters import is_list, values

REGION: Final = "us-east-1"
ACCOUNT: Final = "000000000000"
STACK: Final = "perdure"

PSEUDO: Final[Mapping[str, str]] = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::StackName": STACK,
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{STACK}/local",
    "AWS::URLSuffix": "amazonaws.com",
}
"""Source: AWS CloudFormation user guide, "Pseudo parameters reference"."""

NO_VALUE: Final = "AWS::NoValue"

_IN_BRACES: Final = re.compile(r"\$\{(!?)([^}]+)\}")


OF_AWS: Final = ("AWS::", "ServerlessHttpApi", "ServerlessRestApi")
"""How names begin that no template declares: pseudo parameters, and what SAM makes by itself."""

OF_SAM: Final = "AWS::Serverless::"


class Unresolved(Exception):
    """A value that is known in a deployment only; its text names what it refers to."""


class Undeclared(LookupError):
    """A reference to nothing, with which AWS deploys no template."""


class Misread(ValueError):
    """A part of a template makes no sense; its text names the part."""


@contextmanager
def part(name: str) -> Iterator[None]:
    """Let the name of a template's part be in what comes of reading it. Raises Misread."""
    try:
        yield
    except FAULTS as error:
        is_told = isinstance(error, (Misread, Undeclared))
        why = str(error) if is_told else f"{type(error).__name__}: {error}"
        raise Misread(f"{name}: {why}") from error


class Document:
    """A template whose values can be asked for."""

    def __init__(
        self,
        content: Mapping[str, Any],
        given: Mapping[str, str],
        assumed: Mapping[str, str] | None = None,
    ) -> None:
        """Hold a template's content; parameters are what is ``given``, or their defaults.

        What is ``assumed`` counts before a default, where there is such a parameter.
        Raises: InvalidValue for a parameter that is none, or that has such a value.
        """
        resources = content["Resources"]
        self._parameters = _section(content, "Parameters")
        self._values = values(self._parameters, given, assumed or {})
        self._conditions = _section(content, "Conditions")
        self._mappings = _section(content, "Mappings")
        self.globals: Mapping[str, Any] = _section(content, "Globals")
        self.places: Mapping[str, str] = {}
        """What references lead to: logical ids, and ``Id.Attribute``."""
        self._kinds = {name: _kind(name, each) for name, each in resources.items()}
        self.resources: Mapping[str, Mapping[str, Any]] = {
            name: each for name, each in resources.items() if self._is_made(name, each)
        }
        """Those whose condition holds."""

    def resolve(self, value: Any) -> Any:
        """Return a value with everything in it that refers worked out. Raises Unresolved."""
        if isinstance(value, list):
            items = [self.resolve(each) for each in value]
            return [each for each in items if each is not _Nothing]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            ((name, argument),) = value.items()
            function = self._functions().get(name)
            if function is not None:
                return function(argument)
            if str(name).startswith("Fn::"):
                raise Unresolved(str(name))
        named = {name: self.resolve(each) for name, each in value.items()}
        return {name: each for name, each in named.items() if each is not _Nothing}

    def holds(self, condition: Any) -> bool:
        """Tell whether a condition holds. Raises Unresolved, InvalidValue."""
        if isinstance(condition, str):
            if condition not in self._conditions:
                raise InvalidValue(expected="a condition of the template", found=condition)
            return self.holds(self._conditions[condition])
        if not isinstance(condition, Mapping):
            # YAML reads names such as No, off and y as truth values.
            raise TypeError(f"a condition named {condition!r}, which is no text")
        ((name, argument),) = condition.items()
        if name == "Condition":
            return self.holds(argument)
        if name == "Fn::Equals":
            first, second = (str(self.resolve(each)) for each in argument)
            return first == second
        if name == "Fn::Not":
            return not self.holds(argument[0])
        if name in {"Fn::And", "Fn::Or"}:
            return (all if name == "Fn::And" else any)(self.holds(each) for each in argument)
        raise InvalidValue(expected="Fn::Equals, Fn::Not, Fn::And or Fn::Or", found=str(name))

    def kind(self, reference: str) -> str | None:
        """Return the kind of the resource that a reference is to, None if it is to none."""
        return self._kinds.get(reference.partition(".")[0])

    def _is_made(self, name: str, resource: Mapping[str, Any]) -> bool:
        with part(name):
            return "Condition" not in resource or self.holds(resource["Condition"])

    def _functions(self) -> Mapping[str, Callable[[Any], Any]]:
        return {
            "Ref": self._ref,
            "Fn::Sub": self._sub,
            "Fn::GetAtt": self._attribute,
            "Fn::Join": lambda given: str(given[0]).join(map(str, self.resolve(given[1]))),
            "Fn::Split": lambda given: str(self.resolve(given[1])).split(given[0]),
            "Fn::Select": lambda given: self.resolve(given[1])[int(self.resolve(given[0]))],
            "Fn::If": lambda given: self.resolve(given[1 if self.holds(given[0]) else 2]),
            "Fn::FindInMap": self._mapped,
        }

    def _ref(self, name: str) -> Any:
        if name == NO_VALUE:
            return _Nothing
        if name in self._parameters:
            if name not in self._values:
                raise Unresolved(name)
            value = self._values[name]
            return value.split(",") if is_list(self._parameters[name]) else value
        return self._placed(name)

    def _sub(self, given: Any) -> str:
        text, named = (given, {}) if isinstance(given, str) else given

        def replaced(found: re.Match[str]) -> str:
            name = found[2].strip()
            if found[1]:  # ${!Literal}
                return f"${{{found[2]}}}"
            if name in named:
                return str(self.resolve(named[name]))
            return str(self._placed(name) if "." in name else self._ref(name))

        return _IN_BRACES.sub(replaced, text)

    def _attribute(self, given: Any) -> str:
        return self._placed(given if isinstance(given, str) else ".".join(map(str, given)))

    def _mapped(self, given: Any) -> Any:
        name, first, second = (self.resolve(each) for each in given)
        return self._mappings[name][first][second]

    def _placed(self, name: str) -> str:
        found = self.places.get(name, PSEUDO.get(name))
        if found is not None:
            return found
        if not self._is_declared(name.partition(".")[0]):
            raise Undeclared(f"{name} is no parameter and no resource of the template")
        raise Unresolved(name)

    def _is_declared(self, name: str) -> bool:
        if name in self._kinds or name in self._parameters or name.startswith(OF_AWS):
            return True
        # What SAM makes of a resource is called after it: TickFunctionRole, TickFunctionDue.
        return any(
            name.startswith(each) and kind.startswith(OF_SAM) for each, kind in self._kinds.items()
        )


def load(
    path: Path, given: Mapping[str, str], assumed: Mapping[str, str] | None = None
) -> Document:
    """Read a template's text. Raises InvalidValue for one that is none."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506  # a SafeLoader
        return Document(content, given, assumed)
    except FAULTS as error:
        raise no_template(path, error) from error


FAULTS: Final = (
    OSError,
    UnicodeError,
    yaml.YAMLError,
    Unresolved,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
)
"""What comes of reading something that is no template."""


def no_template(path: Path, error: Exception) -> InvalidValue:
    """Say that a file is no template, and why."""
    return InvalidValue(
        expected=f"a SAM template with functions and routes at {path}",
        found=(
            str(error) if isinstance(error, Misread) else f"{type(error).__name__}: {error}"
        ).splitlines()[0],
    )


def named(reference: Any) -> str:
    """Return the logical id that a value refers to, the first if it refers to several."""
    if isinstance(reference, Mapping):
        ((function, argument),) = reference.items()
        if function == "Fn::GetAtt" and isinstance(argument, list):
            return str(argument[0])
        if function == "Fn::Sub" and isinstance(argument, list):
            return named(argument[0])
        return named(argument)
    found = _IN_BRACES.search(reference)
    return (found[2] if found else str(reference)).partition(".")[0]


def _kind(name: str, resource: Mapping[str, Any]) -> str:
    with part(name):
        return str(resource["Type"])


class _Nothing:
    """Stands for AWS::NoValue."""


def _section(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = content.get(name) or {}
    if not isinstance(found, Mapping):
        raise TypeError(f"{name} is no mapping")
    return found


class _Loader(yaml.SafeLoader):
    """YAML with the short forms of CloudFormation (`!Sub`, `!GetAtt`, …), kept in their long one."""


def _long_form(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    argument: Any
    if isinstance(node, yaml.ScalarNode):
        argument = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        argument = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        argument = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(argument, str):
        argument = argument.split(".", maxsplit=1)
    return {suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}": argument}


_Loader.add_multi_constructor("!", _long_form)
