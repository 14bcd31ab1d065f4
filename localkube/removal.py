"""Taking a cluster down: nothing of it stays, and nothing of anybody else is touched."""

import shutil
from functools import partial

from localkube import cgroups, clients, host, machines, network, note
from localkube.console import say, together
from localkube.errors import LocalkubeError
from localkube.layout import State
from localkube.note import Note
from localkube.plan import CONTROL_PLANE
from localkube.shell import run


def remove(state: State) -> None:
    """Remove a cluster and everything that it left on the machine."""
    instance = state.instance
    noted = _end_machines(state)
    if network.holds_addresses(instance):
        begin = clients.turn_away(state)
        _remove_files(state)
        asking = clients.wait_for_end(instance, begin)
    else:
        _remove_files(state)
        asking = []
    _leave_host(state, noted)
    if asking:
        say(
            f"{', '.join(asking)} still asks for the cluster. The routes that refuse its packets stay, so that none of "
            "them leaves this machine; end it, then `down` once more removes the routes"
        )
    else:
        network.release_addresses(instance)


def clear(state: State) -> None:
    """Make room for a new cluster in place of this one: its addresses stay taken all the while."""
    noted = _end_machines(state)
    _remove_files(state)
    _leave_host(state, noted)


def _end_machines(state: State) -> Note:
    instance = state.instance
    owner = network.bridge_owner(instance)
    if owner and owner != str(state.root):
        raise LocalkubeError(
            f"another cluster runs here as instance {instance.number}; its state folder is {owner}",
            advice=f"End it first: LOCALKUBE_STATE={owner} python3 -m localkube down. "
            "Or take another number: LOCALKUBE_INSTANCE=1",
        )
    _refuse_foreign_folder(state)
    noted = note.read(state) or {}
    folders = [state.machine(path.name) for path in state.machines.glob("*")]
    together(*(partial(machines.kill, folder) for folder in folders))
    # By name, from our own note: a cable whose bridge is gone cannot be told from somebody else's.
    for node in note.plan(noted).nodes if noted else ():
        network.disconnect(instance, node.name)
    network.disconnect(instance, CONTROL_PLANE)
    network.remove_machines(instance)
    return noted


def _remove_files(state: State) -> None:
    """Remove all but the note, which a `down` after an interrupted one needs."""
    cgroups.remove(state.instance)
    for point in host.mounts_under(state.root):
        run(["umount", "--lazy", point])
    for path in state.root.glob("*"):
        if path.is_dir():
            shutil.rmtree(path)
        elif path != state.cluster:
            path.unlink()


def _leave_host(state: State, noted: Note) -> None:
    with host.changing():
        network.remove_bridge(state.instance)
        note.restore_host(state.instance, noted)
    if state.root.exists():
        shutil.rmtree(state.root)


def _refuse_foreign_folder(state: State) -> None:
    """Keep `remove` from a folder that this tool did not make: it deletes the whole of it."""
    if state.root.is_dir() and any(state.root.iterdir()) and not state.cluster.exists():
        raise LocalkubeError(
            f"{state.root} holds files, but no cluster: it is left alone",
            advice="Let LOCALKUBE_STATE name an empty or a new folder, or empty this one yourself.",
        )
