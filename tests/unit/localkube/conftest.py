"""Unit tests reach no part of the machine, even when the code under test is wrong and they run as root."""

import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from localkube import cgroups, clients, golden, host, machines, network, removal, shell


def _refuse(*arguments: object, **_: Any) -> NoReturn:
    pytest.fail(f"a unit test tried to change the machine: {arguments}")


@pytest.fixture(autouse=True)
def _no_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Cut every way out: programs, network, cgroups, kernel settings, and the usual folders."""
    for module in (shell, network, golden, clients, removal, machines):
        for name in ("run", "succeeds"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, _refuse)
    for name in ("create_bridge", "connect", "disconnect", "remove_machines", "remove_bridge", "set_cable", "swallow"):
        monkeypatch.setattr(network, name, _refuse)
    for name in ("restore_sysctls", "raise_limits", "create_mount_points"):
        monkeypatch.setattr(host, name, _refuse)
    monkeypatch.setattr(host, "_LOCK", tmp_path / "lock")
    for function in (cgroups.create, cgroups.remove):
        monkeypatch.setattr(
            function, "__defaults__", tuple(_nowhere(value, tmp_path) for value in function.__defaults__ or ())
        )
    for name in ("LOCALKUBE_STATE", "LOCALKUBE_CACHE"):
        monkeypatch.setitem(os.environ, name, str(tmp_path / name))
    monkeypatch.delenv("LOCALKUBE_INSTANCE", raising=False)


def _nowhere(default: object, tmp_path: Path) -> object:
    return tmp_path / "no-cgroups" if isinstance(default, Path) else default
