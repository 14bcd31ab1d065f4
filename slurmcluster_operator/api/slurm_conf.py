"""Which slurm.conf keys a user may set, and which are ours.

``slurm_conf_keys.json`` lists every key that the parser of each Slurm version knows, in the spelling of slurm.conf(5).
Those that it knows only to say that they were removed are left out. A change of any key that can be set is applied by
reconfiguration: slurmctld hands over to a new process that reads everything anew. The few that such a process cannot
change (ClusterName, SlurmctldPort, how daemons speak to each other) are all ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, Final

from slurmcluster_operator.api.schema import Rule

_DATA: Final = json.loads(resources.files(__package__).joinpath("slurm_conf_keys.json").read_text())

KEYS: Final[dict[str, frozenset[str]]] = {version: frozenset(keys) for version, keys in _DATA["keys"].items()}
"""Slurm version to the keys that it knows."""

OWNED: Final[dict[str, str]] = {
    "AccountingStorageHost": "spec.accounting",
    "AccountingStorageBackupHost": "spec.accounting",
    "AccountingStoragePort": "spec.accounting",
    "AccountingStoragePass": "spec.accounting",
    "AccountingStorageUser": "spec.accounting",
    "AccountingStorageType": "spec.accounting",
    "AuthAltParameters": "the operator (JWT for slurmrestd)",
    "AuthAltTypes": "the operator (JWT for slurmrestd)",
    "AuthInfo": "the operator (auth/slurm)",
    "AuthType": "the operator (auth/slurm)",
    "BackupAddr": "the operator",
    "BackupController": "the operator",
    "ControlAddr": "the operator",
    "ControlMachine": "the operator",
    "CredType": "the operator (auth/slurm)",
    "ClusterName": "spec.clusterName",
    "CommunicationParameters": "the operator",
    "DownNodes": "spec.pools",
    "EnforcePartLimits": "the operator (a job that can never run is refused at submit)",
    "GresTypes": "spec.pools[].machine.gpus",
    "HashPlugin": "the operator (all daemons have to change at once)",
    "Include": "the operator",
    "JobAcctGatherType": "spec.pools[].isolation",
    "MaxNodeCount": "spec.pools[].nodes.max",
    "MetricsType": "the operator",
    "NodeName": "spec.pools",
    "NodeSet": "spec.pools",
    "PartitionName": "spec.partitions",
    "PluginDir": "the image",
    "PlugStackConfig": "the operator",
    "PowerAction": "the operator (it starts and stops nodes)",
    "ProctrackType": "spec.pools[].isolation",
    "PrologSlurmctld": "the operator (it ends when the nodes of a job are up)",
    "ResumeFailProgram": "the operator (it starts and stops nodes)",
    "ResumeProgram": "the operator (it starts and stops nodes)",
    "ResumeRate": "the operator (it starts and stops nodes)",
    "ResumeTimeout": "spec.pools[].startTimeout",
    "ReturnToService": "the operator",
    "SlurmUser": "the image",
    "SlurmctldAddr": "the operator",
    "SlurmctldHost": "the operator",
    "SlurmctldLogFile": "the operator (logs go to standard error, see kubectl logs)",
    "SlurmctldParameters": "the operator",
    "SlurmctldPidFile": "the operator",
    "SlurmctldPort": "the operator",
    "SlurmctldPrimaryOffProg": "the operator",
    "SlurmctldPrimaryOnProg": "the operator",
    "SlurmdLogFile": "the operator (logs go to standard error, see kubectl logs)",
    "SlurmdParameters": "the operator",
    "SlurmdPidFile": "the operator",
    "SlurmdPort": "the operator",
    "SlurmdSpoolDir": "the operator",
    "SlurmdUser": "the operator",
    "StateSaveLocation": "spec.controller.storage",
    "SuspendExcNodes": "spec.pools[].nodes.min",
    "SuspendExcParts": "spec.pools[].nodes.min",
    "SuspendExcStates": "the operator (it starts and stops nodes)",
    "SuspendProgram": "the operator (it starts and stops nodes)",
    "SuspendRate": "the operator (it starts and stops nodes)",
    "SuspendTime": "spec.pools[].idleTimeout",
    "SuspendTimeout": "the operator (it starts and stops nodes)",
    "TLSType": "the operator (all daemons have to change at once)",
    "TaskPlugin": "spec.pools[].isolation",
}
"""Keys that the operator writes itself, and what to set instead."""


def settable(version: str) -> frozenset[str]:
    """Return the keys that ``spec.slurmConf`` may hold for a Slurm version."""
    return KEYS[version] - OWNED.keys()


def problem(key: str, version: str) -> str:
    """Say why a key may not be set; nothing if it may."""
    # Slurm does not mind the case of a key; we do, so that no key can be there twice.
    near = next((known for known in sorted(KEYS[version] | OWNED.keys()) if known.lower() == key.lower()), None)
    if near in OWNED:
        return f"{key} is set by {OWNED[near]}"
    if key in KEYS[version]:
        return ""
    return f"{key} is not a slurm.conf key of Slurm {version}" + (f"; did you mean {near}?" if near else "")


def rules() -> Iterable[Rule]:
    """Make the rules of the spec over ``slurmConf``: one a kind of refusal, since CEL cannot call ``problem``."""
    owned = _cel_map(OWNED)
    yield Rule(
        f"!has(self.slurmConf) || self.slurmConf.all(k, !(k in {owned}))",
        "slurmConf must not hold keys that the operator sets",
        _problems,
        message_expression=(
            f"self.slurmConf.filter(k, k in {owned}).map(k, '%s is set by %s'.format([k, {owned}[k]]))[0]"
        ),
        field_path=".slurmConf",
    )
    for version, keys in KEYS.items():
        known = _cel_map(dict.fromkeys(sorted(keys | OWNED.keys()), ""))
        yield Rule(
            f"!has(self.slurmConf) || self.slurmVersion != '{version}' || self.slurmConf.all(k, k in {known})",
            f"slurmConf must hold keys of Slurm {version} only",
            message_expression=(
                f"self.slurmConf.filter(k, !(k in {known}))"
                f".map(k, '%s is not a slurm.conf key of Slurm {version} (mind the case)'.format([k]))[0]"
            ),
            field_path=".slurmConf",
        )


def _problems(spec: Any) -> str:
    return "; ".join(said for key in spec.slurm_conf if (said := problem(key, spec.slurm_version)))


def _cel_map(values: Mapping[str, str]) -> str:
    return "{" + ",".join(f"'{key}':'{value}'" for key, value in values.items()) + "}"
