"""Ready containerd roots: every set of images is unpacked once, and each node gets hard links to the result.

What containerd has once committed (blobs, and snapshots that serve as lower layers) it never writes again, so that
nodes can share those files. Only its databases are copied.
"""

import hashlib
import json
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localkube.console import step
from localkube.errors import LocalkubeError
from localkube.layout import Cache, MachineFolder
from localkube.locks import exclusive
from localkube.shell import log_tail, run, succeeds

NAMESPACE = "k8s.io"
_DATABASES = (
    "io.containerd.metadata.v1.bolt/meta.db",
    "io.containerd.snapshotter.v1.overlayfs/metadata.db",
)
_KEPT = 3
_TRIES = 3
# An image that comes under the name of an older one starts a collection of garbage at once. ``ctr images import`` asks
# for each layer whether it is there, and takes no lease on those that are: what only the older image had used may be
# gone when the next layer is to be put on it ("parent snapshot does not exist", containerd 1.6).
_NO_COLLECTION = """[plugins."io.containerd.gc.v1.scheduler"]
  startup_delay = "24h"
  deletion_threshold = 1000000000
  mutation_threshold = 1000000000
"""
_PRIVATE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "slave")
_START_SECONDS = 20


def ensure(cache: Cache, images: dict[str, Path]) -> Path:
    """Return a containerd root that holds exactly these images, made from the most similar one there is."""
    wanted = {name: archive.name for name, archive in images.items()}
    key = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache.golden / key
    if not folder.is_dir():
        with exclusive(cache.locks / "golden", "unpacking images"):
            if not folder.is_dir():
                _build(cache, folder, images, wanted)
                _drop_old(cache)
    (folder / "images.json").touch()
    return folder / "root"


def link(golden: Path, target: Path) -> None:
    """Make a node's containerd root."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Hard links end at file systems: then it has to be a copy.
    if not succeeds(["cp", "--archive", "--link", golden, target]):
        shutil.rmtree(target, ignore_errors=True)
        run(["cp", "--archive", golden, target])
    for database in _DATABASES:
        (target / database).unlink()
        shutil.copy2(golden / database, target / database)


def has(node: MachineFolder, archive: Path, names: list[str]) -> bool:
    """Tell whether a node's images of these names came from this archive."""
    noted = _noted(node)
    return all(noted.get(name) == archive.name for name in names)


def load(node: MachineFolder, archive: Path, names: list[str]) -> None:
    """Load an archive into a running node, and note it."""
    for left in reversed(range(_TRIES)):
        try:
            import_archive(node.containerd_socket, archive)
            break
        except LocalkubeError:
            # As _NO_COLLECTION tells; a node has to collect. The next try makes the layers that are gone itself.
            if not left:
                raise
    node.images.write_text(json.dumps(_noted(node) | dict.fromkeys(names, archive.name), indent=1, sort_keys=True))


def _noted(node: MachineFolder) -> dict[str, str]:
    try:
        noted: dict[str, str] = json.loads(node.images.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return noted


def import_archive(socket: Path, archive: Path) -> None:
    """Load an archive into a running containerd."""
    _ctr(socket, "images", "import", archive)


def collect(socket: Path) -> None:
    """Have containerd drop what no image uses any more, and wait for it."""
    _ctr(socket, "leases", "create", "--id", "collect")
    _ctr(socket, "leases", "delete", "--sync", "collect")


def _ctr(socket: Path, *words: str | Path) -> None:
    run(["ctr", "--address", socket, "--namespace", NAMESPACE, *words])


@contextmanager
def containerd(folder: Path) -> Iterator[Path]:
    """Run a containerd without Kubernetes' part; its mounts stay out of sight, and it never outlives this process."""
    socket, log, config = folder / "c.sock", folder / "containerd.log", folder / "config.toml"
    config.write_text(
        f'version = 2\nroot = "{folder}/root"\nstate = "{folder}/state"\n'
        f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\n  address = "{socket}"\n' + _NO_COLLECTION
    )
    with log.open("w") as output:
        process = subprocess.Popen(
            [*_PRIVATE, "containerd", "--config", str(config)],
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not (socket.exists() and succeeds(["ctr", "--address", socket, "version"])):
            if process.poll() is not None or time.monotonic() > deadline:
                raise LocalkubeError("containerd does not start", log=log_tail(log))
            time.sleep(0.05)
        yield socket
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        for rest in (socket, folder / "c.sock.ttrpc", config):
            rest.unlink(missing_ok=True)
        shutil.rmtree(folder / "state", ignore_errors=True)


def _build(cache: Cache, folder: Path, images: dict[str, Path], wanted: dict[str, str]) -> None:
    cache.golden.mkdir(parents=True, exist_ok=True)
    base, present = _most_similar(cache, wanted)
    missing = {archive for name, archive in images.items() if present.get(name) != archive.name}
    with tempfile.TemporaryDirectory(dir=cache.golden, prefix=".building-") as name:
        fresh = Path(name) / "golden"
        fresh.mkdir()
        if base:
            link(base / "root", fresh / "root")
        with step(f"unpacking {len(missing)} image archives once for all nodes"), containerd(fresh) as socket:
            for archive in sorted(missing):
                import_archive(socket, archive)
            for image in sorted(present.keys() - wanted.keys()):
                _ctr(socket, "images", "remove", image)
            collect(socket)
        (fresh / "images.json").write_text(json.dumps(wanted, indent=1, sort_keys=True))
        fresh.rename(folder)


def _most_similar(cache: Cache, wanted: dict[str, str]) -> tuple[Path | None, dict[str, str]]:
    best: tuple[Path | None, dict[str, str]] = (None, {})
    most = 0
    for file in cache.golden.glob("[!.]*/images.json"):
        images: dict[str, str] = json.loads(file.read_text())
        common = len(images.items() & wanted.items())
        if common > most:
            best, most = (file.parent, images), common
    return best


def _drop_old(cache: Cache) -> None:
    files = sorted(cache.golden.glob("[!.]*/images.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[_KEPT:]:
        shutil.rmtree(file.parent)
    for rest in cache.golden.glob(".building-*"):
        shutil.rmtree(rest)
