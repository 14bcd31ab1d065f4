from __future__ import annotations

import asyncio
import base64
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from slurmcluster_operator.runtime.health import STUCK_SECONDS, HealthServer
from slurmcluster_operator.runtime.secrets import database_credentials, slurm_keys, ssh_host_keys
from slurmcluster_operator.settings import Settings


def test_host_keys_are_what_sshd_reads(tmp_path: Path) -> None:
    keys = ssh_host_keys()
    for kind, word in (("ed25519", b"ssh-ed25519"), ("ecdsa", b"ecdsa-sha2-nistp256"), ("rsa", b"ssh-rsa")):
        private = tmp_path / kind
        private.write_bytes(keys[f"ssh_host_{kind}_key"])
        private.chmod(0o600)
        shown = subprocess.run(["ssh-keygen", "-y", "-f", str(private)], capture_output=True, check=True).stdout
        assert shown.split()[:2] == keys[f"ssh_host_{kind}_key.pub"].split()[:2]
        assert shown.startswith(word)


def test_keys_and_passwords_are_long_and_never_the_same() -> None:
    one, other = slurm_keys(), slurm_keys()
    assert len(one["slurm.key"]) == 1024
    assert len(one["jwt.key"]) >= 32
    assert one != other
    assert len(base64.urlsafe_b64decode(database_credentials()["password"] + b"=")) >= 32
    assert database_credentials() != database_credentials()


def health(age: float, *, synced: bool = True) -> HealthServer:
    loop = SimpleNamespace(finished_at=time.monotonic() - age, woken=asyncio.Event())
    return HealthServer({("team", "demo"): loop}, lambda: synced)  # type: ignore[dict-item]


def test_a_loop_that_turns_is_alive_and_one_that_is_stuck_is_not() -> None:
    assert health(1).check("/healthz")[0] == 200
    assert health(STUCK_SECONDS + 1).check("/healthz")[0] == 500
    assert HealthServer({}, lambda: True).check("/healthz")[0] == 200


def test_ready_means_that_the_first_lists_are_complete() -> None:
    assert health(1).check("/readyz")[0] == 200
    assert health(1, synced=False).check("/readyz")[0] == 503
    assert health(1).check("/else")[0] == 404


def test_slurmctld_wakes_its_own_cluster_and_no_other() -> None:
    server = health(1)
    assert server.check("/wake/team/other")[0] == 404
    assert not server._loops["team", "demo"].woken.is_set()
    assert server.check("/wake/team/demo")[0] == 200
    assert server._loops["team", "demo"].woken.is_set()


def test_settings_come_from_the_environment_and_are_checked() -> None:
    found = Settings.from_environment({"SLURMCLUSTER_REGISTRY": "example.com/x", "SLURMCLUSTER_LOG_LEVEL": "debug"})
    assert (found.platform.registry, found.log_level) == ("example.com/x", "DEBUG")
    for name, value in (("SLURMCLUSTER_LOG_LEVEL", "loud"), ("SLURMCLUSTER_HEALTH_PORT", "http")):
        with pytest.raises(ValueError, match=name):
            Settings.from_environment({name: value})
