from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from slurmcluster_operator.api.crd import custom_resource_definition, to_yaml
from slurmcluster_operator.api.schema import VALIDATIONS
from slurmcluster_operator.api.status import CONDITIONS, ConditionType


def schemas(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Walk a structural schema."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from schemas(field, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), Mapping):
            yield from schemas(schema[key], path + mark)


VERSION = custom_resource_definition()["spec"]["versions"][0]
ROOT = VERSION["schema"]["openAPIV3Schema"]
SPEC = dict(schemas(ROOT["properties"]["spec"]))


def test_the_text_is_the_object_and_says_where_it_comes_from() -> None:
    text = to_yaml()
    assert yaml.safe_load(text) == custom_resource_definition()
    assert text.startswith("# generated ")
    assert "do not edit" in text.splitlines()[0]


def test_the_text_has_no_aliases_and_is_the_same_each_time() -> None:
    events = [
        event for event in yaml.parse(to_yaml()) if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None)
    ]
    assert not events
    assert to_yaml() == to_yaml()


def test_the_schema_is_structural() -> None:
    for path, schema in schemas(ROOT):
        assert not {"$ref", "$defs", "anyOf", "allOf", "oneOf", "title", "const"} & schema.keys(), path
        assert "type" in schema or schema.get("x-kubernetes-int-or-string"), path
        assert not {"properties", "additionalProperties"} <= schema.keys(), path
        assert not [key for key in schema if key.startswith("x-") and not key.startswith("x-kubernetes-")], path


def test_every_field_is_described() -> None:
    fields = [path for path, schema in SPEC.items() if not path.endswith(("]", "}")) and not schema.get("description")]
    assert not fields


def test_every_text_in_the_spec_is_bounded() -> None:
    """Without bounds the API server refuses the rules over them as too costly."""
    free = [
        path
        for path, schema in SPEC.items()
        if schema.get("type") == "string" and "enum" not in schema and "maxLength" not in schema
    ]
    assert free == [".login.service.annotations{}"]
    for path, schema in SPEC.items():
        assert schema.get("type") != "array" or "maxItems" in schema, path
        assert "additionalProperties" not in schema or "maxProperties" in schema, path


def test_rules_have_words() -> None:
    rules = [(path, rule) for path, schema in schemas(ROOT) for rule in schema.get(VALIDATIONS, ())]
    assert len(rules) > 50
    for path, rule in rules:
        assert rule["message"], path
        assert "\n" not in rule["rule"], path


def test_defaults_are_filled_in_by_the_api_server_where_they_are_no_mere_absence() -> None:
    assert SPEC[".pools[].isolation"]["default"] == "Cgroup"
    assert SPEC[".accounting.database"]["default"] == {"embedded": {}}
    assert SPEC[".accounting.database.embedded.storage.size"]["default"] == "20Gi"
    assert SPEC[".controller.storage.size"]["default"] == "10Gi"
    assert SPEC[".users[].sudo"]["default"] is False
    for absent in (".users", ".slurmConf", ".login.resources", ".pools[].nodeSelector", ".pools[].machine.features"):
        assert "default" not in SPEC[absent]


def test_the_status_has_no_defaults() -> None:
    assert not [path for path, schema in schemas(ROOT["properties"]["status"]) if "default" in schema]


def test_status_is_a_subresource_with_columns_for_people() -> None:
    assert VERSION["subresources"] == {"status": {}}
    columns = {column["name"]: column for column in VERSION["additionalPrinterColumns"]}
    assert [name for name, column in columns.items() if not column.get("priority")] == [
        *("Ready", "Nodes", "Busy", "Drained", "Pending", "Age"),
    ]


def test_every_condition_is_explained() -> None:
    assert set(CONDITIONS) == set(ConditionType.__args__)  # type: ignore[attr-defined]
