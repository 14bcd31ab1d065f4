"""localkube under test: instances of its own, beside whatever else runs on the machine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from localkube import archives
from localkube.families import ensure_toolchain
from localkube.layout import Cache
from localkube.locks import exclusive
from localkube.plan import Instance
from tests.localkube.support import IMAGE, Localkube, run_pod, service

_NUMBER, _SECOND = 9, 7


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an archive of the image that pods run."""
    folder = tmp_path_factory.mktemp("probe")
    source = Path(__file__).parent / "probe" / "main.go"
    subprocess.run(
        ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(folder / "probe"), str(source)],
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
    archives.write_image(folder / "probe.tar", folder / "probe", IMAGE)
    return folder / "probe.tar"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache with the programs that are built, and with no images: those of others are not our business."""
    shared = Cache.from_environment()
    programs = ensure_toolchain(shared)
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    root = tmp_path_factory.mktemp("cache")
    own = Cache(root / "localkube")
    own.root.mkdir()
    own.families.symlink_to(shared.families)
    own.toolchains.symlink_to(shared.toolchains)
    return root


@pytest.fixture(scope="session")
def localkube(cache: Path) -> Iterator[Localkube]:
    """The instance under test, free of what an interrupted run has left; two runs at once wait for each other."""
    # Whoever is told to end cleans up first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with exclusive(Path("/run/lock/localkube-tests"), "testing localkube"):
        found = Localkube(Instance(_NUMBER), cache)
        found("down")
        yield found
        found("down")


@pytest.fixture(scope="session")
def second(localkube: Localkube) -> Iterator[Localkube]:
    """Another instance."""
    found = Localkube(Instance(_SECOND), localkube.cache)
    found("down")
    yield found
    found("down")


@pytest.fixture
def cluster(localkube: Localkube, probe: Path) -> Localkube:
    """The instance with a cluster of two nodes, on which pod ``web`` runs behind a Service; repaired where needed."""
    localkube("up", "--workers", "1", "--gpus", "2", "--image", str(probe))
    run_pod(localkube.kubectl, "web", "worker-0")
    localkube.kubectl.apply(service("web", "LoadBalancer"))
    return localkube
