"""Building the cluster's programs from published Go modules, and finding them built.

A family is a folder under `go/` with a go.mod of its own: what has to be compiled together shares one, and the rest
stays apart, so that one family's versions never bend another's.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from localkube.console import step
from localkube.errors import LocalkubeError
from localkube.layout import SOURCE, Cache
from localkube.locks import exclusive
from localkube.shell import run

KUBERNETES_VERSION = "1.34.4"
_VERSION_VARIABLES = "k8s.io/component-base/version.git"


@dataclass(frozen=True)
class Family:
    """Programs that are built from one go.mod."""

    name: str
    packages: tuple[str, ...] = ("tool",)
    ldflags: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()

    @property
    def source(self) -> Path:
        """The folder with go.mod, go.sum and, for our own programs, the sources."""
        return SOURCE / "go" / self.name


# Clients see version v0.0.0-master unless the version is set.
KUBERNETES = Family(
    "kubernetes",
    ldflags=(
        f"-X={_VERSION_VARIABLES}Version=v{KUBERNETES_VERSION}",
        f"-X={_VERSION_VARIABLES}Major={KUBERNETES_VERSION.split('.', maxsplit=1)[0]}",
        f"-X={_VERSION_VARIABLES}Minor={KUBERNETES_VERSION.split('.')[1]}",
        f"-X={_VERSION_VARIABLES}TreeState=clean",
    ),
)
# To add a family: a folder go/NAME made with `go get -tool PACKAGE@VERSION`, a line here or in EXTRAS.
# Kubernetes stands first: it takes longest, and others share parts of it in Go's build cache.
FAMILIES = (
    KUBERNETES,
    Family("etcd", rename=(("server", "etcd"),)),
    Family("agents", packages=(".",), rename=(("agents", "localkube-agents"),)),
    Family("coredns"),
    Family("helm"),
)
# What no cluster needs is built only for those who name it.
EXTRAS = (Family("kwok"),)


def with_extras(names: Sequence[str]) -> tuple[Family, ...]:
    """Return the families of every cluster, and those of the extras with these names."""
    extras = {family.name: family for family in EXTRAS}
    unknown = [name for name in names if name not in extras]
    if unknown:
        raise LocalkubeError(f"there are no extra programs {unknown[0]}", advice=f"There are: {', '.join(extras)}.")
    return *FAMILIES, *(extras[name] for name in dict.fromkeys(names))


def ensure_toolchain(cache: Cache, families: Iterable[Family] = FAMILIES) -> Path:
    """Build what is missing and return a folder with links to all programs, fit for PATH."""
    if not shutil.which("go"):
        raise LocalkubeError("Go is not installed", advice="Install Go 1.26 or newer, and put it on PATH.")
    compiler = run(["go", "env", "GOVERSION", "GOOS", "GOARCH"]).replace("\n", " ").strip()
    folders = {family: cache.families / f"{family.name}-{family_key(family, compiler)}" for family in families}
    key = hashlib.sha256("\n".join(folder.name for folder in folders.values()).encode()).hexdigest()[:16]
    toolchain = cache.toolchains / key
    if all(folder.is_dir() for folder in (*folders.values(), toolchain)):
        return toolchain
    with exclusive(cache.locks / "build", "building the programs"):
        for family, folder in folders.items():
            if not folder.is_dir():
                _build(family, folder)
        _publish_links(toolchain, folders.values())
    return toolchain


def family_key(family: Family, compiler: str) -> str:
    """Name a family's content: the same inputs give the same programs, in any checkout."""
    digest = hashlib.sha256()
    inputs = [compiler, *family.packages, *family.ldflags, *(f"{old}={new}" for old, new in family.rename)]
    digest.update("\0".join(inputs).encode())
    for path in sorted(family.source.rglob("*")):
        if path.is_file() and not path.name.endswith("_test.go"):
            digest.update(f"\0{path.relative_to(family.source)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _build(family: Family, folder: Path) -> None:
    """Build into a temporary folder and rename it, so that a half-built family is never found."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as name:
        target = Path(name) / family.name
        target.mkdir()
        flags = ["-trimpath", "-mod=readonly", "-ldflags", " ".join(("-s", "-w", *family.ldflags))]
        with step(f"building {family.name}", announce=True):
            run(
                ["nice", "-n", "5", "go", "build", *flags, "-o", f"{target}/", *family.packages],
                cwd=family.source,
                env={**os.environ, "CGO_ENABLED": "0"},
                advice="The Go module proxy must be reachable (see `go env GOPROXY`); a second try goes on from here.",
            )
        for old, new in family.rename:
            (target / old).rename(target / new)
        target.rename(folder)


def _publish_links(toolchain: Path, folders: Iterable[Path]) -> None:
    toolchain.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=toolchain.parent, prefix=".linking-") as name:
        target = Path(name) / toolchain.name
        target.mkdir()
        for folder in folders:
            for program in folder.iterdir():
                (target / program.name).symlink_to(program)
        shutil.rmtree(toolchain, ignore_errors=True)
        target.rename(toolchain)
