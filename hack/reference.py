"""docs/reference.md: every field, rule, condition, label, variable and chart value, read from where each is defined."""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import yaml

from slurmcluster_operator.api import slurm_conf
from slurmcluster_operator.api.crd import custom_resource_definition
from slurmcluster_operator.api.schema import VALIDATIONS
from slurmcluster_operator.api.status import CONDITIONS
from slurmcluster_operator.model import names
from slurmcluster_operator.model.fleet import Tolerance
from slurmcluster_operator.settings import Settings

Json = Mapping[str, Any]

_DEFAULTS: Final = Settings.from_environment({})
_VARIABLES: Final = {
    "SLURMCLUSTER_REGISTRY": (
        _DEFAULTS.platform.registry,
        "Registry and path in front of the image names of clusters that name none themselves.",
    ),
    "SLURMCLUSTER_CLUSTER_DOMAIN": (_DEFAULTS.platform.cluster_domain, "The Kubernetes cluster's DNS domain."),
    "SLURMCLUSTER_NAMESPACE": (
        _DEFAULTS.platform.operator_namespace,
        "The operator's own namespace: its pods there may reach slurmrestd.",
    ),
    "SLURMCLUSTER_REST_PROXY": (
        _DEFAULTS.platform.rest_proxy,
        "An HTTP proxy between the operator and every slurmrestd; none when empty.",
    ),
    "SLURMCLUSTER_WAKE_URL": (
        _DEFAULTS.platform.wake_url,
        "The operator's own address, where slurmctld says that it wants nodes; unused when empty.",
    ),
    "SLURMCLUSTER_LOG_LEVEL": (_DEFAULTS.log_level, "DEBUG, INFO, WARNING or ERROR."),
    "SLURMCLUSTER_HEALTH_PORT": (
        str(_DEFAULTS.health_port),
        "Port of `/healthz`, `/readyz`, `/metrics` and `/wake/NAMESPACE/NAME`.",
    ),
    "SLURMCLUSTER_SYSTEM_NAMESPACES": (
        ",".join(sorted(Tolerance().system_namespaces)),
        "Namespaces, joined by commas, whose pods may run on every node; the operator's own is one.",
    ),
    "SLURMCLUSTER_GPU_RESOURCES": (
        ",".join(_DEFAULTS.tolerance.gpu_resources),
        "Resources, joined by commas, that count as GPUs.",
    ),
    "SLURMCLUSTER_ADMISSION": (
        ",".join(_DEFAULTS.admission),
        (
            "The ValidatingAdmissionPolicyBindings, joined by commas, that enforce ownership; enforcement counts as off"
            " when empty."
        ),
    ),
}
"""Each variable's default and what it is."""

_INTRODUCTION: Final = """\
<!-- generated from the models by hack/generate.py, do not edit -->
# Reference

Everything that can be set and read, made from the code. The same texts are in `kubectl explain slc.spec --recursive`
and, for each field, in `kubectl explain slc.spec.pools.nodes`.

* [spec](#spec), [status](#status), [conditions](#conditions)
* [slurm.conf](#slurmconf-keys): which keys can be set, and which are set by the operator
* [labels and annotations](#labels-and-annotations), [environment variables](#environment-variables)
* charts [slurmcluster-operator](#chart-slurmcluster-operator) and [slurm-cluster](#chart-slurm-cluster)

All of it is checked by the API server: a bad value is refused by `kubectl apply`, with the field and the reason.
"""


def text(root: Path) -> str:
    """Return the whole reference."""
    schema = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    head = "## SlurmCluster\n\n`apiVersion: slurmcluster.dev/v1alpha1`, short name `slc`, namespaced.\n"
    values = (
        "`name` (the release's name when empty), `labels`, `annotations`, and under `spec` what is under [spec](#spec)"
        " here.\nHelm refuses what JSON schema can tell; the API server refuses the rest.\n"
    )
    parts = [
        _INTRODUCTION,
        head,
        _rules(schema[VALIDATIONS]),
        *_Objects().describe("spec", schema["properties"]["spec"], "###"),
        *_Objects(defaults=False).describe("status", schema["properties"]["status"], "###"),
        "### Conditions\n",
        _table(("type", "what it says when True"), ((f"`{name}`", words) for name, words in CONDITIONS.items())),
        _slurm_conf(),
        _labels(root / "slurmcluster_operator/model/names.py"),
        _variables(root / "slurmcluster_operator/settings.py"),
        "## Chart slurmcluster-operator\n",
        _chart(root / "charts/slurmcluster-operator"),
        "## Chart slurm-cluster\n",
        values,
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


class _Objects:
    """Describes objects, each kind once."""

    def __init__(self, *, defaults: bool = True) -> None:
        self._defaults = defaults
        self._described: dict[str, str] = {}

    def describe(self, path: str, schema: Json, level: str = "####") -> Iterator[str]:
        """Describe an object's fields in a table, then each object below it."""
        yield f"{level} {path}\n"
        if schema.get("description"):
            yield f"{schema['description']}\n"
        fields: Json = schema["properties"]
        below = {name: found for name, field in fields.items() if (found := _object_in(path, name, field))}
        known = {name: self._described.get(_kind(kind)) for name, (_, kind) in below.items()}
        required = set(schema.get("required", ()))
        rows = []
        for name, field in fields.items():
            again = known.get(name)
            words = _words(field) + (f" Fields as in [{again}](#{_anchor(again)})." if again else "")
            default = (_default(field, required=name in required),) if self._defaults else ()
            rows.append((f"`{name}`", _type(field), *default, words))
        yield _table(("field", "type", *(("default",) if self._defaults else ()), "what it is"), rows)
        yield _rules(schema.get(VALIDATIONS, ()))
        for name, (place, kind) in below.items():
            if not known[name]:
                self._described[_kind(kind)] = place
                yield from self.describe(place, kind)


def _object_in(path: str, name: str, field: Json) -> tuple[str, Json] | None:
    """Return where the object lies that a field holds, alone or in a list, and its schema."""
    place = f"{path}.{name}"
    while "items" in field:
        field, place = field["items"], f"{place}[]"
    return (place, field) if "properties" in field else None


def _kind(schema: Json) -> str:
    """Return what is the same for two objects whose descriptions would be."""
    return json.dumps([schema["properties"], schema.get(VALIDATIONS)], sort_keys=True)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _type(schema: Json) -> str:
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "items" in schema:
        return f"list of {_plural(_type(schema['items']))}"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return f"map to {_plural(_type(schema['additionalProperties']))}"
    kind = str(schema.get("type", "anything"))
    if "minimum" in schema and "maximum" in schema:
        return f"{kind}, {schema['minimum']} to {schema['maximum']}"
    return kind


def _plural(kind: str) -> str:
    return {"string": "strings", "object": "objects", "integer or string": "integers or strings"}.get(kind, kind)


def _default(schema: Json, *, required: bool) -> str:
    if required:
        return "**required**"
    if schema.get("default") in (None, {}):
        return ""
    return f"`{json.dumps(schema['default'])}`" if not isinstance(schema["default"], str) else f"`{schema['default']}`"


def _words(schema: Json) -> str:
    """Return the description and, for a value, what its rules ask for."""
    nested = schema
    while "items" in nested or isinstance(nested.get("additionalProperties"), Mapping):
        nested = nested.get("items") or nested["additionalProperties"]
    said = [schema.get("description", "")]
    if "properties" not in nested:
        subject = "It" if nested is schema else "Each"
        said += [f"{subject} {rule['message']}." for rule in nested.get(VALIDATIONS, ())]
    if "maxItems" in schema:
        said.append(f"At most {schema['maxItems']}.")
    return " ".join(words for words in said if words)


def _rules(rules: Iterable[Json]) -> str:
    """List the rules between an object's fields, with the field that is blamed."""
    lines = []
    for rule in rules:
        blamed = rule.get("fieldPath", "").removeprefix(".")
        prefix = f"`{blamed}`: " if blamed and blamed != "metadata.name" else ""
        lines.append(f"* {prefix}{rule['message']}\n")
    return "Rules:\n\n" + "".join(dict.fromkeys(lines)) if lines else ""


def _slurm_conf() -> str:
    owned = _table(
        ("key", "is set by"),
        ((f"`{key}`", _code(where)) for key, where in sorted(slurm_conf.OWNED.items())),
    )
    takes = (
        "`spec.slurmConf` takes every key that the chosen version of Slurm knows, but for those that the operator sets."
        " Case matters.\n"
    )
    parts = [
        "## slurm.conf keys\n",
        takes,
        owned,
        "A change of any other key is in force within seconds, without a restart.\n",
    ]
    for version in slurm_conf.KEYS:
        parts += [f"Slurm {version} takes:\n", _listed(slurm_conf.settable(version)) + "\n"]
    return "\n".join(parts)


def _listed(keys: Iterable[str]) -> str:
    words = [f"`{key}`" for key in sorted(keys)]
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) > 116:  # noqa: PLR2004 - the width of the page
            lines.append(line)
            line = ""
        line = f"{line}, {word}" if line else word
    return ",\n".join([*lines, line]) + "."


def _labels(source: Path) -> str:
    """Read the labels and annotations, with the texts below them, from where they are defined."""
    rows = []
    body = ast.parse(source.read_text()).body
    for node, follows in pairwise(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.value, ast.Constant):
            continue
        key = str(node.value.value)
        if key.startswith(names.PREFIX) and key != names.PREFIX:
            words = follows.value if isinstance(follows, ast.Expr) else None
            said = str(words.value) if isinstance(words, ast.Constant) else ""
            rows.append((f"`{key}`", _code(" ".join(said.split()))))
    common = (
        "Every object of a cluster carries `app.kubernetes.io/name`, `/part-of` and `/managed-by`, `/instance` (the"
        " cluster's name)\nand `/component` (`controller`, `accounting`, `database`, `restapi`, `login`, `slurmd`,"
        " `home`).\n"
    )
    return "\n".join(["## Labels and annotations\n", common, _table(("key", "what it is"), rows)])


def _variables(source: Path) -> str:
    """List the operator's environment variables; one that is read but not described here is an error."""
    read = dict.fromkeys(re.findall(r'"(SLURMCLUSTER_\w+)"', source.read_text()))
    rows = []
    for name in read:
        default, what = _VARIABLES[name]
        rows.append((f"`{name}`", f"`{default}`" if default else "", what))
    words = "The operator's own; the chart sets them from its values.\n"
    return "\n".join(["## Environment variables\n", words, _table(("variable", "default", "what it is"), rows)])


def _chart(folder: Path) -> str:
    schema = json.loads((folder / "values.schema.json").read_text())
    values = yaml.safe_load((folder / "values.yaml").read_text())
    return _table(("value", "default", "what it is"), _chart_rows(schema, values))


def _chart_rows(schema: Json, values: Json, prefix: str = "") -> Iterator[tuple[str, ...]]:
    for name, default in values.items():
        field = schema["properties"][name]
        if "properties" in field and "description" not in field:
            yield from _chart_rows(field, default, f"{prefix}{name}.")
        else:
            shown = f"`{default}`" if isinstance(default, str) and default else ""
            yield f"`{prefix}{name}`", shown or f"`{json.dumps(default)}`", field.get("description", "")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _code(words: str) -> str:
    """Write RST's code as Markdown's, and a field's path as code."""
    return re.sub(r"(spec\.[\w.\[\]]+)", r"`\1`", words.replace("``", "`"))
