"""What `status` prints."""

from localkube import machines, plan
from localkube.cluster import Cluster
from localkube.errors import LocalkubeError
from localkube.layout import MachineFolder
from localkube.network import cable_is_connected
from localkube.waiting import serves


def show(running: Cluster) -> int:
    """Print the state of every machine; 0 when all is well."""
    try:
        objects = running.api.nodes()
    except LocalkubeError as error:
        print(error)
        objects = {}
    rows = [(plan.CONTROL_PLANE, *_machine(running.state.machine(plan.CONTROL_PLANE)), "-", objects != {})]
    for node in running.plan.nodes:
        seen = objects.get(node.name)
        folder = running.state.machine(node.name)
        power, words = _machine(folder)
        cable = "connected" if cable_is_connected(node) else "cut"
        # A dead node's object says Ready until the control plane misses its heartbeats.
        reachable = power == "on" and cable == "connected"
        ready = reachable and seen is not None and serves(seen, node.gpus, machines.started_at(folder))
        rows.append((node.name, power, words, cable, ready))
    print(f"{'MACHINE':<16}{'POWER':<8}{'CABLE':<12}{'READY':<8}SERVICES (starts)")
    for name, power, services, cable, ready in rows:
        print(f"{name:<16}{power:<8}{cable:<12}{'yes' if ready else 'no':<8}{services}")
    return 0 if all(row[-1] and row[1] == "on" and "down" not in row[2] for row in rows) else 1


def _machine(folder: MachineFolder) -> tuple[str, str]:
    if machines.pid_of(folder) is None:
        return "off", "-"
    services = machines.statuses(folder)
    words = [f"{n}({s['starts']})" + ("" if s["running"] else " down") for n, s in services.items()]
    return "on", " ".join(words)
