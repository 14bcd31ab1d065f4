"""Kubernetes objects as YAML that people read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml


def to_text(documents: Iterable[dict[str, Any]]) -> str:
    """Return the documents as YAML, their fields in the order in which they were built."""
    text: str = yaml.dump_all(list(documents), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return text


class _Dumper(yaml.SafeDumper):
    """Writes shared parts out each time, files as they are, and lists as people indent them."""

    def ignore_aliases(self, data: Any) -> bool:
        """Never write an anchor."""
        del data
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002 - PyYAML's
        """Indent lists below their key."""
        del indentless
        super().increase_indent(flow, indentless=False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
