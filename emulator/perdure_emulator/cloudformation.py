"""CloudFormation as far as a template's values need it: parameters, conditions, references.

Whatever cannot be known before a deployment is :class:`Unresolved`: a parameter without a default,
an attribute of a resource that the emulator does not make.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from perdure.kernel.errors import InvalidValue

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


class Unresolved(Exception):
    """A value that is known in a deployment only; its text names what it refers to."""


class Document:
    """A template whose values can be asked for."""

    def __init__(self, content: Mapping[str, Any], given: Mapping[str, str]) -> None:
        """Hold a template's content; parameters are what is ``given``, or their defaults."""
        resources = content["Resources"]
        self._given = given
        self._parameters = _section(content, "Parameters")
        self._conditions = _section(content, "Conditions")
        self._mappings = _section(content, "Mappings")
        self.globals: Mapping[str, Any] = _section(content, "Globals")
        self.places: Mapping[str, str] = {}
        """What references lead to: logical ids, and ``Id.Attribute``."""
        self.resources: Mapping[str, Mapping[str, Any]] = {
            name: each for name, each in resources.items() if self._is_made(each)
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

    def _is_made(self, resource: Mapping[str, Any]) -> bool:
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
            parameter = self._parameters[name]
            if name not in self._given and "Default" not in parameter:
                raise Unresolved(name)
            value = str(self._given.get(name, parameter.get("Default")))
            is_list = str(parameter.get("Type", "")).startswith(("CommaDelimitedList", "List<"))
            return value.split(",") if is_list else value
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
        if found is None:
            raise Unresolved(name)
        return found


def load(path: Path, given: Mapping[str, str]) -> Document:
    """Read a template's text. Raises InvalidValue for one that is none."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506  # a SafeLoader
        return Document(content, given)
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
        found=f"{type(error).__name__}: {error}".splitlines()[0],
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
