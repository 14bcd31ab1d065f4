"""Write what is made from the models: the CRD, the charts' copies and schemas, the reference.

``--check`` writes nothing and fails when something would change.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    # As a script, Python looks for modules beside it only.
    sys.path.insert(0, str(ROOT))

from hack import reference  # noqa: E402
from slurmcluster_operator.api import slurm_conf  # noqa: E402
from slurmcluster_operator.api.crd import json_schema, structural, to_yaml  # noqa: E402
from slurmcluster_operator.api.schema import PATTERN, VALIDATIONS  # noqa: E402
from slurmcluster_operator.api.spec import SlurmClusterSpec  # noqa: E402

_NAME: Final = "^([a-z]([a-z0-9-]{0,28}[a-z0-9])?)?$"


def files() -> dict[str, str]:
    """Return every generated file: path from the root to content."""
    crd = to_yaml()
    return {
        "crds/slurmclusters.yaml": crd,
        "charts/slurmcluster-operator/files/slurmclusters.yaml": crd,
        "charts/slurm-cluster/values.schema.json": json.dumps(cluster_values(), indent=1, ensure_ascii=False) + "\n",
        "docs/reference.md": reference.text(ROOT),
    }


def cluster_values() -> dict[str, Any]:
    """Return the schema of the values of chart slurm-cluster: the spec, as far as JSON schema can say it."""
    spec = values_schema(structural(json_schema(SlurmClusterSpec)))
    settable = sorted(frozenset().union(*(slurm_conf.settable(version) for version in slurm_conf.KEYS)))
    spec["properties"]["slurmConf"]["propertyNames"] = {"enum": settable}
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    name = {
        "type": "string",
        "pattern": _NAME,
        "description": "Name of the SlurmCluster; the release's name when empty.",
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "slurm-cluster",
        "$comment": "generated from slurmcluster_operator/api by hack/generate.py, do not edit",
        "type": "object",
        "additionalProperties": False,
        "required": ["spec"],
        "properties": {
            "global": {"type": "object"},
            "name": name,
            "labels": texts | {"description": "Further labels of the SlurmCluster."},
            "annotations": texts | {"description": "Further annotations of the SlurmCluster."},
            "spec": spec,
        },
    }


def values_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a structural schema into what Helm checks: patterns for words in CEL, no unknown fields."""
    result = {key: value for key, value in schema.items() if not key.startswith("x-")}
    if PATTERN in schema:
        result["pattern"] = schema[PATTERN]
    if schema.get("x-kubernetes-int-or-string"):
        result["type"] = ["integer", "string"]
    if schema.get("x-kubernetes-list-type") == "set":
        result["uniqueItems"] = True
    words = [f"It {rule['message']}" for rule in schema.get(VALIDATIONS, ()) if PATTERN in schema]
    if words:
        result["description"] = ". ".join([*filter(None, [schema.get("description", "").rstrip(".")]), *words])
    if "properties" in schema:
        result["properties"] = {name: values_schema(field) for name, field in schema["properties"].items()}
        result["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), Mapping):
        result["additionalProperties"] = values_schema(schema["additionalProperties"])
    if "items" in schema:
        result["items"] = values_schema(schema["items"])
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or look whether they are as they should be."""
    parser = argparse.ArgumentParser(prog="hack/generate.py", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something would change")
    check = parser.parse_args(arguments).check
    stale = []
    for name, content in files().items():
        path = ROOT / name
        if path.is_file() and path.read_text() == content:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    for name in stale:
        print(f"{name} {'is not what the models say: run make generate' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
