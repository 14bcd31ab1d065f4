"""Building with buildah, in a storage of our own."""

import contextlib
import os
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from images.catalog import Image, base_reference

_CA_BUNDLE: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_CA_IN_BUILD: Final = "/run/build-ca.crt"
_DRIVERS: Final = ("overlay", "vfs")
_TAIL: Final = 40
_UNTAGGED: Final = 40
"""Layers of earlier builds that are kept to be used again."""


class BuildError(Exception):
    """A command of the build failed; the message ends with its last lines."""


@dataclass(frozen=True)
class Buildah:
    """buildah with one storage folder and the fastest storage driver that works in it."""

    storage: Path
    driver: str

    def _storage_options(self) -> list[str]:
        root, run = self.storage / "root", self.storage / "run"
        return ["--storage-driver", self.driver, "--root", str(root), "--runroot", str(run)]

    def run(self, *arguments: str) -> str:
        """Run one buildah command and return its standard output."""
        done = subprocess.run(
            ["buildah", *self._storage_options(), *arguments],
            env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            lines = (done.stdout + done.stderr).splitlines()
            raise BuildError(f"buildah {arguments[0]} failed:\n" + "\n".join(lines[-_TAIL:]))
        return done.stdout

    def has(self, reference: str) -> bool:
        """Tell whether an image of this name is in the storage."""
        return bool(self.run("images", "--quiet", "--filter", f"reference={reference}").strip())

    def import_base(self, suite: str, tar: Path, key: str) -> None:
        """Make a root file system the image that the Dockerfiles' FROM lines name, unless it is."""
        ours = f"localhost/base/{suite}:{key}"
        if not self.has(ours):
            container = self.run("from", "scratch").strip()
            self.run("add", "--quiet", container, str(tar), "/")
            self.run("config", "--cmd", "bash", container)
            self.run("commit", "--quiet", "--rm", container, ours)
        self.run("tag", ours, base_reference(suite))

    def build(self, root: Path, image: Image) -> None:
        """Build one image from its Dockerfile; layers of earlier builds are used again."""
        target = ["--target", image.target] if image.target else []
        arguments = [f"--build-arg={name}={value}" for name, value in image.args.items()]
        # Beside the image's own bundle, which the packages of the build replace.
        mount = [f"--volume={_CA_BUNDLE}:{_CA_IN_BUILD}:ro", f"--build-arg=PIP_CERT={_CA_IN_BUILD}"]
        trust = mount if image.needs_https and _CA_BUNDLE.is_file() else []
        self.run(
            *("bud", "--layers", "--force-rm", "--pull-never", "--tag", image.reference),
            *("--file", str(root / image.dockerfile)),
            *(*target, *arguments, *trust, str(root / image.context)),
        )

    def tidy(self) -> None:
        """Drop the layers of earlier builds once there are many; the next build makes some of them again."""
        if len(self.run("images", "--quiet", "--filter", "dangling=true").split()) > _UNTAGGED:
            # What another build uses at this moment stays, and buildah calls that an error.
            with contextlib.suppress(BuildError):
                self.run("rmi", "--prune")

    def save(self, reference: str, tar: Path) -> None:
        """Write an image as an archive that containerd, Docker and Podman can load."""
        # A name of its own for each thread: two runs may save the same image at once.
        unfinished = tar.with_name(f".{tar.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            self.run("push", "--quiet", reference, f"docker-archive:{unfinished}:{reference}")
            unfinished.rename(tar)
        finally:
            unfinished.unlink(missing_ok=True)


def open_storage(folder: Path) -> Buildah:
    """Return buildah with a storage in the folder, by the first driver that can mount there."""
    for driver in _DRIVERS:
        candidate = Buildah(folder / driver, driver)
        candidate.storage.mkdir(parents=True, exist_ok=True)
        try:
            container = candidate.run("from", "scratch").strip()
            candidate.run("mount", container)
            candidate.run("rm", container)
        except BuildError:
            shutil.rmtree(candidate.storage, ignore_errors=True)
            continue
        return candidate
    raise BuildError("buildah can use neither overlay nor vfs here")
