"""Rules that hold in Python and in the API server alike.

Each rule is written once beside the model it guards. Pydantic enforces it when the operator (or ``render``) reads a
resource, and the CRD generator copies its CEL twin into ``x-kubernetes-validations``, so that the API server refuses
the same input with the same words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

VALIDATIONS = "x-kubernetes-validations"

PATTERN = "x-pattern"
"""A regex that CEL checks in the API server: of use where there is no CEL."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A string must match ``regex`` as a whole, else ``message`` says what would be right.

    ``regex`` stays within what Python's ``re`` and RE2 (CEL's engine) read alike. The API server's cost estimate grows
    with the regex's length, ``max_length`` and the number of places, and RE2 repeats nothing more than 1,000 times.
    """

    regex: str
    message: str
    max_length: int = 253
    costly: bool = False
    """Whether CEL's budget forbids it: then the API server shows the regex, and checks beside it find words."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Enforce the pattern after the string itself has been read."""
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe the same rule as CEL, bounded in length so that its cost is bounded too."""
        described = dict(handler(schema))
        described["maxLength"] = self.max_length
        described["pattern" if self.costly else PATTERN] = self.anchored
        if not self.costly:
            described[VALIDATIONS] = [*described.get(VALIDATIONS, ()), {"rule": self.cel, "message": self.message}]
        return described

    @property
    def anchored(self) -> str:
        """The regex for engines that search, as Go's: there ``$`` is the end of the text, not of a line."""
        return f"^(?:{self.regex})$"

    @property
    def cel(self) -> str:
        """The rule in CEL."""
        return f"self.matches({_cel_string(self.anchored)})"

    def check(self, value: str) -> str:
        """Return ``value``, or raise what is wrong with it."""
        if re.fullmatch(self.regex, value, re.ASCII) is None:
            raise _problem(self.message)
        if len(value) > self.max_length:
            raise _problem(f"may not be longer than {self.max_length} characters")
        return value


@dataclass(frozen=True, slots=True)
class Check:
    """A string must pass ``broken``, which has a twin in CEL."""

    cel: str
    message: str
    broken: Callable[[str], bool]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Enforce the check after the string itself has been read."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe the same check as CEL."""
        described = dict(handler(schema))
        described[VALIDATIONS] = [*described.get(VALIDATIONS, ()), {"rule": self.cel, "message": self.message}]
        return described

    def _check(self, value: str) -> str:
        if self.broken(value):
            raise _problem(self.message)
        return value


@dataclass(frozen=True, slots=True)
class Unique:
    """The items of a list must differ: in the field ``key``, or as a whole.

    The API server merges such lists item by item, so that two field managers can own different items.
    """

    key: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Enforce it once all items have been read."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe it as Kubernetes' list types, which the API server checks without CEL."""
        described = dict(handler(schema))
        if self.key:
            return described | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [self.key]}
        return described | {"x-kubernetes-list-type": "set"}

    def _check(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        keys = [getattr(item, self.key) if self.key else item for item in items]
        again = [place for place, key in enumerate(keys) if key in keys[:place]]
        if again:
            shown = [json.dumps({self.key: keys[place]} if self.key else keys[place]) for place in again]
            raise _located(
                "list", [((place,), f"Duplicate value: {text}") for place, text in zip(again, shown, strict=True)]
            )
        return items


@dataclass(frozen=True, slots=True)
class Shape:
    """A mapping that must read as ``model`` and is then passed on as it was written."""

    model: type[Model]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Enforce the shape, keep the mapping."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe the model."""
        return self.model.with_rules(dict(handler(TypeAdapter(self.model).core_schema)))

    def _check(self, value: dict[str, Any]) -> dict[str, Any]:
        self.model.model_validate(value)
        return value


@dataclass(frozen=True, slots=True)
class Rule:
    """One cross-field rule of a model: its CEL form and its Python twin.

    ``broken`` returns what is wrong: words, or True for ``message``; it is ``None`` where only the API server can tell
    (a transition rule, over ``oldSelf``) or where another rule's twin tells. ``message_expression`` is CEL that names
    the offender and wins over ``message``; strings in it are joined by ``format``, which costs nothing, unlike ``+``.
    ``field_path`` is the field to blame, as in ``.nodes.min``.
    """

    cel: str
    message: str
    broken: Callable[[Any], bool | str] | None = None
    message_expression: str = ""
    field_path: str = ""

    def to_schema(self) -> dict[str, str]:
        """Return the entry for ``x-kubernetes-validations``."""
        entry = {"rule": self.cel, "message": self.message}
        if self.message_expression:
            entry["messageExpression"] = self.message_expression
        if self.field_path:
            entry["fieldPath"] = self.field_path
        return entry

    def problem(self, model: Any) -> tuple[tuple[str, ...], str] | None:
        """Return where and how ``model`` breaks the rule, or None."""
        said = self.broken(model) if self.broken else False
        if not said:
            return None
        return tuple(filter(None, self.field_path.split("."))), self.message if said is True else said


class Model(BaseModel):
    """Base of every API model: frozen, camelCase on the wire, unknown fields refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _obey_rules(self) -> Self:
        broken = [problem for rule in self.rules if (problem := rule.problem(self))]
        if broken:
            raise _located(type(self).__name__, broken)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe the fields and the rules between them."""
        return cls.with_rules(handler.resolve_ref_schema(handler(schema)))

    @classmethod
    def with_rules(cls, described: dict[str, Any]) -> dict[str, Any]:
        """Add this model's rules to a JSON schema of it."""
        if cls.rules:
            described[VALIDATIONS] = [rule.to_schema() for rule in cls.rules]
        return described


def _problem(words: str) -> PydanticCustomError:
    return PydanticCustomError("rule", "{words}", {"words": words})


def _located(title: str, problems: Iterable[tuple[tuple[str | int, ...], str]]) -> ValidationError:
    """Return an error that blames fields inside of what is being validated; pydantic puts the outer path in front."""
    details = [InitErrorDetails(type=_problem(words), loc=place, input=None) for place, words in problems]
    return ValidationError.from_exception_data(title, details)


def _cel_string(text: str) -> str:
    """Quote ``text`` as a raw CEL string."""
    quote = "'" if "'" not in text else '"""'
    return f"r{quote}{text}{quote}"
