"""Telling slurmctld: drains, power, failed starts, comments; each with an Event that people see."""

from __future__ import annotations

from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.actions import CommentJob, Drain, GiveUp, PowerDown, PowerUp, Resume, Tell, Undrain
from slurmcluster_operator.model.names import DRAIN_PREFIX
from slurmcluster_operator.runtime.events import Events, listed
from slurmcluster_operator.slurm.client import SlurmRest


class Telling:
    """Carries out what a plan has for slurmctld."""

    def __init__(self, events: Events) -> None:
        self._events = events

    async def tell(self, cluster: Cluster, action: Tell, rest: SlurmRest) -> None:
        """Carry out one action. Raises ``SlurmError``."""
        if isinstance(action, CommentJob):
            await rest.comment(action.job, action.text)
            return
        states, reason, event, words = _order(action)
        await rest.update_nodes(action.nodes, states, reason)
        await self._events.post(
            cluster, event, f"{listed(action.nodes)}: {words}", "Warning" if isinstance(action, GiveUp) else "Normal"
        )


def _order(action: Drain | Undrain | PowerUp | PowerDown | GiveUp | Resume) -> tuple[list[str], str, str, str]:
    """Return the states and the reason that slurmctld is given, and the Event's reason and words."""
    match action:
        case Drain():
            return ["DRAIN"], action.reason, "Drained", _plain(action.reason)
        case Undrain():
            return ["UNDRAIN"], "", "Undrained", "what they were drained for is over"
        case PowerUp():
            return ["POWER_UP"], "", "PoweredUp", action.why
        case PowerDown():
            return ["POWER_DOWN"], "", "PoweredDown", action.why
        case GiveUp():
            return ["DOWN"], action.reason, "StartFailed", _plain(action.reason)
        case Resume():
            return ["RESUME"], "", "Resumed", "they may be tried again"


def _plain(reason: str) -> str:
    return reason.removeprefix(DRAIN_PREFIX).strip()
