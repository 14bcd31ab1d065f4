from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from localkube.layout import Cache

CHARTS = Path(__file__).resolve().parents[3] / "charts"

Helm = Callable[..., subprocess.CompletedProcess[str]]
Render = Callable[..., dict[str, Any]]


def find_helm() -> str:
    """Return helm: the one on PATH, else localkube's newest; nothing before either is built."""
    built = Cache.from_environment().toolchains.glob("*/helm")
    return shutil.which("helm") or max(map(str, built), key=lambda path: Path(path).stat().st_mtime, default="")


def _key(document: dict[str, Any], kinds: Counter[str]) -> str:
    kind = str(document["kind"])
    return kind if kinds[kind] == 1 else f"{kind}/{document['metadata']['name']}"


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Helm, on one of our charts. Without it these tests are skipped; they run again with the end-to-end tests."""
    program = find_helm()
    if not program:
        pytest.skip("helm is not built yet: python3 -m localkube bin")

    def run(command: str, chart: str, *arguments: str, release: str = "") -> subprocess.CompletedProcess[str]:
        words = [program, command, *([release] if release else []), str(CHARTS / chart), *arguments]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)

    return run


@pytest.fixture(scope="session")
def render(helm: Helm) -> Render:
    """Render a chart; return its objects by kind, and as ``Kind/name`` those of which there are several."""

    def objects(chart: str, *arguments: str, release: str = "slurmcluster-operator") -> dict[str, Any]:
        done = helm("template", chart, *arguments, release=release)
        assert done.returncode == 0, done.stderr
        documents = [document for document in yaml.safe_load_all(done.stdout) if document]
        kinds = Counter(document["kind"] for document in documents)
        found = {_key(document, kinds): document for document in documents}
        assert len(found) == len(documents), "two objects of a kind and name"
        return found

    return objects
