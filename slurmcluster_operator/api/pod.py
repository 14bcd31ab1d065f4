"""Parts of a Kubernetes pod that the spec passes on: checked here, so that a slip is refused where it is made."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from slurmcluster_operator.api.schema import PATTERN, VALIDATIONS, Model, Rule
from slurmcluster_operator.api.values import QUANTITY, LabelValue


class _Amount:
    """A quantity that may also be written as a whole number, as in ``cpu: 2``."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read both."""
        del source, handler
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe both ways to write it."""
        del handler
        rule = {"rule": f"type(self) == int ? self >= 0 : {QUANTITY.cel}", "message": QUANTITY.message}
        return {
            "x-kubernetes-int-or-string": True,
            "maxLength": QUANTITY.max_length,
            PATTERN: QUANTITY.anchored,
            VALIDATIONS: [rule],
        }

    @staticmethod
    def _read(value: Any) -> int | str:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        return QUANTITY.check(value if isinstance(value, str) else "")


Amount = Annotated[int | str, _Amount()]


class Resources(Model):
    """Requests and limits of a container."""

    requests: dict[str, Amount] = Field(default_factory=dict, max_length=16)
    """What is set aside for it."""
    limits: dict[str, Amount] = Field(default_factory=dict, max_length=16)
    """What it may use at most."""


class Toleration(Model):
    """A taint that a pod puts up with."""

    rules = (
        Rule(
            "!has(self.operator) || self.operator != 'Exists' || !has(self.value)",
            "value has no meaning with operator Exists",
            lambda self: self.operator == "Exists" and bool(self.value),
            field_path=".value",
        ),
        Rule(
            "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
            "operator must be Exists when no key is named",
            lambda self: not self.key and self.operator != "Exists",
            field_path=".operator",
        ),
    )

    key: Annotated[str, Field(min_length=1, max_length=317)] | None = None
    """The taint's key; every taint when not set."""
    operator: Literal["Exists", "Equal"] | None = None
    """Equal when not set."""
    value: LabelValue | None = None
    """The taint's value, for Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; every effect when not set."""
    toleration_seconds: int | None = None
    """How long, for NoExecute."""
