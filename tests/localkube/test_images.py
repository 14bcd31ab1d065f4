"""Images in a containerd that no node runs yet."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from localkube import archives, golden

NAME = "docker.io/localkube/changed:1"
_COLLECTION_SECONDS = 2
"""containerd begins at once, and needs milliseconds for two images."""


def _archive(folder: Path, content: str) -> Path:
    program = folder / content
    program.write_text(content)
    archives.write_image(folder / f"{content}.tar", program, NAME)
    return folder / f"{content}.tar"


def _layers(socket: Path) -> int:
    command = ["ctr", "--address", str(socket), "--namespace", golden.NAMESPACE, "snapshots", "list"]
    return len(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()) - 1


def test_the_layers_of_a_replaced_image_stay_until_everything_is_unpacked(tmp_path: Path) -> None:
    with golden.containerd(tmp_path) as socket:
        golden.import_archive(socket, _archive(tmp_path, "one"))
        golden.import_archive(socket, _archive(tmp_path, "two"))
        time.sleep(_COLLECTION_SECONDS)
        assert _layers(socket) == 2
        golden.collect(socket)
        assert _layers(socket) == 1
