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


def test_an_image_is_unpacked_layer_by_layer_and_tells_of_its_program(tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    layers = {
        "one.tar": _layer(etc__kept=b"1", etc__changed=b"1", etc__gone=b"1", folder__file=b"1"),
        "two.tar": _layer(**{"etc__changed": b"2", "etc__.wh.gone": b"", ".wh.folder": b""}),
    }
    config = {"config": {"User": "7:7", "Env": ["A=1", "B=x=y"], "Cmd": ["run", "it"]}}
    described = {"manifest.json": [{"Layers": [*layers], "Config": "config.json"}], "config.json": config}
    with tarfile.open(archive, "w") as image:
        for name, content in {**layers, **{name: json.dumps(one).encode() for name, one in described.items()}}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            image.addfile(member, io.BytesIO(content))
    unpacked = unpack(archive, tmp_path / "root")
    files = {str(path.relative_to(tmp_path / "root")): path for path in (tmp_path / "root").rglob("*")}
    assert sorted(files) == ["etc", "etc/changed", "etc/kept"]
    assert files["etc/changed"].read_bytes() == b"2"
    assert unpacked.env == {"A": "1", "B": "x=y"}
    assert unpacked.in_it() == ["chroot", "--userspec=7:7", str(tmp_path / "root"), "/usr/bin/env", "run", "it"]


def test_every_machine_has_an_address_of_its_own() -> None:
    addresses = {Machines.address(number) for number in range(1000)}
    assert len(addresses) == 1000
    assert "10.78.0.1" not in addresses  # the hub's
