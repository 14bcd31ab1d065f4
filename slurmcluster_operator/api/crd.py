"""The CustomResourceDefinition, made from the models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from slurmcluster_operator.api.group import GROUP, KIND, PLURAL, VERSION
from slurmcluster_operator.api.schema import PATTERN, VALIDATIONS
from slurmcluster_operator.api.spec import SlurmClusterSpec
from slurmcluster_operator.api.status import SlurmClusterStatus
from slurmcluster_operator.api.text import to_text

_HEADER = "# generated from slurmcluster_operator/api by hack/generate.py, do not edit\n"

_KEPT = frozenset(
    {"type", "description", "properties", "required", "items", "additionalProperties", "enum", "pattern", "default"}
    | {"format", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"}
    | {"minProperties", "maxProperties", PATTERN}
)

_COLUMNS = (
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0, "Whether an sbatch would run"),
    ("Nodes", "string", ".status.nodes", 0, "Nodes ready / desired"),
    ("Busy", "integer", ".status.busy", 0, "Nodes that run jobs"),
    ("Drained", "integer", ".status.drained", 0, "Nodes that take no further jobs"),
    ("Pending", "integer", ".status.queue.pending", 0, "Jobs that wait"),
    ("Age", "date", ".metadata.creationTimestamp", 0, ""),
    ("Reason", "string", '.status.conditions[?(@.type=="Ready")].message', 1, "Why it is not ready"),
    ("Waiting", "date", ".status.queue.oldestPending", 1, "For how long the oldest job has waited for nodes"),
    ("Login", "string", ".status.endpoints.login", 1, "Where to ssh to"),
)

_NAME_RULES = [
    {
        "rule": "self.metadata.name.matches(r'^[a-z](?:[a-z0-9-]{0,28}[a-z0-9])?$')",
        "message": "metadata.name must be 1 to 30 lower-case letters, digits or '-', beginning with a letter:"
        " pods and Services are named after it",
        "fieldPath": ".metadata.name",
    }
]


class _Generator(GenerateJsonSchema):
    """Writes a default that is itself a model as what differs from that model's own defaults."""

    def encode_default(self, dft: Any) -> Any:
        """Leave out what the nested schema says by itself."""
        if isinstance(dft, BaseModel):
            return dft.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return super().encode_default(dft)


def custom_resource_definition() -> dict[str, Any]:
    """Return the whole CustomResourceDefinition object."""
    root = {
        "type": "object",
        "description": "A Slurm cluster on Kubernetes.",
        "required": ["spec"],
        VALIDATIONS: _NAME_RULES,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "spec": without(structural(json_schema(SlurmClusterSpec)), PATTERN),
            # The status holds what the operator wrote and nothing else.
            "status": without(structural(json_schema(SlurmClusterStatus)), PATTERN, "default"),
        },
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(*column) for column in _COLUMNS],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": "slurmcluster",
                "shortNames": ["slc"],
            },
            "versions": [version],
        },
    }


def to_yaml() -> str:
    """Return the CustomResourceDefinition as the text of ``crds/slurmclusters.yaml``."""
    return _HEADER + to_text([custom_resource_definition()])


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return a model's JSON schema as on the wire."""
    return model.model_json_schema(by_alias=True, schema_generator=_Generator)


def structural(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Turn pydantic's JSON schema into Kubernetes' structural form: no references, no unions with null, no titles."""
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[1]]
        return structural({**target, **{k: v for k, v in schema.items() if k != "$ref"}}, definitions)
    if "anyOf" in schema:
        (branch,) = (option for option in schema["anyOf"] if option.get("type") != "null")
        return structural({**branch, **{k: v for k, v in schema.items() if k not in {"anyOf", "default"}}}, definitions)
    result = {key: value for key, value in schema.items() if key in _KEPT or key.startswith("x-kubernetes-")}
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if "items" in result:
        result["items"] = structural(result["items"], definitions)
    if "description" in result:
        result["description"] = " ".join(result["description"].replace("``", "").split())
    _set_fields(result, definitions)
    if not result.get("default", True) and not _has_defaults(result):
        # An empty list or map means what an absent one means, and clutters what people read back.
        del result["default"]
    return result


def _set_fields(result: dict[str, Any], definitions: Mapping[str, Any]) -> None:
    """Make the schemas of an object's fields structural, in place."""
    others = result.pop("additionalProperties", None)
    if "properties" in result:
        # Kubernetes refuses unknown fields by itself, and allows only one of the two keys.
        result["properties"] = {name: structural(value, definitions) for name, value in result["properties"].items()}
    elif isinstance(others, Mapping):
        result["additionalProperties"] = structural(others, definitions)
    elif others is True:
        result["x-kubernetes-preserve-unknown-fields"] = True


def _has_defaults(schema: Mapping[str, Any]) -> bool:
    """Tell whether ``{}`` would be filled in; also scalars, whose falsy default means something."""
    return schema.get("type") not in {"object", "array"} or any(
        "default" in field for field in schema.get("properties", {}).values()
    )


def without(schema: Any, *keywords: str) -> Any:
    """Drop keywords from a schema, but not fields of that name."""
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: {name: without(field, *keywords) for name, field in value.items()}
        if key == "properties"
        else without(value, *keywords)
        for key, value in schema.items()
        if key not in keywords
    }


def _column(name: str, kind: str, path: str, priority: int, description: str) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    if priority:
        column["priority"] = priority
    if description:
        column["description"] = description
    return column
