"""Rules that hold in Python and in the API server alike.

Each rule is written once beside the model it guards. Pydantic enforces it when the operator (or ``render``) reads a
resource, and the CRD generator copies its CEL twin into ``x-kubernetes-validations``, so that the API server refuses
the same input with the same words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

VALIDATIONS = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A string must match ``regex`` as a whole, else ``message`` says what would be right.

    ``regex`` stays within what Python's ``re`` and RE2 (CEL's engine) read alike.
    """

    regex: str
    message: str
    max_length: int = 253

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Enforce the pattern after the string itself has been read."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe the same rule as CEL, bounded in length so that its cost is bounded too."""
        json = dict(handler(schema))
        json["maxLength"] = self.max_length
        # Go's ``$`` is the end of the text, not of a line: an embedded newline does not slip past it.
        anchored = _cel_string(f"^(?:{self.regex})$")
        json[VALIDATIONS] = [{"rule": f"self.matches({anchored})", "message": self.message}]
        return json

    def _check(self, value: str) -> str:
        if len(value) > self.max_length:
            raise ValueError(f"is longer than {self.max_length} characters")
        if re.fullmatch(self.regex, value, re.ASCII) is None:
            raise ValueError(self.message)
        return value


@dataclass(frozen=True, slots=True)
class Rule:
    """One cross-field rule of a model: its CEL form and its Python twin.

    ``broken`` returns True when the model breaks the rule; ``None`` marks a transition rule (over ``oldSelf``), which
    only the API server can check. ``message_expression`` is CEL that names the offender and wins over ``message``.
    """

    cel: str
    message: str
    broken: Callable[[Any], bool] | None = None
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


class Model(BaseModel):
    """Base of every API model: frozen, camelCase on the wire, unknown fields refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _obey_rules(self) -> Self:
        broken = [rule.message for rule in self.rules if rule.broken is not None and rule.broken(self)]
        if broken:
            raise ValueError("; ".join(broken))
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Add this model's rules to its JSON schema."""
        json = handler.resolve_ref_schema(handler(schema))
        if cls.rules:
            json[VALIDATIONS] = [rule.to_schema() for rule in cls.rules]
        return json


def unique(items: tuple[Any, ...], key: Callable[[Any], Any]) -> bool:
    """Tell whether no two items share a key."""
    keys = [key(item) for item in items]
    return len(keys) == len(set(keys))


def _cel_string(text: str) -> str:
    """Quote ``text`` as a raw CEL string."""
    quote = "'" if "'" not in text else '"""'
    return f"r{quote}{text}{quote}"


def schema_extra(**extra: Any) -> Mapping[str, Any]:
    """Name the ``x-kubernetes-*`` extensions of a field for ``Field(json_schema_extra=…)``."""
    return {f"x-kubernetes-{name.replace('_', '-')}": value for name, value in extra.items()}
