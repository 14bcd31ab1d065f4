"""The loops' last status as Prometheus reads it.

Nothing is counted here: a scrape reads what each cluster's last look has found. A cluster that is gone has no figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Metric, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from slurmcluster_operator.api.status import SlurmClusterStatus
from slurmcluster_operator.runtime.loop import ClusterLoop

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
"""What HTTP calls the text."""

_CLUSTER: Final = ("namespace", "cluster")
_FLEET: Final = ("granted", "owned", "claiming", "releasing", "foreign")
_POOL: Final = ("desired", "feasible", "ready", "busy", "idle", "drained", "starting")
_QUEUE: Final = ("running", "pending")

Key = tuple[str, str]


class Metrics(Collector):
    """Reads ``loops``, by namespace and name, each time that it is asked. ``enforced`` tells whether admission is."""

    def __init__(self, loops: Mapping[Key, ClusterLoop], enforced: Callable[[], bool]) -> None:
        self._loops = loops
        self._enforced = enforced
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> str:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry).decode()

    def collect(self) -> Iterable[Metric]:
        """Return all gauges. A cluster that has not been looked at yet has none."""
        seen = [(key, loop.status) for key, loop in self._loops.items()]
        known = [(key, status) for key, status in seen if status is not None]
        yield _gauge("fleet_nodes", "Kubernetes nodes, in the words of status.fleet.", "state", _fleet(known))
        yield _gauge("fleet_double_claims", "Pods on nodes that are not theirs to use.", "", _double_claims(known))
        yield _gauge("fleet_double_claim", "1 for each of these pods.", "node pod", self._each_double_claim())
        yield _gauge("nodes", "Slurm nodes, in the words of status.pools; they overlap.", "pool state", _pools(known))
        running = "Jobs that have a node of the pool, or wait for nodes and could run on it."
        yield _gauge("pool_jobs", running, "pool state", _pool_jobs(known))
        asked = "Nodes that the jobs ask for which wait and could run on the pool."
        yield _gauge("pool_pending_nodes", asked, "pool", _pool_nodes(known))
        yield _gauge("jobs", "Jobs; each task of an array counts.", "state", _jobs(known))
        enforced = "1 while the API server refuses what would break the rules of ownership."
        yield GaugeMetricFamily("slurmcluster_fleet_enforced", enforced, value=self._enforced())

    def _each_double_claim(self) -> Iterator[tuple[tuple[str, ...], int]]:
        for key, loop in self._loops.items():
            yield from sorted({((*key, claim.node, claim.pod), 1) for claim in loop.double_claims})


Known = Iterable[tuple[Key, SlurmClusterStatus]]
Samples = Iterable[tuple[tuple[str, ...], int]]


def _gauge(name: str, meaning: str, labels: str, samples: Samples) -> Metric:
    gauge = GaugeMetricFamily(f"slurmcluster_{name}", meaning, labels=(*_CLUSTER, *labels.split()))
    for values, number in samples:
        gauge.add_metric(values, number)
    return gauge


def _fleet(known: Known) -> Samples:
    return (((*key, state), getattr(status.fleet, state)) for key, status in known for state in _FLEET)


def _double_claims(known: Known) -> Samples:
    return ((key, status.fleet.double_claims) for key, status in known)


def _pools(known: Known) -> Samples:
    return (
        ((*key, pool.name, state), getattr(pool, state))
        for key, status in known
        for pool in status.pools
        for state in _POOL
    )


def _pool_jobs(known: Known) -> Samples:
    return (
        ((*key, pool.name, state), getattr(pool, state))
        for key, status in known
        for pool in status.pools
        for state in _QUEUE
    )


def _pool_nodes(known: Known) -> Samples:
    return (((*key, pool.name), pool.pending_nodes) for key, status in known for pool in status.pools)


def _jobs(known: Known) -> Samples:
    return (((*key, state), getattr(status.queue, state)) for key, status in known for state in _QUEUE)
