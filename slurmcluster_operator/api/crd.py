"""The CustomResourceDefinition, made from the models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slurmcluster_operator.api.schema import VALIDATIONS
from slurmcluster_operator.api.spec import SlurmClusterSpec
from slurmcluster_operator.api.status import SlurmClusterStatus

GROUP: Final = "slurmcluster.dev"
VERSION: Final = "v1alpha1"
KIND: Final = "SlurmCluster"
PLURAL: Final = "slurmclusters"
API_VERSION: Final = f"{GROUP}/{VERSION}"

_KEPT = frozenset(
    {
        "type",
        "description",
        "properties",
        "required",
        "items",
        "additionalProperties",
        "enum",
        "pattern",
        "default",
        "format",
    }
    | {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
)

_COLUMNS = (
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0, "Whether an sbatch would run"),
    ("Nodes", "string", ".status.nodes", 0, "Nodes ready / desired"),
    ("Busy", "integer", ".status.busy", 0, "Nodes that run jobs"),
    ("Drained", "integer", ".status.drained", 0, "Nodes that take no further jobs"),
    ("Pending", "integer", ".status.queue.pending", 0, "Jobs that wait"),
    ("Age", "date", ".metadata.creationTimestamp", 0, ""),
    ("Reason", "string", '.status.conditions[?(@.type=="Ready")].message', 1, "Why it is not ready"),
    ("Login", "string", ".status.endpoints.login", 1, "Where to ssh to"),
)

_NAME_RULES = [
    {
        "rule": "self.metadata.name.matches(r'^[a-z](?:[a-z0-9-]{0,28}[a-z0-9])?$')",
        "message": "metadata.name must be 1 to 30 lower-case letters, digits or '-', beginning with a letter: pods and Services are named after it",
    }
]


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
            "metadata": {"type": "object"},
            "spec": structural(SlurmClusterSpec.model_json_schema(by_alias=True)),
            "status": structural(SlurmClusterStatus.model_json_schema(by_alias=True)),
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


def structural(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Turn pydantic's JSON schema into Kubernetes' structural form: no references, no unions with null, no titles."""
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[1]]
        return structural({**target, **{k: v for k, v in schema.items() if k != "$ref"}}, definitions)
    if "anyOf" in schema:
        (branch,) = (option for option in schema["anyOf"] if option.get("type") != "null")
        return structural({**branch, **{k: v for k, v in schema.items() if k not in ("anyOf", "default")}}, definitions)
    result: dict[str, Any] = {
        key: value for key, value in schema.items() if key in _KEPT or key.startswith("x-kubernetes-")
    }
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if "properties" in result:
        result["properties"] = {name: structural(value, definitions) for name, value in result["properties"].items()}
        # Both mean "no other fields", but Kubernetes allows only one of the two keys.
        result.pop("additionalProperties", None)
    if isinstance(result.get("additionalProperties"), Mapping):
        result["additionalProperties"] = structural(result["additionalProperties"], definitions)
    elif result.pop("additionalProperties", None) is True:
        result["x-kubernetes-preserve-unknown-fields"] = True
    if "items" in result:
        result["items"] = structural(result["items"], definitions)
    if "default" in result:
        result["default"] = _without_nulls(result["default"])
    if "description" in result:
        result["description"] = " ".join(result["description"].split())
    return result


def _without_nulls(value: Any) -> Any:
    """Drop nulls from a default: an absent field is what they mean."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _column(name: str, kind: str, path: str, priority: int, description: str) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    if priority:
        column["priority"] = priority
    if description:
        column["description"] = description
    return column
