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
        ready = seen is not None and serves(seen, node.gpus)
        cable = "connected" if cable_is_connected(node) else "cut"
        rows.append((node.name, *_machine(running.state.machine(node.name)), cable, ready))
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
