from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

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


def test_settings_come_from_the_environment_and_are_checked() -> None:
    found = Settings.from_environment({"SLURMCLUSTER_REGISTRY": "example.com/x", "SLURMCLUSTER_LOG_LEVEL": "debug"})
    assert (found.platform.registry, found.log_level) == ("example.com/x", "DEBUG")
    for name, value in (("SLURMCLUSTER_LOG_LEVEL", "loud"), ("SLURMCLUSTER_HEALTH_PORT", "http")):
        with pytest.raises(ValueError, match=name):
            Settings.from_environment({name: value})
