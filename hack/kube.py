"""kubectl, as the tools of this folder use it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hack.shell import capture, show

Json = dict[str, Any]


@dataclass(frozen=True)
class Kubectl:
    """kubectl for one cluster; ``namespace`` is put into the commands that name none themselves."""

    env: Mapping[str, str]
    namespace: str = ""
    root: Path | None = None
    """The folder in which commands run; the current one when not set."""

    def show(self, *words: str) -> str:
        """Run a command in front of the reader."""
        return show(["kubectl", *self._scope, *words], env=self.env, cwd=self.root)

    def get(self, *words: str) -> Json:
        """Read objects."""
        result: Json = json.loads(self.text("get", *words, "-o", "json"))
        return result

    def names(self, kind: str, selector: str) -> list[str]:
        """List the names of objects that carry labels."""
        listed = self.text("get", kind, "-l", selector, "-o", "jsonpath={.items[*].metadata.name}")
        return listed.split()

    def text(self, *words: str, stdin: str | None = None) -> str:
        """Run a command quietly and return what it printed."""
        return capture(["kubectl", *self._scope, *words], env=self.env, stdin=stdin)

    def apply(self, *objects: Json) -> None:
        """Apply objects quietly."""
        self.text("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    @property
    def _scope(self) -> list[str]:
        return ["-n", self.namespace] if self.namespace else []


@dataclass(frozen=True)
class Chart:
    """How the operator is installed."""

    root: Path
    values: Mapping[str, str] = field(default_factory=dict)
    release: str = "slurmcluster-operator"
    namespace: str = "slurmcluster-system"

    def install(self, env: Mapping[str, str]) -> None:
        """Install or upgrade, and wait until the operator is ready."""
        words = ["helm", "upgrade", "--install", self.release, f"charts/{self.release}"]
        words += ["--namespace", self.namespace, "--create-namespace", "--wait", "--timeout", "3m"]
        for name, value in self.values.items():
            words += ["--set-string", f"{name}={value}"]
        # What the notes tell to do, the caller does.
        show(words, env=env, cwd=self.root, until="NOTES:")


def condition(resource: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return one condition of a resource, or an empty one."""
    conditions = resource.get("status", {}).get("conditions", ())
    return next((one for one in conditions if one["type"] == kind), {})
