"""What IAM makes of a role's policies, as far as this template's policies go.

A statement that denies wins over all that allow. Source: IAM, policy evaluation logic, and
conditions with several keys or values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from tests.cloud.rendered import listed, resources

Context = Mapping[str, list[str]]
"""Condition keys of a request, and their values; a key that the request lacks is absent."""


SAID = ("StorageKey", "TableBucket", "ModelArns", "ToolFunctionArns", "ModelKeyArn")
"""Parameters of which policies make something; empty unless a test says so."""


class Role:
    """The role of one function, with the parameters of a deployment."""

    def __init__(self, name: str, **parameters: str) -> None:
        self._name = name
        self._parameters = dict.fromkeys(SAID, "") | {"Namespace": "perdure"} | parameters

    def may(self, action: str, resource: str, **context: list[str]) -> bool:
        """Say whether a request is allowed; condition keys are spelled with __ for a colon."""
        keys = {name.replace("__", ":"): values for name, values in context.items()}
        effects = {
            each["Effect"]
            for each in self.statements()
            if action in listed(each["Action"])
            and any(fnmatchcase(resource, pattern) for pattern in self._told(each["Resource"]))
            and _holds(self._chosen(each.get("Condition", {})), keys, self._text)
        }
        return effects == {"Allow"}

    def statements(self) -> Iterator[dict[str, Any]]:
        """Yield every statement of every policy that the role has."""
        properties = resources()[self._name]["Properties"]
        for policy in properties.get("ManagedPolicyArns", []):
            yield from _document(resources()[policy["Ref"]]["Properties"])
        for policy in properties.get("Policies", []):
            yield from _document(policy)
        for each in resources().values():
            if {"Ref": self._name} in listed(each.get("Properties", {}).get("Roles", [])) and (
                "Condition" not in each or self._is_so(each["Condition"])
            ):
                yield from _document(each["Properties"])

    def allowed(self) -> set[str]:
        """Return the actions that are allowed on anything at all."""
        return {
            action
            for each in self.statements()
            if each["Effect"] == "Allow"
            for action in listed(each["Action"])
        }

    def resources_of(self, action: str) -> set[str]:
        """Return the resources on which an action is allowed, with names in place of ARNs."""
        return {
            resource
            for each in self.statements()
            if each["Effect"] == "Allow" and action in listed(each["Action"])
            for resource in self._told(each["Resource"])
        }

    def _told(self, value: Any) -> list[str]:
        return [self._text(self._chosen(each)) for each in listed(value)]

    def _chosen(self, value: Any) -> Any:
        if isinstance(value, dict) and "If" in value:
            condition, first, second = value["If"]
            return self._chosen(first if self._is_so(condition) else second)
        return {} if value == {"Ref": "AWS::NoValue"} else value

    def _is_so(self, condition: str) -> bool:
        return {
            "MakesKey": True,
            "KnowsStorage": bool(self._parameters["StorageKey"]),
            "InTableBucket": bool(self._parameters["TableBucket"]),
            "AsksModels": bool(self._parameters["ModelArns"]),
            "CallsFunctions": bool(self._parameters["ToolFunctionArns"]),
            "HasModelKey": bool(self._parameters["ModelKeyArn"]),
        }[condition]

    def _text(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        if "GetAtt" in value:
            return str(value["GetAtt"]).partition(".")[0]
        if "Ref" in value:
            return self._parameters.get(value["Ref"], value["Ref"])
        return re.sub(
            r"\$\{([^}]+)\}",
            lambda found: self._parameters.get(found[1], found[1].partition(".")[0]),
            value["Sub"],
        )


def _document(properties: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = properties["PolicyDocument"]["Statement"]
    return found


def _holds(conditions: Mapping[str, Any], keys: Context, text: Callable[[Any], str]) -> bool:
    return all(
        _compares(operator, keys.get(key), [text(each) for each in listed(expected)])
        for operator, pairs in conditions.items()
        for key, expected in pairs.items()
    )


def _compares(operator: str, values: list[str] | None, expected: list[str]) -> bool:
    every, _, name = operator.rpartition(":")
    if name == "Null":
        return (values is None) == (expected == ["true"])
    negated = "Not" in name

    def matches(value: str) -> bool:
        same = any(
            fnmatchcase(value, each) if name.endswith("Like") else value == each
            for each in expected
        )
        return same != negated

    found = [matches(each) for each in values or []]
    if every == "ForAllValues":  # nothing at all is all of nothing
        return all(found)
    if every == "ForAnyValue":
        return any(found)
    return negated if values is None else all(found)
