from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

from benchmarks.machines import Machines, unpack


def _layer(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size, member.uid, member.gid = len(content), 0, 0
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def test_later_layers_replace_and_remove_files(tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    layers = {
        "one.tar": _layer(etc__kept=b"1", etc__changed=b"1", etc__gone=b"1", folder__file=b"1"),
        "two.tar": _layer(**{"etc__changed": b"2", "etc__.wh.gone": b"", ".wh.folder": b""}),
    }
    with tarfile.open(archive, "w") as image:
        for name, content in {**layers, "manifest.json": json.dumps([{"Layers": [*layers]}]).encode()}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            image.addfile(member, io.BytesIO(content))
    unpack(archive, tmp_path / "root")
    files = {str(path.relative_to(tmp_path / "root")): path for path in (tmp_path / "root").rglob("*")}
    assert sorted(files) == ["etc", "etc/changed", "etc/kept"]
    assert files["etc/changed"].read_bytes() == b"2"


def test_every_machine_has_an_address_of_its_own() -> None:
    addresses = {Machines.address(number) for number in range(1000)}
    assert len(addresses) == 1000
    assert "10.78.0.1" not in addresses  # the hub's
