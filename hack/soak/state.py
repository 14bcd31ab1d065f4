"""How things stand when a soak has found something wrong: the cluster is about to go."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from hack import local
from hack.kube import Chart
from hack.shell import CommandError
from hack.soak import scene
from hack.soak.stage import NoAnswerError, Stage
from localkube.layout import State

_LINES: Final = "--tail=5000"
_SLURM: Final = ("squeue -a", "scontrol show jobs", "scontrol show nodes", "sinfo -R", "date")


def keep(stage: Stage, file: Path) -> None:
    """Write what Slurm, Kubernetes and the operator say now, one under the other; what does not answer says so."""
    operator = ("-n", Chart(local.ROOT).namespace, "logs", f"deployment/{Chart(local.ROOT).release}", _LINES)
    controller = ("logs", f"{scene.NAME}-controller-0", _LINES, "--all-containers", "--prefix")
    asked: Mapping[str, Callable[[], str]] = {
        **{command: lambda command=command: stage.slurm(command) for command in _SLURM},  # type: ignore[misc]
        "SlurmCluster": lambda: stage.inside.text("get", "slc", scene.NAME, "-o", "yaml"),
        "pods": lambda: stage.everywhere.text("get", "pods", "-A", "-o", "wide"),
        "nodes": lambda: stage.everywhere.text("get", "nodes", "-o", "yaml"),
        "pods of others": lambda: stage.everywhere.text("-n", scene.OTHERS, "get", "pods", "-o", "yaml"),
        "Events": lambda: stage.everywhere.text("get", "events", "-A", "--sort-by=.lastTimestamp"),
        "operator": lambda: stage.everywhere.text(*operator),
        "slurmctld": lambda: stage.inside.text(*controller),
        "the slurmctld before": lambda: stage.inside.text(*controller, "--previous"),
        **{f"kubelet of {name}": file.read_text for name, file in _kubelet_logs().items()},
    }
    file.write_text("\n".join(f"=== {title}\n{_answer(ask)}" for title, ask in asked.items()))


def _kubelet_logs() -> dict[str, Path]:
    """Return the log of each machine's kubelet; on another Kubernetes than localkube there are none."""
    found = sorted(State.from_environment().machines.glob("*/logs/kubelet.log"))
    return {file.parent.parent.name: file for file in found}


def _answer(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except (CommandError, NoAnswerError) as error:
        return str(error)
