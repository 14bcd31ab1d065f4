"""What is noted down about a cluster in its state folder, so that a later command finds it and can undo it."""

import json
from typing import Any

from localkube import host, network
from localkube.errors import LocalkubeError
from localkube.layout import State
from localkube.plan import Instance, Plan

Note = dict[str, Any]


def read(state: State) -> Note | None:
    """Return the note of the cluster in a state folder, complete or not."""
    try:
        note: Note = json.loads(state.cluster.read_text())
    except (FileNotFoundError, ValueError):
        return None
    found = plan(note).instance
    if found != state.instance:
        raise LocalkubeError(
            f"{state.root} holds instance {found.number}, not {state.instance.number}",
            advice=f"Set LOCALKUBE_INSTANCE={found.number} for it, or let LOCALKUBE_STATE name another folder.",
        )
    return note


def write(state: State, note: Note) -> None:
    """Write the note down."""
    state.cluster.write_text(json.dumps(note, indent=1))


def plan(note: Note) -> Plan:
    """Return what the noted cluster consists of."""
    return Plan.from_json(note["plan"])


def change_host(instance: Instance) -> Note:
    """Change what belongs to the whole machine, and return how it was before the first of its clusters came."""
    earlier: Note = {"sysctls": host.sysctls(), "folders": []}
    for neighbour, folder in network.neighbours(instance):
        earlier = read(State(folder, neighbour)) or earlier
    host.raise_limits()
    return {"sysctls": earlier["sysctls"], "folders": sorted({*earlier["folders"], *host.create_mount_points()})}


def restore_host(instance: Instance, note: Note) -> None:
    """Undo that with the last cluster: a folder that is removed takes with it what others have mounted there."""
    if not network.neighbours(instance):
        host.restore_sysctls(note.get("sysctls", {}))
        host.remove_folders(note.get("folders", []))
