from __future__ import annotations

import pytest

from slurmcluster_operator.api.slurm_conf import KEYS, OWNED, problem, settable

RECORDS = ("NodeName", "PartitionName", "NodeSet", "DownNodes", "Include")
"""Lines with several keys, and other files."""


def test_owned_keys_are_real() -> None:
    # Include is no key of the table: the parser itself knows it.
    assert OWNED.keys() - frozenset().union(*KEYS.values()) == {"Include"}


def test_no_two_keys_differ_in_case_only() -> None:
    for keys in KEYS.values():
        assert len({key.lower() for key in keys}) == len(keys)


@pytest.mark.parametrize("key", ["AuthType", "ClusterName", "CredType", "HashPlugin", "SlurmctldPort", "TLSType"])
def test_what_a_reconfiguration_cannot_change_cannot_be_set(key: str) -> None:
    assert key in OWNED


@pytest.mark.parametrize("key", RECORDS)
@pytest.mark.parametrize("version", KEYS)
def test_lines_with_several_keys_cannot_be_set(key: str, version: str) -> None:
    assert key not in settable(version)
    assert "is set by" in problem(key, version)
    assert "is set by" in problem(key.upper(), version)


def test_a_slip_in_case_is_answered_with_the_right_key() -> None:
    assert problem("killwait", "26.05") == "killwait is not a slurm.conf key of Slurm 26.05; did you mean KillWait?"
    assert problem("resumetimeout", "26.05") == "resumetimeout is set by spec.pools[].startTimeout"
    assert not problem("KillWait", "26.05")
