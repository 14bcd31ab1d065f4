"""The whole plan of one tick."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from slurmcluster_operator.decide.nodes import plan_nodes, pool_sizes, replace_broken
from slurmcluster_operator.decide.refresh import nudge, refresh
from slurmcluster_operator.manifests.build import content_hash
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.actions import Action
from slurmcluster_operator.model.observed import Observed


def resolve(cluster: Cluster, observed: Observed) -> Cluster:
    """Return the cluster with the node names that slurm.conf must know because their pods are still there."""
    return replace(cluster, sizes=pool_sizes(observed))


def make_plan(cluster: Cluster, observed: Observed, now: datetime) -> tuple[Action, ...]:
    """Return all actions of one tick, in the order in which they are carried out."""
    return (
        *refresh(observed, content_hash(cluster)),
        *nudge(observed, now),
        *replace_broken(observed),
        *plan_nodes(cluster, observed, now),
    )
