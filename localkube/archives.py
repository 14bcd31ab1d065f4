"""Container images in tar files: which names they carry, and the collection that every new cluster starts with."""

import hashlib
import io
import json
import tarfile
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from localkube.config import PAUSE_IMAGE
from localkube.console import say
from localkube.errors import LocalkubeError
from localkube.layout import SOURCE, Cache
from localkube.locks import exclusive
from localkube.shell import run

_CONTAINERD_NAME = "io.containerd.image.name"
_OCI_NAME = "org.opencontainers.image.ref.name"
_CHUNK = 4 << 20
_ADVICE = (
    "Write it with its full name, for example `buildah push IMAGE docker-archive:FILE.tar:docker.io/me/image:tag`, "
    "or `docker save docker.io/me/image:tag`."
)


def remember(cache: Cache, archives: list[Path]) -> dict[str, Path]:
    """Copy archives into the cache, where the next `up` finds them, and return the copies by image name."""
    remembered: dict[str, Path] = {}
    with unchanged(cache):
        for archive in archives:
            names = image_names(archive)
            copy = _copy(archive, cache.images)
            remembered.update(dict.fromkeys(names, copy))
        index = {**_read_index(cache), **{name: copy.name for name, copy in remembered.items()}}
        _write_index(cache, index)
    return remembered


def unchanged(cache: Cache) -> AbstractContextManager[None]:
    """Keep others from replacing archives that are being read."""
    return exclusive(cache.locks / "images", "using the images")


def forget_all(cache: Cache) -> None:
    """Drop every remembered image."""
    with unchanged(cache):
        _write_index(cache, {})


def collection(cache: Cache) -> dict[str, Path]:
    """Return the remembered archives by image name, the pause image among them."""
    found = {name: cache.images / file for name, file in _read_index(cache).items()}
    return {PAUSE_IMAGE: _pause_archive(cache), **{name: file for name, file in found.items() if file.exists()}}


def image_names(archive: Path) -> list[str]:
    """Read the full names of the images in an archive."""
    try:
        with tarfile.open(archive) as tar:
            names = _docker_names(tar) or _oci_names(tar)
    except (OSError, tarfile.TarError, KeyError, ValueError) as error:
        raise LocalkubeError(f"{archive} is not an image archive: {error}", advice=_ADVICE) from error
    unqualified = [name for name in names if "." not in name.split("/")[0] or "/" not in name]
    if not names or unqualified:
        what = f"the name {unqualified[0]!r} lacks its registry" if unqualified else "it names no image"
        raise LocalkubeError(f"{archive} cannot be used: {what}", advice=_ADVICE)
    return names


def with_containerd_names(index: dict[str, Any]) -> dict[str, Any]:
    """Return an OCI index in containerd's dialect: containerd makes names of its own from the standard ones."""
    manifests = []
    for manifest in index.get("manifests", []):
        annotations = dict(manifest.get("annotations", {}))
        if _OCI_NAME in annotations:
            annotations.setdefault(_CONTAINERD_NAME, annotations[_OCI_NAME])
        manifests.append({**manifest, "annotations": annotations})
    return {**index, "manifests": manifests}


def write_image(target: Path, program: Path, name: str) -> None:
    """Pack one static program as an image; the same program gives the same bytes."""
    layer = _tar({program.name: (program.read_bytes(), 0o755)})
    config = json.dumps(
        {
            "architecture": run(["go", "env", "GOARCH"]).strip(),
            "os": "linux",
            "config": {"Entrypoint": [f"/{program.name}"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    files = {"config.json": config, "layer.tar": layer, "manifest.json": manifest}
    target.write_bytes(_tar({file: (content, 0o644) for file, content in files.items()}))


def _docker_names(tar: tarfile.TarFile) -> list[str]:
    if "manifest.json" not in tar.getnames():
        return []
    return [name for image in _member(tar, "manifest.json") for name in image.get("RepoTags") or []]


def _oci_names(tar: tarfile.TarFile) -> list[str]:
    manifests = with_containerd_names(_member(tar, "index.json"))["manifests"]
    return [m["annotations"][_CONTAINERD_NAME] for m in manifests if _CONTAINERD_NAME in m["annotations"]]


def _member(tar: tarfile.TarFile, name: str) -> Any:
    file = tar.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no file")
    return json.load(file)


def _copy(archive: Path, folder: Path) -> Path:
    """Copy, not link: builders write their output files anew in place."""
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".copying-", delete=False) as target:
        try:
            with archive.open("rb") as source:
                while chunk := source.read(_CHUNK):
                    digest.update(chunk)
                    target.write(chunk)
            target.flush()
            _name_for_containerd(Path(target.name))
            copy = folder / f"{digest.hexdigest()}.tar"
            Path(target.name).rename(copy)
        except BaseException:
            Path(target.name).unlink(missing_ok=True)
            raise
    return copy


def _name_for_containerd(archive: Path) -> None:
    """Add a second index to an OCI archive; readers take the last one."""
    with tarfile.open(archive) as tar:
        members = tar.getnames()
        if "manifest.json" in members:
            return
        index = json.dumps(with_containerd_names(_member(tar, "index.json"))).encode()
    with tarfile.open(archive, "a:") as tar:
        entry = tarfile.TarInfo("index.json")
        entry.size = len(index)
        tar.addfile(entry, io.BytesIO(index))


def _pause_archive(cache: Cache) -> Path:
    source = SOURCE / "pause.c"
    archive = cache.images / f"pause-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}.tar"
    if not archive.exists():
        cache.images.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.images, prefix=".copying-") as name:
            program, fresh = Path(name) / "pause", Path(name) / "pause.tar"
            run(["gcc", "-static", "-Os", "-s", "-o", program, source])
            write_image(fresh, program, PAUSE_IMAGE)
            fresh.rename(archive)
    return archive


def _read_index(cache: Cache) -> dict[str, str]:
    try:
        index: dict[str, str] = json.loads((cache.images / "index.json").read_text())
    except FileNotFoundError:
        return {}
    return index


def _write_index(cache: Cache, index: dict[str, str]) -> None:
    """Replace the index, and remove the archives that only the old one names: those and no other file."""
    superseded = set(_read_index(cache).values()) - set(index.values())
    cache.images.mkdir(parents=True, exist_ok=True)
    fresh = cache.images / "index.new"
    fresh.write_text(json.dumps(index, indent=1, sort_keys=True))
    fresh.rename(cache.images / "index.json")
    for name in superseded:
        say(f"dropping the superseded archive {name[:12]}")
        (cache.images / name).unlink(missing_ok=True)


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    """Make a tar without times and owners, so that equal content gives equal bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
