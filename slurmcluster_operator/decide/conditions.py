"""Conditions: named checks over what was seen. The first violation of each gives its reason and message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from slurmcluster_operator.api.status import Condition, ConditionStatus
from slurmcluster_operator.decide.capacity import Feasible
from slurmcluster_operator.decide.ledger import double_claims
from slurmcluster_operator.decide.pods import pod_problem
from slurmcluster_operator.decide.pools import orphaned_pools, pool_problem
from slurmcluster_operator.decide.retire import retiring
from slurmcluster_operator.decide.seats import Seats
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.manifests.users import group_problems
from slurmcluster_operator.model import names
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.kube import Claim, Container, Pod
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import Slurm, Unknown


class Verdict(NamedTuple):
    """The value of one condition."""

    status: ConditionStatus
    reason: str
    message: str


_LABEL_LENGTH: Final = 63

_READY_PARTS: Final = (
    "SpecValid",
    "ControllerReady",
    "AccountingReady",
    "RestReady",
    "SlurmReachable",
    "LoginReady",
    "PoolsReady",
)
"""What must be True for an ordinary user's sbatch to run."""


def judge(
    cluster: Cluster, observed: Observed, seats: Seats, feasible: Feasible, memory: Memory, errors: Sequence[str]
) -> dict[str, Verdict]:
    """Return the verdict on every condition type. ``errors`` are what went wrong in carrying out the last plan."""
    verdicts = {
        "SpecValid": spec_valid(cluster, observed),
        "ControllerReady": _controller(cluster, observed),
        "ConfigApplied": _config_applied(observed),
        "AccountingReady": _accounting(cluster, observed),
        "RestReady": _rest(observed),
        "LoginReady": _part(observed, names.LOGIN, "sshd", cluster.home_claim, cluster.spec.login.replicas),
        "PoolsReady": _pools(cluster, feasible, seats, memory),
        "SlurmReachable": _reachable(observed),
        "FleetConsistent": consistent(cluster, observed),
        "Degraded": _degraded(errors),
    }
    return {"Ready": _ready(verdicts), **verdicts}


def to_conditions(
    verdicts: dict[str, Verdict], before: Iterable[Condition], now: str, generation: int
) -> tuple[Condition, ...]:
    """Turn verdicts into conditions; the transition time moves only when the status does."""
    old = {condition.type: condition for condition in before}
    result = []
    for kind, verdict in verdicts.items():
        same = old.get(kind)
        since = same.last_transition_time if same and same.status == verdict.status else now
        result.append(
            Condition(
                type=kind,
                status=verdict.status,
                reason=verdict.reason,
                message=verdict.message,
                last_transition_time=since,
                observed_generation=generation,
            )
        )
    return tuple(result)


def spec_valid(cluster: Cluster, observed: Observed) -> Verdict:
    """Judge what the API server cannot see."""
    problems = group_problems(cluster.spec.users)
    problems += [
        f"Secret {name} does not exist in namespace {cluster.names.namespace}" for name in observed.missing_secrets
    ]
    problems += [f"StorageClass {name} does not exist" for name in observed.missing_storage_classes]
    if len(cluster.names.fleet) > _LABEL_LENGTH:
        problems.append(
            f"{cluster.names.fleet} is longer than a label's {_LABEL_LENGTH} characters, so no node can be granted"
        )
    problems += [
        f"pool {name} is no longer in spec.pools but still has pods: nothing is changed until it is back, or until they"
        f" are gone (they wait for their jobs): kubectl -n {cluster.names.namespace} delete pod"
        f" -l {names.INSTANCE}={cluster.names.cluster},{names.POOL_LABEL}={name}"
        for name in orphaned_pools(cluster, observed)
    ]
    if observed.claim_missing:
        problems.append(f"home.existingClaim: there is no PersistentVolumeClaim {observed.claim_missing}")
    if problems:
        return Verdict("False", "Invalid", "; ".join(problems))
    going = "; ".join(retiring(cluster, observed))
    return Verdict("True", "Retiring" if going else "Valid", going)


def _ready(verdicts: dict[str, Verdict]) -> Verdict:
    failing = [kind for kind in _READY_PARTS if verdicts[kind].status != "True"]
    if not failing:
        return Verdict("True", "Ready", "jobs can be submitted")
    first = verdicts[failing[0]]
    others = f" (also not ready: {', '.join(failing[1:])})" if len(failing) > 1 else ""
    return Verdict("False", first.reason, f"{first.message}{others}")


def _part(observed: Observed, component: str, container: str, claim: str = "", replicas: int = 1) -> Verdict:
    """Judge a part by the container that does its work."""
    pods = observed.of(component)
    serving = [pod for pod in pods if _serves(pod, container)]
    if len(serving) >= replicas:
        return Verdict("True", "Running", "")
    waiting = _claim_problem(observed.claims.get(claim), observed)
    if waiting:
        return Verdict("False", "VolumeNotBound", waiting)
    broken = [pod_problem(pod) for pod in pods if not _serves(pod, container)]
    if not broken:
        return Verdict("False", "Missing", f"{len(pods)} of {replicas} {component} pods exist")
    reason, message = min(broken, key=lambda one: one[0] in {"Starting", "Terminating"})
    return Verdict("False", reason, message)


def _controller(cluster: Cluster, observed: Observed) -> Verdict:
    """Judge slurmctld. A job that comes amid the reconfiguration that ends a start is looked at only seconds later."""
    part = _part(observed, names.CONTROLLER, "slurmctld", cluster.names.state_claim)
    watchers = (_watcher(pod) for pod in observed.of(names.CONTROLLER))
    if part.status == "True" and any(one is not None and one.starting and not one.restarts for one in watchers):
        return Verdict("False", "Starting", "slurmctld saves its first state and tells its configuration to all nodes")
    return part


def _serves(pod: Pod, container: str) -> bool:
    return not pod.deleting and any(one.name == container and one.ready for one in pod.containers)


def _claim_problem(claim: Claim | None, observed: Observed) -> str:
    if claim is None or claim.phase != "Pending":
        return ""
    if claim.storage_class in observed.missing_storage_classes:
        return f"volume {claim.name} waits for StorageClass {claim.storage_class}, which does not exist"
    return ""


def _config_applied(observed: Observed) -> Verdict:
    pod = next(iter(observed.of(names.CONTROLLER)), None)
    workload = observed.workloads.get(names.CONTROLLER)
    if pod is None or workload is None:
        return Verdict("Unknown", "NoController", "slurmctld is not there")
    watcher = _watcher(pod)
    if watcher is not None and not watcher.ready:
        failed = _failure(watcher)
        return Verdict(
            "False", "ReconfigureFailed" if failed else "Applying", failed or "slurmctld is being reconfigured"
        )
    if workload.revision and pod.revision and pod.revision != workload.revision:
        return Verdict("False", "RestartNeeded", _restart_message(pod))
    return Verdict("True", "Applied", "slurmctld runs with the configuration of the spec")


def _watcher(pod: Pod) -> Container | None:
    """Return the container that brings configuration to slurmctld."""
    return next((one for one in pod.containers if one.name == "config"), None)


def _failure(watcher: Container) -> str:
    return watcher.message if watcher.restarts or watcher.waiting == "CrashLoopBackOff" else ""


def _restart_message(pod: Pod) -> str:
    return (
        "slurmctld still runs in a pod of the old template (image, resources or placement); restart it when it suits,"
        f" running jobs go on: kubectl delete pod {pod.name}"
    )


def _accounting(cluster: Cluster, observed: Observed) -> Verdict:
    if not cluster.accounting:
        return Verdict("True", "Disabled", "accounting is off")
    if cluster.spec.accounting.database.embedded_or_default:
        database = _part(observed, names.DATABASE, "mariadb", cluster.names.database_claim)
        if database.status != "True":
            return database
    daemon = _part(observed, names.ACCOUNTING, "slurmdbd")
    if daemon.status != "True":
        return daemon
    if isinstance(observed.slurm, Slurm) and observed.slurm.accounting_connected is False:
        return Verdict(
            "False", "NotConnected", "slurmctld has no connection to slurmdbd yet; it keeps its records until then"
        )
    return daemon


def _rest(observed: Observed) -> Verdict:
    part = _part(observed, names.RESTAPI, "slurmrestd")
    if part.status == "True" and isinstance(observed.slurm, Unknown):
        pods = ", ".join(pod.name for pod in observed.of(names.RESTAPI))
        return Verdict("False", "NoAnswer", f"{observed.slurm.reason} (pod {pods})")
    return part


def _reachable(observed: Observed) -> Verdict:
    if isinstance(observed.slurm, Unknown):
        return Verdict("False", "NoAnswer", observed.slurm.reason)
    return Verdict("True", "Answering", "")


def _pools(cluster: Cluster, feasible: Feasible, seats: Seats, memory: Memory) -> Verdict:
    found = [pool_problem(cluster, feasible, pool, seats[pool.name], memory) for pool in cluster.spec.pools]
    problems = [problem for problem in found if problem]
    if not problems:
        return Verdict("True", "Ready", "")
    return Verdict("False", problems[0][0], "; ".join(message for _, message in problems))


def consistent(cluster: Cluster, observed: Observed) -> Verdict:
    """Judge whether every node of the fleet has one owner, and whether the API server sees to that."""
    found = double_claims(cluster, observed)
    if found:
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""  # noqa: PLR2004
        return Verdict("False", "DoubleClaim", "; ".join(claim.words for claim in found[:3]) + more)
    if not observed.fleet.enforced:
        return Verdict("True", "Unenforced", observed.fleet.unenforced_because)
    return Verdict("True", "OneOwner", "")


def _degraded(errors: Sequence[str]) -> Verdict:
    if errors:
        return Verdict("True", "ActionFailed", "; ".join(errors)[:2000])
    return Verdict("False", "AsExpected", "")
